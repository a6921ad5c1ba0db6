"""What is said when a model gives NaN in place of probabilities, as one does that has diverged."""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite.decoding.pieces import Source
from t2t_lite.errors import UserError
from t2t_lite.models.finite_weights import nonfinite_weight
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.text.text_encoder import EOS_ID


class DivergedError(UserError):
    """A model gives NaN in place of probabilities: there is no output that could be told.

    Args:
        place: of the sentence.
        model: what is at fault.
        reason: why, and what to do.
    """

    def __init__(self, place: str, model: str, reason: str) -> None:
        super().__init__(f"{place}: {model} gives NaN in place of probabilities{reason}")
        self.place = place


class NotANumberError(Exception):
    """NaN in place of the probabilities for `source`; `Decoder` makes a `DivergedError` of it."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source = source


def require_numbers(sources: Sequence[Source], scores: np.ndarray) -> None:
    """Raises NotANumberError if a source has a score [B, K] that is NaN."""
    for source, row in zip(sources, np.isnan(scores), strict=True):
        if row.any():
            raise NotANumberError(source)


def diverged(
    models: Sequence[Seq2Seq], names: Sequence[str], source: Source, place: str
) -> DivergedError:
    """Returns the error that says which model of an ensemble is at fault, and why.

    Args:
        models: that decoded together.
        names: what to call them.
        source: the sentence for which they gave NaN.
        place: where it stands.
    """
    for model, name in zip(models, names, strict=True):
        if weight := nonfinite_weight(model):
            return DivergedError(
                place,
                name,
                f": its weight {weight} is not finite, as training has diverged; use an earlier "
                "checkpoint",
            )
    finite = ", although all its weights are finite: they are too large; use another checkpoint, "
    finite += "or leave this sentence out"
    for model, name in zip(models, names, strict=True):
        if len(models) == 1 or _gives_nan(model, source):
            return DivergedError(place, name, finite)
    return DivergedError(place, f"one of {', '.join(names)}", finite)


def _gives_nan(model: Seq2Seq, source: Source) -> bool:
    """Whether a model alone gives NaN for the first token of a sentence's output."""
    features = {"inputs": tf.constant([source.ids]), "targets": tf.constant([[EOS_ID]])}
    return bool(tf.reduce_any(tf.math.is_nan(tf.nn.log_softmax(model(features)))))
