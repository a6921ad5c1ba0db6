"""Copies of models: for other devices, and for decoding in another dtype."""

from keras import ops

from t2t_lite.layers.base import flattened, narrow_matrices, without_initial_values
from t2t_lite.layers.dense import Projection
from t2t_lite.models.seq2seq import Seq2Seq


def empty_copy(model: Seq2Seq, dtype: str = "") -> Seq2Seq:
    """Returns a model of the same kind and sizes, whose weights are 0.

    Args:
        model: any model.
        dtype: what the copy computes in and stores its matrices in, see `narrow_matrices`; "": as
            `model` does.
    """
    config = model.get_config()
    config["hparams"]["dtype"] = dtype or model.hparams.dtype
    with narrow_matrices() if dtype or model.is_narrow else without_initial_values():
        return type(model).from_config(config)


def copy_weights(source: Seq2Seq, target: Seq2Seq) -> None:
    """Gives `target`, a copy of `source`, the same weights, rounded to its own dtypes."""
    transposed = _transposed(source) | _transposed(target)
    for value, variable in zip(source.weights, target.weights, strict=True):
        is_flipped = (id(value) in transposed) != (id(variable) in transposed)
        variable.assign(ops.transpose(value) if is_flipped else value)


def in_dtype(model: Seq2Seq, dtype: str) -> Seq2Seq:
    """Returns a copy of a model with the same weights, for decoding in another dtype.

    Args:
        model: any model.
        dtype: see `empty_copy`.
    """
    copy = empty_copy(model, dtype)
    copy_weights(model, copy)
    return copy


def _transposed(model: Seq2Seq) -> set[int]:
    """Returns the identities of the kernels that are stored transposed."""
    layers = flattened(model)
    return {id(x.kernel) for x in layers if isinstance(x, Projection) and x.is_transposed}
