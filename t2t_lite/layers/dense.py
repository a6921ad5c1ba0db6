"""A dense layer on the last axis, with parts that share one matrix product."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.initializers import SideBySide, unit_scaling


@keras.saving.register_keras_serializable(package="t2t_lite")
class Projection(Layer):
    """`x W` for one kernel [D, sum(widths)], whose parts are initialised separately.

    Args:
        inputs: D, features of the input.
        widths: features of each part of the output.
        gain: scale of the initial variance.
        use_bias: whether to add a bias, initially 0.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        gain: float = 1.0,
        use_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.widths = tuple(widths)
        self.gain = gain
        self.use_bias = use_bias
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
