"""Table 3's numbers of parameters, counted without allocating any."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator
from typing import Self

import keras
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.base import without_initial_values
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer import Transformer
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.study.paper.published import TABLE_3, VOCABULARY, Variation
from t2t_lite.study.paper.table import Column, Table


def abstract_model(hparams: BasicHParams, vocabulary: int, name: str = "transformer") -> Seq2Seq:
    """Builds a registered model whose variables have shapes but no values, for counting."""
    with _without_values():
        return registry.model(name)(hparams, vocabulary, vocabulary)


def size_of_run(run: RunFolder) -> int:
    """Returns the number of parameters of a run's model, with the vocabularies that it has."""
    with _without_values():
        return size(run.build_model())


@contextlib.contextmanager
def _without_values() -> Iterator[None]:
    # A graph's variables have no values before a session runs.
    with tf.Graph().as_default(), without_initial_values():
        yield


@dataclasses.dataclass(frozen=True)
class ParameterCount:
    """The number of parameters, a linear function of the vocabulary size."""

    fixed: int  # parameters that do not depend on the vocabulary
    by_subword: int

    @classmethod
    def of(cls, hparams: TransformerHParams) -> Self:
        """Counts the parameters of a model with one vocabulary for sources and targets.

        The layers of a stack have equal sizes, so one layer and a vocabulary of one are enough.
        """
        small = hparams.copy(num_hidden_layers=1, num_encoder_layers=0, num_decoder_layers=0)
        model = abstract_model(small, 1)
        assert isinstance(model, Transformer)
        encoder, decoder = (size(part.stack[0]) for part in (model.encoder, model.decoder))
        embeddings = (model.inputs_embedding, model.targets_embedding, model.softmax_embedding)
        by_subword = sum({id(one): size(one) for one in embeddings}.values())
        layers = (hparams.encoder_layers - 1) * encoder + (hparams.decoder_layers - 1) * decoder
        return cls(size(model) + layers - by_subword, by_subword)

    def at(self, vocabulary: int) -> int:
        """Returns the number of parameters for a vocabulary size."""
        return self.fixed + self.by_subword * vocabulary

    def vocabulary(self, parameters: float) -> float:
        """Returns the vocabulary size for a number of parameters."""
        return (parameters - self.fixed) / self.by_subword


def size(layer: keras.layers.Layer) -> int:
    """Returns the number of a layer's or model's parameters."""
    return sum(math.prod(weight.shape) for weight in layer.weights)


@functools.cache
def count(hparams_set: str) -> ParameterCount:
    """Counts the parameters of a registered set of the Transformer."""
    hparams = registry.hparams(hparams_set)
    assert isinstance(hparams, TransformerHParams)
    return ParameterCount.of(hparams)


def best_vocabulary(variations: Iterable[Variation] = TABLE_3) -> int:
    """Returns the vocabulary size that minimises the squared relative errors of the counts.

    Args:
        variations: rows of Table 3; those without a published count are ignored.
    """
    numerator = denominator = 0.0
    for row in variations:
        if row.parameters is not None:
            counted, published = count(row.hparams_set), row.parameters * 1e6
            slope = counted.by_subword / published
            numerator += slope * (1.0 - counted.fixed / published)
            denominator += slope * slope
    return round(numerator / denominator)


def table() -> Table:
    """Returns the counts of all rows, with the paper's vocabulary and the best one."""
    best, base = best_vocabulary(), count("transformer_paper_base")
    command = "t2t-paper --table=3 --params"
    rows = []
    for row in TABLE_3:
        counted = count(row.hparams_set)
        rows.append(
            [
                row.label,
                row.parameters,
                counted.at(VOCABULARY) / 1e6,
                counted.at(best) / 1e6,
                row.parameters and 100.0 * (counted.at(best) / 1e6 / row.parameters - 1.0),
                row.parameters and row.parameters - (TABLE_3[0].parameters or 0.0),
                (counted.at(best) - base.at(best)) / 1e6,
                row.parameters and counted.vocabulary(row.parameters * 1e6),
                row.hparams_set,
            ]
        )
    columns = [
        Column("variation"),
        Column("10⁶", "published", "g"),
        Column(f"10⁶, V={VOCABULARY:,}", "computed", ".2f", command),
        Column(f"10⁶, V={best:,}", "computed", ".2f", command),
        Column("error %", "computed", "+.1f", command),
        Column("10⁶ - base", "published", "+g"),
        Column(f"10⁶ - base, V={best:,}", "computed", "+.2f", command),
        Column("V that fits", "computed", ",.0f", command),
        Column("hparams_set"),
    ]
    return Table("Table 3: parameters", columns, rows, _notes(best))


def _notes(best: int) -> list[str]:
    big, wide = count("transformer_paper_big"), count("transformer_paper_c5")
    return [
        f"V={best:,} is the vocabulary that minimises the squared relative errors over all rows "
        f"with a published count; the paper says about {VOCABULARY:,}.",
        f"big: {big.fixed / 1e6:.2f} + {big.by_subword:,} V = 213 gives "
        f"V = {big.vocabulary(213e6):,.0f}, but (C) d_model=1024: {wide.fixed / 1e6:.2f} + "
        f"{wide.by_subword:,} V = 168 gives V = {wide.vocabulary(168e6):,.0f}; their embeddings "
        "have the same size, so no vocabulary gives both.",
    ]
