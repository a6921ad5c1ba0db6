"""`--dry_run`: finds faults in a run and predicts its cost before it starts.

Reads all the data, tries the largest batch in a separate process, times some real batches, and
writes nothing to the run folder.
"""

import dataclasses
import math
import pathlib
import statistics
from collections.abc import Sequence
from typing import Self

import numpy as np
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import DataStatistics, count_examples
from t2t_lite.data.example_reader import ExampleReader
from t2t_lite.data.generation.inspection import inspect_split
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.errors import DataError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.progress import duration
from t2t_lite.runs import checkpoint_files
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preflight import memory
from t2t_lite.training.preflight.probe import Cost, DoesNotFitError, Request, measure
from t2t_lite.training.resolved_settings import resolve_hparams
from t2t_lite.training.start import excess_of_batches, size_of_batches

_SECONDS = 600.0  # for each of the two probes
_TIMED_BATCHES = 10
_MIB = 2**20


@dataclasses.dataclass(frozen=True)
class MemoryModel:
    """Memory of a step for a batch [B, L]: `fixed + cell · B · L + pair · B · L²`, at least `base`.

    The activations that a sub-layer keeps for the backward pass grow with the cells of a batch,
    attention weights with pairs of positions. The smallest steps need `base`: their gradients and
    update, which follow when activations have been freed, need more than the activations.

    Attributes:
        base: bytes of a step on a tiny batch.
        fixed: bytes that do not depend on the batch.
        cell: bytes per cell of one side.
        pair: bytes per pair of positions in a sentence.
    """

    base: float
    fixed: float
    cell: float
    pair: float

    @classmethod
    def fit(cls, base: int, shapes: Sequence[tuple[int, int]], peaks: Sequence[int]) -> Self:
        """Fits the model to measurements, by least squares.

        Args:
            base: bytes of a step on a tiny batch.
            shapes: (B, L) of the measured steps.
            peaks: bytes of each measured step.
        """
        powers = np.array([[1, b * n, b * n * n] for b, n in shapes], np.float64)
        scale = powers.max(axis=0)
        fixed, cell, pair = np.linalg.lstsq(powers / scale, np.array(peaks, np.float64))[0] / scale
        return cls(float(base), float(fixed), max(float(cell), 0.0), max(float(pair), 0.0))

    def __call__(self, sentences: int, length: int) -> float:
        """Returns the bytes of a step on parts of `sentences` × `length` subwords per side."""
        cells = sentences * length
        return max(self.base, self.fixed + (self.cell + self.pair * length) * cells)


def dry_run(config: TrainerConfig, t2t_usr_dir: str = "") -> None:
    """Checks a run and prints a report.

    Args:
        config: the run.
        t2t_usr_dir: as for the command; empty: none.
    """
    tf.config.set_visible_devices([], "GPU")  # leaves all GPU memory to the probes
    hparams = resolve_hparams(config)
    data = _check_data(config, hparams)
    available = memory.available()
    request = Request(config, t2t_usr_dir, memory_limit=available)
    buckets = list(zip(data.scheme.batch_sizes, data.scheme.longest, strict=True))

    small = [
        (math.ceil(sentences / share), length)
        for share in (4, 2)
        for sentences, length in (buckets[0], buckets[-1])
    ]
    cost = _measure(dataclasses.replace(request, shapes=small), hparams)
    _print_model(cost, hparams)
    model = MemoryModel.fit(cost.base, small, cost.peaks)
    _print_buckets(model, data)

    worst = max(buckets, key=lambda shape: model(*shape))
    print(
        f"largest batch: {worst[0]:,} × {worst[1]:,}, predicted {_mib(model(*worst))} MiB, ", end=""
    )
    cost = _measure(dataclasses.replace(request, shapes=[worst], batches=_TIMED_BATCHES), hparams)
    print(f"measured {_mib(cost.peaks[0])} MiB", end="")
    print("" if cost.on_gpu else f" of {_mib(available)} MiB available")
    _print_time(cost, data, config)


def _check_data(config: TrainerConfig, hparams: BasicHParams) -> DataStatistics:
    """Reads all data of the run; returns statistics of the training data."""
    problem = registry.problem(config.problem)
    encoders = problem.get_feature_encoders(config.data_dir)
    for side, encoder in encoders.items():
        print(f"vocabulary of {side}: {encoder.vocab_size:,} subwords")
    reader = ExampleReader.of(problem, hparams)
    splits = [DatasetSplit.TRAIN]
    if config.schedule != "train":
        splits.append(config.eval_split)
    seed = config.random_seed or 0
    counts = []
    for split in splits:
        paths = problem.existing_filepaths(config.data_dir, split)
        for fault, (count, where) in inspect_split(paths, reader, encoders).faults.items():
            raise DataError(
                f"{SPLIT_FILE_NAMES[split]} data in {config.data_dir}: {fault}: {count:,}, first "
                f"{where}; regenerate the files with t2t-datagen --problem={problem.base_name}"
            )
        is_training = split == DatasetSplit.TRAIN
        scheme = BatchingScheme.from_hparams(hparams, is_training)
        rewriter = Rewriter.of(hparams, reader, encoders, seed) if is_training else None
        counts.append(count_examples(paths, scheme, reader, limit=None, rewriter=rewriter))
        print(f"{SPLIT_FILE_NAMES[split]}: {counts[-1]}")
    return counts[0]


def _measure(request: Request, hparams: BasicHParams) -> Cost:
    try:
        return measure(request, _SECONDS)
    except DoesNotFitError as error:
        sentences, length = request.shapes[-1]
        raise UserError(
            f"a batch of {sentences} × {length} subwords per side fails: {error}; lower "
            f"batch_size={hparams.batch_size} or max_length={hparams.max_length} with --hparams, "
            "or find the largest batch that fits with --find_batch_size"
        ) from None


def _print_model(cost: Cost, hparams: BasicHParams) -> None:
    print(size_of_batches(hparams, cost.parts, cost.replicas))
    if line := excess_of_batches(hparams, cost.parts):
        print(line)
    print(
        f"MiB per device: weights {_mib(cost.weights)}, their gradients {_mib(cost.gradients)}, "
        f"optimizer {_mib(cost.slots)}"
    )


def _print_buckets(model: MemoryModel, data: DataStatistics) -> None:
    print(
        "memory of a step, estimated from a quarter and a half of the batches with the shortest "
        f"and the longest sentences: {_mib(model.fixed)} MiB + {model.cell / 1024:,.1f} KiB × "
        f"cells of one side + {model.pair / 1024:,.2f} KiB × pairs of positions, at least "
        f"{_mib(model.base)} MiB"
    )
    print(f"{'length':>7}  {'sentences':>9}  {'subwords':>8}  {'MiB':>8}  {'examples':>11}")
    for sentences, length, examples in zip(
        data.scheme.batch_sizes, data.scheme.longest, data.by_bucket, strict=True
    ):
        predicted = _mib(model(sentences, length))
        print(
            f"{length:>7,}  {sentences:>9,}  {sentences * length:>8,}  {predicted:>8}  "
            f"{examples:>11,}"
        )


def _print_time(cost: Cost, data: DataStatistics, config: TrainerConfig) -> None:
    seconds = statistics.mean(cost.seconds)
    done = checkpoint_files.whole_checkpoints(pathlib.Path(config.output_dir))
    left = config.train_steps
    steps = f"{left:,} steps"
    if done:
        left = max(left - checkpoint_files.step_of(done[-1]), 0)
        steps = f"the {left:,} steps that remain"
    epoch = sum(
        examples / (sentences * cost.parts)
        for examples, sentences in zip(data.by_bucket, data.scheme.batch_sizes, strict=True)
    )
    print(
        f"a step takes {seconds:.3g} s, the mean of {len(cost.seconds)} batches of the data; "
        f"an epoch of {epoch:,.1f} steps {duration(epoch * seconds)}; {steps} "
        f"{duration(left * seconds)}, without evaluations and checkpoints"
    )


def _mib(size: float) -> str:
    return f"{size / _MIB:,.0f}"
