"""Table 2: training cost by the paper's method, and by counting operations and bytes."""

import dataclasses
import functools

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.study.paper.parameter_counts import abstract_model, size
from t2t_lite.study.paper.published import (
    BATCH_TOKENS,
    MODELS,
    SUSTAINED,
    TABLE_2,
    TRAININGS,
    PublishedModel,
    Training,
)
from t2t_lite.study.paper.table import CellValue, Column, Table

# Subwords per sentence and side, which the paper does not state. Only what grows faster than the
# sentence depends on it, such as the products of queries with keys.
SENTENCE_LENGTH = 27

# Float32 values kept per parameter: weight, gradient and Adam's two averages.
BYTES_OF_PARAMETER = 4 * 4


@dataclasses.dataclass(frozen=True)
class ModelCost:
    """What a model of the published size takes, by counting."""

    parameters: int
    by_token: float  # operations of training per target token, and as many source tokens
    by_update: float  # the same for an update of the Transformer's: `BATCH_TOKENS` subwords a side

    @classmethod
    def of(cls, published: PublishedModel) -> "ModelCost":
        """Counts the cost of a system."""
        hparams = registry.hparams(published.hparams_set)
        assert isinstance(hparams, BasicHParams)
        model = abstract_model(hparams, published.vocabulary, published.model)
        tokens = round(SENTENCE_LENGTH * published.tokens_per_subword)
        sentence = tf.ones((1, tokens), tf.int32)
        features = {"inputs": sentence, "targets": sentence}
        by_sentence = float(model.forward_flops().training(features))
        sentences = BATCH_TOKENS / SENTENCE_LENGTH
        return cls(size(model), by_sentence / tokens, sentences * by_sentence)

    @property
    def state(self) -> float:
        """Bytes of weights, gradients and optimizer on each device."""
        return BYTES_OF_PARAMETER * self.parameters


@dataclasses.dataclass(frozen=True)
class TrainingCost:
    """Floating-point operations of a training."""

    by_time: float  # time × GPUs × sustained rate of a GPU; section 6.1
    by_count: float  # multiplications and additions of all matrix products

    @classmethod
    def of(cls, training: Training, model: ModelCost) -> "TrainingCost":
        """Returns the cost of a training of the paper."""
        seconds = 3600.0 * training.hours
        by_time = seconds * training.gpus * SUSTAINED[training.gpu]
        return cls(by_time, training.steps * model.by_update)

    @property
    def utilisation(self) -> float:
        """`by_count` / `by_time`: the share of the sustained rate spent on matrix products."""
        return self.by_count / self.by_time

    @property
    def teraflop_hours(self) -> float:
        """Hours at 10¹² counted operations per second, all devices together."""
        return self.by_count / 1e12 / 3600.0


@functools.cache
def model_cost(system: str) -> ModelCost | None:
    """Returns the cost of a row's model; None if it is not a registered model."""
    return ModelCost.of(MODELS[system]) if system in MODELS else None


def training_cost(system: str) -> TrainingCost | None:
    """Returns the cost of a row's training; None if the paper does not state its updates."""
    model = model_cost(system)
    return TrainingCost.of(TRAININGS[system], model) if model and system in TRAININGS else None


def table() -> Table:
    """Returns Table 2 with what each system costs, by counting."""
    command = "t2t-paper --table=2"
    rows = [
        [
            row.name,
            row.ende,
            row.enfr,
            row.ende_flops,
            row.enfr_flops,
            *_of_model(model_cost(row.name)),
            *_of_training(training_cost(row.name)),
        ]
        for row in TABLE_2
    ]
    columns = [
        Column("system"),
        Column("BLEU EN-DE", "published", "g"),
        Column("BLEU EN-FR", "published", "g"),
        Column("FLOPs EN-DE", "published", ".1e"),
        Column("FLOPs EN-FR", "published", ".1e"),
        Column("parameters, 10⁶", "computed", ",.1f", command),
        Column("FLOPs a target token", "computed", ".2e", command),
        Column("FLOPs an update", "computed", ".2e", command),
        Column("state, MiB", "computed", ",.0f", command),
        Column("FLOPs by time", "computed", ".2e", command),
        Column("FLOPs by count", "computed", ".2e", command),
        Column("ratio", "computed", ".2f", command),
        Column("h at 1 TFLOP/s", "computed", ",.1f", command),
    ]
    return Table("Table 2: newstest2014 and the cost of training", columns, rows, _notes())


def _of_model(found: ModelCost | None) -> list[CellValue]:
    if found is None:
        return [None] * 4
    return [found.parameters / 1e6, found.by_token, found.by_update, found.state / 2**20]


def _of_training(found: TrainingCost | None) -> list[CellValue]:
    if found is None:
        return [None] * 4
    return [found.by_time, found.by_count, found.utilisation, found.teraflop_hours]


def _notes() -> list[str]:
    methods = [
        f"{name}: by time {training.hours:g} h × {training.gpus} {training.gpu} × "
        f"{SUSTAINED[training.gpu] / 1e12:g} TFLOP/s; by count {training.steps:,} updates. BLEU "
        f"here: docs/paper.md has the commands for {MODELS[name].hparams_set}."
        for name, training in TRAININGS.items()
    ]
    models = "; ".join(
        f"{name}: {model.model}, {model.hparams_set}, V={model.vocabulary:,}"
        for name, model in MODELS.items()
    )
    return [
        f"Computed for these models and sets. {models}.",
        *methods,
        f"FLOPs: forward and backward pass, per target token and as many source tokens, in "
        f"sentences of {SENTENCE_LENGTH} subwords. An update is the Transformer's for all systems: "
        f"{BATCH_TOKENS:,} source and {BATCH_TOKENS:,} target subwords.",
        "ratio: by count over by time, the share of the rate spent on products.",
        "h at 1 TFLOP/s: hours if all GPUs together do 10¹² of the counted operations per second; "
        "divide by GPUs × TFLOP/s of one × the share of that rate reached in training.",
        "state: weights, gradients and Adam's two averages on each GPU, in float32.",
        "ConvS2S's EN-FR BLEU and its ensemble's figures are from an earlier version of its paper "
        "(arXiv 1705.03122). The final version has 40.51 EN-FR, and 26.43 EN-DE and 41.44 EN-FR "
        "for the ensemble.",
    ]
