"""Measures the memory and time of training steps in a separate process.

So running out of memory ends only that process. There,
`python -m t2t_lite.bin.console t2t_lite.training.preflight.probe` reads a `Request` as JSON from
its input and writes the answer, a line of JSON, to its output.
"""

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_lite import registry, t2t_flags, usr_dirs
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs.opening import seed_and_parts
from t2t_lite.training import devices
from t2t_lite.training.cluster.cluster import Cluster
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.features import batch_of_ones
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.preflight import memory
from t2t_lite.training.resolved_settings import resolve_hparams
from t2t_lite.training.step import TrainStep
from t2t_lite.training.training_data import TrainingData

# The first steps of every process, (sentences, subwords per side): TensorFlow traces the step
# again when sizes first change, and not after that.
_WARM_UP = ((1, 8), (2, 9), (1, 8))
_TIMING_SECONDS = 60.0  # batches of real data are timed for this long


class DoesNotFitError(Exception):
    """A step needs more memory than is available, or more time than allowed."""


@dataclasses.dataclass(frozen=True)
class Request:
    """The steps to take.

    Attributes:
        config: the run; its folder is not written to.
        t2t_usr_dir: as for the command; empty: none.
        shapes: (sentences, subwords per side) of the parts of batches, one step for each.
        batches: number of steps on real batches to time after that.
        memory_limit: bytes of main memory; None: no limit. Ignored on GPUs, which have their own.
        flags: values of flags that user directories read.
    """

    config: TrainerConfig
    t2t_usr_dir: str = ""
    shapes: Sequence[tuple[int, int]] = ()
    batches: int = 0
    memory_limit: int | None = None
    flags: Mapping[str, Any] = dataclasses.field(default_factory=t2t_flags.given)


@dataclasses.dataclass(frozen=True)
class Cost:
    """The cost of the steps. Memory is a GPU's, or else that of the whole process.

    Attributes:
        replicas: R, the number of devices.
        parts: W, the parts of a batch.
        on_gpu: whether memory is a GPU's.
        weights: bytes of the model's weights on one device.
        gradients: bytes of the gradients of those that are not frozen.
        slots: bytes of the optimizer's variables on one device.
        base: peak bytes of a tiny step.
        peaks: peak bytes of each step of `shapes`.
        seconds: duration of each step on a real batch.
    """

    replicas: int
    parts: int
    on_gpu: bool
    weights: int
    gradients: int
    slots: int
    base: int
    peaks: list[int]
    seconds: list[float]


def measure(request: Request, timeout: float) -> Cost:
    """Takes the steps in another process.

    Args:
        request: the steps.
        timeout: seconds for the whole process.

    Raises:
        DoesNotFitError: memory or time ran out, or the process was killed; the message says which.
        UserError: the settings or the data are invalid, or there is more than one worker.
    """
    config = request.config
    if not Cluster.of(config.worker_hosts, config.worker_id).is_alone:
        raise UsageError(
            "--find_batch_size and --dry_run use a single machine: omit --worker_hosts, "
            "--worker_id and TF_CONFIG, and pass the batch size found to all workers"
        )
    try:
        done = subprocess.run(
            [sys.executable, "-m", "t2t_lite.bin.console", "t2t_lite.training.preflight.probe"],
            input=json.dumps(dataclasses.asdict(request), default=str),
            capture_output=True,
            text=True,
            timeout=timeout,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
        )
    except subprocess.TimeoutExpired:
        raise DoesNotFitError(f"not done in {timeout:.0f} s") from None
    if done.returncode < 0:  # killed by the kernel or by itself, because memory ran out
        raise DoesNotFitError(f"killed by signal {-done.returncode}")
    if done.returncode:
        raise RuntimeError(f"the probe of a training step failed:\n{done.stderr}")
    answer = json.loads(done.stdout.splitlines()[-1])
    if "wrong" in answer:
        raise UserError(answer["wrong"])
    if "exhausted" in answer:
        raise DoesNotFitError(answer["exhausted"])
    return Cost(**answer)


def _take_steps(request: Request) -> Cost:
    """Builds the same objects as the trainer, and takes the steps in this process."""
    config = request.config
    if request.t2t_usr_dir:
        t2t_flags.publish(request.flags)
        usr_dirs.import_usr_dir(request.t2t_usr_dir)
    hparams = resolve_hparams(config)
    strategy = devices.make_strategy(config.worker_gpu, config.simulate_devices)
    gpus = [
        name.rpartition("device:")[2]  # "GPU:0"
        for name in strategy.extended.worker_devices
        if "GPU" in name
    ]
    if request.memory_limit is not None and not gpus:
        memory.limit(request.memory_limit)
    seed, parts = seed_and_parts(
        config.output_dir,
        config.random_seed,
        hparams,
        strategy.num_replicas_in_sync,
        ignore_unstarted=True,
    )
    problem = registry.problem(config.problem)
    encoders = problem.get_feature_encoders(config.data_dir)
    with strategy.scope():
        model = registry.model(config.model)(
            hparams, encoders["inputs"].vocab_size, encoders["targets"].vocab_size
        )
        optimizer = make_optimizer(hparams)
        optimizer.build(model.trainable_variables)
    train_step = TrainStep(strategy, model, optimizer, parts, seed)
    peaks = []
    for sentences, length in (*_WARM_UP, *request.shapes):
        ones = batch_of_ones(parts, sentences, length, hparams.is_guided)
        _reset_peaks(gpus)
        _seconds(train_step, ones)
        peaks.append(_peak(gpus))
    seconds: list[float] = []
    if request.batches:
        data = TrainingData(problem, config.data_dir, hparams, seed, encoders)
        seconds = _timed(train_step, itertools.islice(data.batches(parts), request.batches))
    return Cost(
        replicas=strategy.num_replicas_in_sync,
        parts=parts,
        on_gpu=bool(gpus),
        weights=_bytes(model.weights),
        gradients=_bytes(model.trainable_variables),
        slots=_bytes(optimizer.variables),
        base=peaks[len(_WARM_UP) - 1],
        peaks=peaks[len(_WARM_UP) :],
        seconds=seconds,
    )


def _timed(train_step: TrainStep, batches: Iterable[dict[str, tf.Tensor]]) -> list[float]:
    """Returns the seconds of a step for each batch, until `_TIMING_SECONDS` have passed."""
    seconds: list[float] = []
    start = time.monotonic()
    for batch in batches:
        _seconds(train_step, batch)  # may compile
        seconds.append(_seconds(train_step, batch))
        if time.monotonic() - start > _TIMING_SECONDS:
            break
    return seconds


def _seconds(train_step: TrainStep, features: dict[str, tf.Tensor]) -> float:
    """Takes a step, including the update of the weights; returns its duration."""
    start = time.monotonic()
    train_step(features, step=0).numpy()
    return time.monotonic() - start


def _reset_peaks(gpus: Sequence[str]) -> None:
    """Restarts the measurement of `_peak`."""
    for name in gpus:
        tf.config.experimental.reset_memory_stats(name)
    if not gpus:
        memory.reset_peak()


def _peak(gpus: Sequence[str]) -> int:
    """Returns the peak memory in bytes: the largest of all GPUs, or else that of this process."""
    if not gpus:
        return memory.peak()
    return max(tf.config.experimental.get_memory_info(name)["peak"] for name in gpus)


def _bytes(variables: Sequence[keras.Variable]) -> int:
    return sum(
        variable.shape.num_elements() * tf.as_dtype(variable.dtype).size for variable in variables
    )


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    config = TrainerConfig(**request.pop("config"))
    try:
        return dataclasses.asdict(_take_steps(Request(config, **request)))
    except UserError as error:
        return {"wrong": str(error)}
    except (MemoryError, tf.errors.ResourceExhaustedError):
        return {"exhausted": "out of memory"}


if __name__ == "__main__":
    print(json.dumps(_answer(json.load(sys.stdin))), flush=True)
