"""Dropout's product, with a gradient written by hand.

Differentiated automatically, it would keep more arrays for the backward pass.
"""

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

# Returns the gradients of a function's arguments, see `keras.ops.custom_gradient`: PyTorch's gets
# the arguments before `upstream`, which has a name there.
_Gradient = Callable[..., Any]


def dropped(x: keras.KerasTensor, kept: keras.KerasTensor, scale: float) -> keras.KerasTensor:
    """Returns `x` times `scale` where `kept`, and 0 elsewhere.

    Products are faster than choices. `kept` takes a byte for each feature until the backward pass;
    the factors, of several bytes, are made again there.

    Args:
        x: of any shape.
        kept: of the same shape, booleans.
        scale: the factor.
    """

    def times_factors(y: keras.KerasTensor) -> keras.KerasTensor:
        return y * (ops.cast(kept, y.dtype) * ops.cast(scale, y.dtype))

    @ops.custom_gradient
    def run(x: keras.KerasTensor) -> tuple[keras.KerasTensor, _Gradient]:
        def gradient(
            *arguments: keras.KerasTensor, upstream: keras.KerasTensor | None = None
        ) -> keras.KerasTensor:
            return times_factors(arguments[-1] if upstream is None else upstream)

        return times_factors(x), gradient

    return run(x)
