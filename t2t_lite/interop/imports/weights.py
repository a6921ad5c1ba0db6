"""Gives a Transformer of ours the weights of another toolkit's, as `layouts/parts.py` lists them.

Nothing is built before the tensors are known to fit.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import keras
import numpy as np

from t2t_lite.errors import DataError
from t2t_lite.interop.imports.safe_files import Tensor
from t2t_lite.interop.layouts.parts import Part, variable_of

_MOST_NAMED = 5  # differences in an error
_FLOATS = ("float64", "float32", "float16", "bfloat16")


def in_order(tensor: Tensor, ids: Sequence[int], name: str) -> Tensor:
    """Returns a tensor with a row for each id of our vocabulary.

    Args:
        tensor: [V, ...], by the ids of the file.
        ids: the file's id of each of ours; -1: a row of zeros.
        name: the tensor's, for errors.

    Raises:
        DataError: the vocabulary has more or fewer ids than the tensor.
    """
    order = np.asarray(ids)
    known, rows = len({*ids} - {-1}), tensor.shape[0] if tensor.shape else 0
    if known != rows:
        raise DataError(
            f"{name} has {rows} rows, and the vocabulary {known} pieces: the vocabulary is of "
            "another model, or lacks ids"
        )

    def read() -> np.ndarray:
        values = tensor.read()[np.maximum(order, 0)]
        values[order < 0] = 0
        return values

    return tensor._replace(shape=(len(order), *tensor.shape[1:]), read=read)


def require_floats(tensors: Mapping[str, Tensor], path: str) -> None:
    """Raises DataError if a tensor does not hold floating-point numbers."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _FLOATS:
            raise DataError(
                f"{path}: {name} is {tensor.dtype}: quantized models cannot be imported; use the "
                "original"
            )


def check(parts: Iterable[Part], tensors: Mapping[str, Tensor], path: str) -> None:
    """Checks that the parts are exactly the tensors of a file.

    Raises:
        DataError: tensors are missing, unknown, or of another shape.
    """
    used: set[str] = set()

    def differences() -> Iterator[str]:
        for part in parts:
            for name in part.names:
                used.add(name)
                tensor = tensors.get(name)
                if tensor is None:
                    yield f"{name} {list(part.shape)} is missing"
                elif tensor.shape != part.shape:
                    yield f"{name} is {list(tensor.shape)}, not {list(part.shape)}"
        for name, tensor in tensors.items():
            if name not in used:
                yield f"{name} {list(tensor.shape)} is unknown here"

    # Not all: a file may claim a million layers.
    wrong = list(itertools.islice(differences(), _MOST_NAMED + 1))
    if wrong:
        more = "; ..." if len(wrong) > _MOST_NAMED else ""
        raise DataError(f"{path}: tensors do not fit the settings: {'; '.join(wrong[:5])}{more}")


def assign(
    model: keras.Model, parts: Iterable[Part], tensors: Mapping[str, Tensor], path: str
) -> None:
    """Assigns the tensors, which `check` has found to fit, to every variable of a model.

    Raises:
        DataError: a value is not finite, or cannot be read.
    """
    left = {id(variable) for variable in model.trainable_variables}
    for part in parts:
        variable = variable_of(model, part.variable)
        assert variable is not None, "the hyperparameters tell which variables there are"
        values = [_finite(name, tensors[name].read(), path) for name in part.names]
        variable.assign(np.concatenate(values, axis=-1) if len(values) > 1 else values[0])
        left.remove(id(variable))
    assert not left, "every variable is a part"


def _finite(name: str, values: np.ndarray, path: str) -> np.ndarray:
    values = values.astype(np.float32, copy=False)
    if not np.isfinite(values).all():
        raise DataError(f"{path}: {name} has values that are not finite: download the file again")
    return values
