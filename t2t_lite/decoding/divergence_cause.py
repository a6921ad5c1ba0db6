"""Finds out which model of an ensemble outputs NaN, and why."""

from collections.abc import Sequence

import tensorflow as tf

from t2t_lite.decoding.divergence import DivergedError
from t2t_lite.decoding.hypotheses import Source
from t2t_lite.models.finite_weights import nonfinite_weight, stores_float16, why_not_finite
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.text.text_encoder import EOS_ID


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
