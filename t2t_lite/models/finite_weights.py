"""Detects weights that are NaN or infinite, which training that diverged leaves."""

import keras
from keras import ops

from t2t_lite.errors import UserError
from t2t_lite.models.seq2seq import Seq2Seq


def nonfinite_weight(model: Seq2Seq) -> str:
    """Returns the path of the first weight with NaN or infinity; "" if all are finite."""
    for weight in model.weights:
        is_float = keras.backend.is_float_dtype(weight.dtype)
        if is_float and not ops.all(ops.isfinite(weight)):
            return weight.path
    return ""


def stores_float16(model: Seq2Seq) -> bool:
    """Whether weights are in float16, as of a model loaded to decode in it."""
    return any(weight.dtype == "float16" for weight in model.weights)


def why_not_finite(model: Seq2Seq) -> str:
    """Returns what may have made numbers NaN or infinite, and the remedy, for messages."""
    if stores_float16(model):
        return (
            "as training has diverged, or as float16 holds no number above 65,504; use "
            "dtype=bfloat16 or float32, or an earlier checkpoint"
        )
    return "as training has diverged; use an earlier checkpoint"


def require_finite_weights(model: Seq2Seq, name: str) -> None:
    """Raises a UserError about the model `name` if a weight holds NaN or infinity."""
    if weight := nonfinite_weight(model):
        raise UserError(f"{name}: the weight {weight} is not finite, {why_not_finite(model)}")
