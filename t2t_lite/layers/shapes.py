"""Reshaping and products without computations of sizes.

What TensorFlow does not know while it traces, it computes at run time, in several operations for
each size. In a step of a search for one sentence that takes as long as the small products.
"""

from typing import Any

import keras
from keras import ops


def sizes(x: keras.KerasTensor) -> tuple[Any, ...]:
    """Returns the sizes of `x`, for `ops.reshape`: a single one that is unknown is -1."""
    if sum(size is None for size in x.shape) == 1:
        return tuple(-1 if size is None else size for size in x.shape)
    return tuple(ops.shape(x))


def multiply(x: keras.KerasTensor, kernel: keras.KerasTensor) -> keras.KerasTensor:
    """Multiplies `x` [..., D] by `kernel` [D, N], as one product of all rows; returns [..., N]."""
    if len(x.shape) == 2:
        return ops.matmul(x, kernel)
    product = ops.matmul(ops.reshape(x, (-1, x.shape[-1])), kernel)
    columns = kernel.shape[-1] or ops.shape(kernel)[-1]  # unknown for a narrowed vocabulary
    return ops.reshape(product, (*sizes(x)[:-1], columns))
