"""A dense layer on the last axis, with parts that share one matrix product."""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, is_narrow
from t2t_lite.layers.initializers import SideBySide, unit_scaling
from t2t_lite.layers.shapes import multiply


@keras.saving.register_keras_serializable(package="t2t_lite")
class Projection(Layer):
    """`x W` for one kernel [D, sum(widths)], whose parts are initialised separately.

    Within `narrow_matrices` the kernel is stored transposed: the CPU's products of 16-bit numbers
    take pairs of rows, which then lie side by side.

    Args:
        inputs: D, features of the input.
        widths: features of each part of the output.
        gain: scale of the initial variance.
        use_bias: whether to add a bias, initially 0.
        by_rows: whether products take some rows of the kernel, so that it is never transposed.
        **kwargs: see `Layer`.

    Attributes:
        is_transposed: whether `kernel` is [sum(widths), D].
    """

    def __init__(
        self,
        inputs: int,
        widths: Sequence[int],
        gain: float = 1.0,
        use_bias: bool = False,
        by_rows: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.widths = tuple(widths)
        self.gain = gain
        self.use_bias = use_bias
        self.by_rows = by_rows
        self.is_transposed = is_narrow(self.dtype_policy) and not by_rows
        total = sum(widths)
        self.kernel = self.add_weight(
            shape=(total, inputs) if self.is_transposed else (inputs, total),
            initializer=SideBySide(unit_scaling(gain), list(widths)),
            name="kernel",
        )
        self.bias = (
            self.add_weight(shape=(total,), initializer="zeros", name="bias") if use_bias else None
        )

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., sum(widths)]."""
        dtype = self.compute_dtype
        y = multiply(ops.cast(x, dtype), ops.cast(self.matrix(), dtype))
        return y if self.bias is None else y + ops.cast(self.bias, dtype)

    def matrix(self) -> keras.KerasTensor:
        """Returns the kernel [D, sum(widths)], however it is stored."""
        kernel = ops.convert_to_tensor(self.kernel)
        return ops.transpose(kernel) if self.is_transposed else kernel
