"""The cost of a run so far: summary.json, and the last lines of the trainer's log.

Training time is the time in steps, without evaluations. It is summed over the processes of a run,
each up to its last checkpoint: what a killed process did after it is not counted.
"""

import dataclasses
import json
import logging
import math
import pathlib
import time
from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_lite import files
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.progress import duration
from t2t_lite.runs.metrics_jsonl import read_records
from t2t_lite.runs.run_folder import SUMMARY, read_summary
from t2t_lite.training.totals import Totals

log = logging.getLogger(__name__)

_MAX_ROWS = 2048  # of the measured products: more do not make them faster
_MIN_SECONDS = 0.1  # of a measurement


class Hardware(NamedTuple):
    """The devices, and how fast they multiply matrices."""

    devices: int  # logical devices on one CPU count as one
    gemm_rate: float  # of one device, in floating-point operations per second

    @classmethod
    def measure(cls, strategy: tf.distribute.Strategy, model: Seq2Seq) -> "Hardware":
        """Measures the first device of this process with `gemm_rate`."""
        local: Sequence[str] = strategy.extended.worker_devices
        replicas = strategy.num_replicas_in_sync
        devices = replicas if "GPU" in local[0] else replicas // len(local)
        return cls(devices, gemm_rate(model, model.hparams.batch_size, local[0]))

    @property
    def rate(self) -> float:
        """Operations per second of all devices."""
        return self.devices * self.gemm_rate


@dataclasses.dataclass
class Summary:
    """The cost of a run: the fields of summary.json."""

    steps: int = 0
    sentences: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    train_seconds: float = 0.0  # time in steps, summed over processes
    # Floating-point operations of matrix products without padding; 0 if the model does not tell.
    flops_by_count: float = 0.0
    # Paper, section 6.1: training time × devices × sustained rate of a device, here measured.
    flops_by_time: float = 0.0
    # For the newest process:
    devices: int = 0
    gemm_flops_per_second: float = 0.0  # of one device
    utilisation: float = 0.0  # counted operations per second / sustained rate of all devices


class CostTracker:
    """Updates the summary of a run while one process trains.

    Args:
        folder: the run folder, with the records of metrics.jsonl up to `step`.
        step: number of updates before this process.
        window: `Totals` since the last record, already restored.
        hardware: the devices.
    """

    def __init__(
        self, folder: pathlib.Path, step: int, window: tf.Variable, hardware: Hardware
    ) -> None:
        self._folder = folder
        self._step = step
        self._window = window
        self._hardware = hardware
        self._began = time.monotonic()
        earlier = read_summary(folder)
        self._train_seconds: float = earlier.get("train_seconds", 0.0)
        self._flops_by_time: float = earlier.get("flops_by_time", 0.0)
        self._flops_before = self._counted()["flops"]

    def update(self, step: int, seconds: float) -> Summary:
        """Writes summary.json.

        Args:
            step: number of updates so far.
            seconds: time that this process has spent in steps.
        """
        counted = self._counted()
        done = counted["flops"] - self._flops_before
        able = seconds * self._hardware.rate
        summary = Summary(
            steps=step,
            sentences=int(counted["sentences"]),
            source_tokens=int(counted["source_tokens"]),
            target_tokens=int(counted["target_tokens"]),
            train_seconds=self._train_seconds + seconds,
            flops_by_count=counted["flops"],
            flops_by_time=self._flops_by_time + able,
            devices=self._hardware.devices,
            gemm_flops_per_second=self._hardware.gemm_rate,
            utilisation=done / able if able else 0.0,
        )
        text = json.dumps(dataclasses.asdict(summary), indent=1) + "\n"
        files.write_text(self._folder / SUMMARY, text)
        return summary

    def log(self, step: int, seconds: float) -> None:
        """Writes summary.json and logs its contents, if there is anything new."""
        if step == self._step:
            return
        summary = self.update(step, seconds)
        log.info(
            "in total %s steps, %s source + %s target tokens, %s sentences, %s of training; "
            "this process: %s, of which %s in steps",
            *(
                f"{number:,}"
                for number in (
                    summary.steps,
                    summary.source_tokens,
                    summary.target_tokens,
                    summary.sentences,
                )
            ),
            *map(duration, (summary.train_seconds, time.monotonic() - self._began, seconds)),
        )
        by_time = f"{summary.flops_by_time:.2e} by time × devices × sustained rate"
        rate = f"{summary.devices} × {summary.gemm_flops_per_second:.2e} FLOP/s"
        if not summary.flops_by_count:
            log.info("training FLOPs: %s (%s)", by_time, rate)
            return
        log.info(
            "training FLOPs: %.2e by count of matrix products, %s; utilisation %.0f %% of %s, "
            "the rate of matrix products measured at start",
            summary.flops_by_count,
            by_time,
            100.0 * summary.utilisation,
            rate,
        )

    def _counted(self) -> dict[str, float]:
        """Returns sums over all training so far."""
        window = Totals(*self._window.numpy().tolist())
        sums = {
            "sentences": window.sentences,
            "source_tokens": window.source_tokens,
            "target_tokens": window.tokens,
            "flops": window.flops,
        }
        for _, record in read_records(self._folder):
            if record["kind"] == "train":
                for name in sums:
                    sums[name] += record.get(name, 0)
        return sums


def gemm_rate(model: Seq2Seq, tokens: int, device: str) -> float:
    """Measures how fast a device multiplies matrices of the shapes used in training.

    The products are those of a feed-forward network with the model's largest kernel [n, m]:
    [tokens, n] × [n, m], and the result × [m, n], in the model's dtype.

    Args:
        model: determines the kernel and the dtype.
        tokens: number of rows: positions of one side of a batch.
        device: TensorFlow's name of the device.

    Returns:
        Floating-point operations per second.
    """
    matrices = [w for w in model.weights if len(w.shape) == 2]
    kernels = [w for w in matrices if w.name == "kernel"] or matrices  # rather than embeddings
    n, m = max((w.shape for w in kernels), key=math.prod)
    rows = min(tokens, _MAX_ROWS)
    pairs = 16 if "GPU" in device else 1  # per turn of the loop: a GPU waits between turns
    with tf.device(device):
        # Unit variance of inputs and outputs avoids overflow in half precision and denormals.
        x, wide, narrow = (
            tf.cast(
                tf.random.stateless_normal(shape, (0, 0), stddev=deviation), model.compute_dtype
            )
            for shape, deviation in (((rows, n), 1.0), ((n, m), n**-0.5), ((m, n), m**-0.5))
        )

        @tf.function
        def multiply(turns: tf.Tensor) -> tf.Tensor:
            y = x
            for _ in tf.range(turns):
                for _ in range(pairs):
                    y = tf.matmul(tf.matmul(y, wide), narrow)
            return y[0, 0]

        multiply(tf.constant(1)).numpy()  # compiles
        turns, seconds = 0, 0.0
        while seconds < _MIN_SECONDS:
            turns = max(1, 2 * turns)
            start = time.perf_counter()
            multiply(tf.constant(turns)).numpy()
            seconds = time.perf_counter() - start
    return turns * pairs * 2 * (2.0 * rows * n * m) / seconds
