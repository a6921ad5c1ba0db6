"""A dense layer on the last axis, with parts that share one matrix product."""

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.initializers import SideBySide, unit_scaling


class Projection(Layer):
    """`x W` for one kernel [D, sum(widths)], whose parts are initialised separately.

    Args:
        inputs: D, features of the input.
        widths: features of each part of the output.
        gain: scale of the initial variance.
        use_bias: adds a bias, initially 0.
    """

    def __init__(self, inputs: int, *widths: int, gain: float, use_bias: bool = False) -> None:
        super().__init__()
        total = sum(widths)
        self.kernel = self.add_weight(
            shape=(inputs, total),
            initializer=SideBySide(unit_scaling(gain), list(widths)),
            name="kernel",
        )
        self.bias = (
            self.add_weight(shape=(total,), initializer="zeros", name="bias") if use_bias else None
        )

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., sum(widths)]."""
        dtype = self.compute_dtype
        y = ops.matmul(ops.cast(x, dtype), ops.cast(self.kernel, dtype))
        return y if self.bias is None else y + ops.cast(self.bias, dtype)
