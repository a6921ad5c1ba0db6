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
        self.lora_a: keras.Variable | None = None
        self.lora_b: keras.Variable | None = None

    def enable_lora(self, rank: int) -> None:
        """Freezes the kernel and learns a product A B of this rank beside it (Hu et al. 2021).

        A [D, rank] is random and B [rank, sum(widths)] is 0 at first, so that outputs stay. Files
        have the sum: a layer that is loaded from one has no A and B.

        Args:
            rank: columns of A.

        Raises:
            ValueError: it is enabled already, or the rank is below 1.
        """
        if self.lora_a is not None:
            raise ValueError(f"{self.name}: LoRA is enabled already")
        if rank < 1:
            raise ValueError(f"{self.name}: LoRA of rank {rank}: expected at least 1")
        self.lora_a = self.add_weight(
            shape=(self.inputs, rank), initializer="he_uniform", name="lora_a"
        )
        self.lora_b = self.add_weight(
            shape=(rank, sum(self.widths)), initializer="zeros", name="lora_b"
        )
        self.kernel.trainable = False

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., sum(widths)]."""
        dtype = self.compute_dtype
        y = multiply(ops.cast(x, dtype), ops.cast(self.matrix(), dtype))
        return y if self.bias is None else y + ops.cast(self.bias, dtype)

    def matrix(self) -> keras.KerasTensor:
        """Returns the kernel [D, sum(widths)], however it is stored, with what LoRA adds."""
        kernel = ops.convert_to_tensor(self.kernel)
        if self.is_transposed:
            kernel = ops.transpose(kernel)
        if self.lora_a is None or self.lora_b is None:
            return kernel
        return kernel + ops.cast(ops.matmul(self.lora_a, self.lora_b), kernel.dtype)

    def save_own_variables(self, store: Any) -> None:
        """Writes the kernel, with what LoRA adds, and the bias."""
        if self.lora_a is None:
            super().save_own_variables(store)
            return
        matrix = ops.convert_to_numpy(self.matrix())
        store["0"] = matrix.T if self.is_transposed else matrix
        if self.bias is not None:
            store["1"] = self.bias

    def load_own_variables(self, store: Any) -> None:
        """Reads the kernel and the bias; what LoRA adds begins at 0 again."""
        if self.lora_b is None:
            super().load_own_variables(store)
            return
        self.lora_b.assign(ops.zeros_like(self.lora_b))
        self.kernel.assign(store["0"])
        if self.bias is not None:
            self.bias.assign(store["1"])
