"""Errors for sentences without an output: the model diverged, or the search permits none."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.hypotheses import Source
from t2t_lite.errors import UserError
from t2t_lite.models.finite_weights import nonfinite_weight, stores_float16, why_not_finite
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.text.text_encoder import EOS_ID


class NoOutputError(UserError):
    """There is no output to return for a sentence: here, since the search permits none.

    Args:
        place: of the sentence, for the message.
        reason: what is wrong, in short.
        remedy: the cause, and the remedy.

    Attributes:
        summary: place and reason.
    """

    def __init__(
        self,
        place: str,
        reason: str = "the search settings permit no output",
        remedy: str = ": loosen min_length, no_repeat_ngram_size, well_formed or extra_length",
    ) -> None:
        self.summary = f"{place}: {reason}"
        super().__init__(self.summary + remedy)


class DivergedError(NoOutputError):
    """A model outputs NaN instead of probabilities, so that there is no output to return.

    Args:
        place: of the sentence, for the message.
        model: the model at fault.
        reason: the cause, and the remedy.
    """

    def __init__(self, place: str, model: str, reason: str) -> None:
        super().__init__(place, f"{model} outputs NaN instead of probabilities", reason)
        self.summary = f"{place}: the model outputs NaN instead of probabilities"


class NotANumberError(Exception):
    """A model outputs NaN for `source`; `Decoder` raises a `DivergedError` instead."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source


class NothingPermittedError(Exception):
    """A search permits no output for `source`; `Decoder` raises a `NoOutputError` instead."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source


def require_outputs(sources: Sequence[Source], found: Sequence[Sequence[object]]) -> None:
    """Raises NothingPermittedError if a search found no hypothesis of a source."""
    for source, hypotheses in zip(sources, found, strict=True):
        if not hypotheses:
            raise NothingPermittedError(source)


def require_numbers(sources: Sequence[Source], scores: np.ndarray) -> None:
    """Raises NotANumberError if any of the scores [B, K] of a source is NaN."""
    for source, row in zip(sources, np.isnan(scores), strict=True):
        if row.any():
            raise NotANumberError(source)


def diverged(
    models: Sequence[Seq2Seq], names: Sequence[str], source: Source, place: str
) -> DivergedError:
    """Returns the error that names the model at fault in an ensemble, and the cause.

    Args:
        models: those that decoded together.
        names: what the message calls them.
        source: the sentence for which they output NaN.
        place: what the message calls it.
    """
    for model, name in zip(models, names, strict=True):
        if weight := nonfinite_weight(model):
            return DivergedError(
                place,
                name,
                f": its weight {weight} is not finite, {why_not_finite(model)}",
            )
    finite = ", although all its weights are finite: "
    if any(map(stores_float16, models)):
        finite += "float16 holds no number above 65,504; use dtype=bfloat16 or float32"
    else:
        finite += "they are too large; use another checkpoint, or leave this sentence out"
    for model, name in zip(models, names, strict=True):
        if len(models) == 1 or _outputs_nan(model, source):
            return DivergedError(place, name, finite)
    return DivergedError(place, f"one of {', '.join(names)}", finite)


def _outputs_nan(model: Seq2Seq, source: Source) -> bool:
    """Whether a model by itself outputs NaN for the first token of a sentence's output."""
    features = {"inputs": tf.constant([source.ids]), "targets": tf.constant([[EOS_ID]])}
    return bool(tf.reduce_any(tf.math.is_nan(tf.nn.log_softmax(model(features)))))
