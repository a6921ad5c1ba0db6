"""Dropout's product and layer normalisation, each with a gradient written by hand.

Differentiated automatically, they would keep more arrays for the backward pass, and read them more
often.
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


class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer over the last axis, with a gradient of its own in training."""

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Normalises `x` [..., D], in float32."""
        if not training:
            return super().call(x)
        features, gamma, beta = (ops.cast(one, "float32") for one in (x, self.gamma, self.beta))
        return ops.cast(_normalised(features, gamma, beta, self.epsilon), x.dtype)


def _normalised(
    x: keras.KerasTensor, gamma: keras.KerasTensor, beta: keras.KerasTensor, epsilon: float
) -> keras.KerasTensor:
    """Returns `gamma` [D] · (`x` - mean) / √(variance + ε) + `beta` [D], for `x` [..., D]."""

    @ops.custom_gradient
    def run(
        x: keras.KerasTensor, gamma: keras.KerasTensor, beta: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, _Gradient]:
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        inverse = ops.rsqrt(variance + epsilon)
        unit = centred * inverse

        def gradient(
            *arguments: keras.KerasTensor, upstream: keras.KerasTensor | None = None
        ) -> tuple[keras.KerasTensor, ...]:
            by_output = arguments[-1] if upstream is None else upstream
            by_gamma, by_unit = by_output * unit, by_output * gamma
            # What moves the mean or the length of the features changes nothing.
            moving = ops.mean(by_unit, axis=-1, keepdims=True)
            stretching = ops.mean(by_unit * unit, axis=-1, keepdims=True)
            by_x = (by_unit - moving - unit * stretching) * inverse
            rows = tuple(range(len(x.shape) - 1))
            return by_x, ops.sum(by_gamma, axis=rows), ops.sum(by_output, axis=rows)

        return unit * gamma + beta, gradient

    return run(x, gamma, beta)
