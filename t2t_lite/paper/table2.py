"""Table 2: training cost by the paper's method, and by counting operations and bytes."""

import dataclasses
import functools

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.paper.parameter_counts import abstract_model, count
from t2t_lite.paper.published import (
    BATCH_TOKENS,
    SUSTAINED,
    TABLE_2,
    TRAININGS,
    VOCABULARY,
    Training,
)
from t2t_lite.paper.table import Column, Table

# Subwords per sentence and side, which the paper does not state. Only the products of queries
# with keys, and of weights with values, depend on it.
SENTENCE_LENGTH = 27

# Float32 values kept per parameter: weight, gradient and Adam's two averages.
BYTES_OF_PARAMETER = 4 * 4


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    """Floating-point operations of a training, and the memory independent of the batch."""

    updates: int
    by_time: float  # time × GPUs × sustained rate of a GPU; section 6.1
    by_count: float  # multiplications and additions of all matrix products
    state: float  # bytes of weights, gradients and optimizer on each device

    @classmethod
    def of(cls, training: Training) -> "TrainingCost":
        """Returns the cost of a training of the paper."""
        seconds = 3600.0 * training.hours
        by_time = seconds * training.gpus * SUSTAINED[training.gpu]
        hparams = registry.hparams(training.hparams_set)
        assert isinstance(hparams, TransformerHParams)
        flops = abstract_model(hparams, VOCABULARY).forward_flops()
        sentence = tf.ones((1, SENTENCE_LENGTH), tf.int32)
        by_sentence = float(flops.training({"inputs": sentence, "targets": sentence}))
        sentences = training.steps * BATCH_TOKENS / SENTENCE_LENGTH
        state = BYTES_OF_PARAMETER * count(training.hparams_set).at(VOCABULARY)
        return cls(training.steps, by_time, sentences * by_sentence, state)

    @property
    def utilisation(self) -> float:
        """`by_count` / `by_time`: the share of the sustained rate spent on matrix products."""
        return self.by_count / self.by_time

    @property
    def by_update(self) -> float:
        """Counted operations per update."""
        return self.by_count / self.updates

    @property
    def teraflop_hours(self) -> float:
        """Hours at 10¹² counted operations per second, all devices together."""
        return self.by_count / 1e12 / 3600.0


@functools.cache
def cost(system: str) -> TrainingCost | None:
    """Returns the cost of a row of Table 2; None if the paper does not state its training."""
    return TrainingCost.of(TRAININGS[system]) if system in TRAININGS else None


def table() -> Table:
    """Returns Table 2 with both costs of each Transformer."""
    command = "t2t-paper table2"
    rows = []
    for row in TABLE_2:
        found = cost(row.name)
        rows.append(
            [
                row.name,
                row.ende,
                row.enfr,
                row.ende_flops,
                row.enfr_flops,
                *(_computed(found) if found else [None] * 6),
            ]
        )
    columns = [
        Column("system"),
        Column("BLEU EN-DE", "published", "g"),
        Column("BLEU EN-FR", "published", "g"),
        Column("FLOPs EN-DE", "published", ".1e"),
        Column("FLOPs EN-FR", "published", ".1e"),
        Column("FLOPs by time", "computed", ".2e", command),
        Column("FLOPs by count", "computed", ".2e", command),
        Column("ratio", "computed", ".2f", command),
        Column("FLOPs an update", "computed", ".2e", command),
        Column("h at 1 TFLOP/s", "computed", ",.1f", command),
        Column("state, MiB", "computed", ",.0f", command),
    ]
    return Table("Table 2: newstest2014 and the cost of training", columns, rows, _notes())


def _computed(found: TrainingCost) -> list[float]:
    return [
        found.by_time,
        found.by_count,
        found.utilisation,
        found.by_update,
        found.teraflop_hours,
        found.state / 2**20,
    ]


def _notes() -> list[str]:
    methods = [
        f"{name}: by time {training.hours:g} h × {training.gpus} {training.gpu} × "
        f"{SUSTAINED[training.gpu] / 1e12:g} TFLOP/s; by count {training.steps:,} updates of "
        f"{BATCH_TOKENS:,} source and {BATCH_TOKENS:,} target subwords, V={VOCABULARY:,}, in "
        f"sentences of {SENTENCE_LENGTH} subwords. BLEU here: docs/paper.md has the commands "
        f"for {training.hparams_set}."
        for name, training in TRAININGS.items()
    ]
    return [
        *methods,
        "ratio: by count over by time, the share of the rate spent on products.",
        "h at 1 TFLOP/s: hours if all GPUs together do 10¹² of the counted operations per second; "
        "divide by GPUs × TFLOP/s of one × the share of that rate reached in training.",
        "state: weights, gradients and Adam's two averages on each GPU, in float32.",
    ]
