"""Convolutional gated recurrent units on a tape (Kaiser & Sutskever 2016)."""

from collections.abc import Callable, Iterable
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.initializers import SideBySide, unit_scaling

# Maps a tape [B, N, W, D] after step n, a scalar counted from 0, to the next one.
TapeStep = Callable[[keras.KerasTensor, keras.KerasTensor], keras.KerasTensor]


def saturating_sigmoid(x: keras.KerasTensor) -> keras.KerasTensor:
    """A sigmoid that reaches 0 and 1: `1.2 σ(x) - 0.1`, cut off (Kaiser & Bengio 2016)."""
    return ops.clip(1.2 * ops.sigmoid(x) - 0.1, 0.0, 1.0)


@keras.saving.register_keras_serializable(package="t2t_lite")
class CGRU(Layer):
    """A convolutional gated recurrent unit: one layer of one step on a tape.

    `u ⊙ s + (1 - u) ⊙ tanh(U * (r ⊙ s) + B)`, with the gates u and r also convolutions of the
    tape s; every term may also see another tape (Kaiser & Bengio 2016, section 2).

    Args:
        channels: D, features of a cell of the tape.
        others: features of the other tape; 0: there is none.
        height: cells that an output sees along the positions.
        width: cells that it sees across them.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        others: int = 0,
        *,
        height: int = 3,
        width: int = 1,
        gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.others = others
        self.height = height
        self.width = width
        self.gain = gain
        self.gates_kernel, self.gates_bias = self._weights("gates", 2, "ones")
        self.candidate_kernel, self.candidate_bias = self._weights("candidate", 1, "zeros")

    def _weights(self, name: str, parts: int, bias: str) -> tuple[keras.Variable, keras.Variable]:
        """Adds a kernel [height · width · inputs, parts · D] and a bias."""
        d = self.channels
        rows = self.height * self.width * (self.others + d)
        initializer = SideBySide(unit_scaling(self.gain), [d] * parts)
        return (
            self.add_weight(
                shape=(rows, parts * d), initializer=initializer, name=f"{name}_kernel"
            ),
            self.add_weight(shape=(parts * d,), initializer=bias, name=f"{name}_bias"),
        )

    def call(
        self,
        tape: keras.KerasTensor,
        mask: keras.KerasTensor,
        others: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `tape` [B, N, W, D] to the next one, which is 0 beyond its end.

        Args:
            tape: the state.
            mask: [B, N], False beyond the tape's end.
            others: the other tape [B, N, W, others], if there is one.
        """
        gates = self._convolve(tape, others, self.gates_kernel, self.gates_bias)
        reset, keep = ops.split(saturating_sigmoid(gates), 2, axis=-1)
        kernel, bias = self.candidate_kernel, self.candidate_bias
        candidate = ops.tanh(self._convolve(reset * tape, others, kernel, bias))
        new = keep * tape + (1.0 - keep) * candidate
        return ops.where(mask[:, :, None, None], new, ops.zeros((), new.dtype))

    def _convolve(
        self,
        tape: keras.KerasTensor,
        others: keras.KerasTensor | None,
        kernel: keras.Variable,
        bias: keras.Variable,
    ) -> keras.KerasTensor:
        x = tape if others is None else ops.concatenate([others, tape], axis=-1)
        x = ops.cast(x, self.compute_dtype)
        shape = (self.height, self.width, self.others + self.channels, kernel.shape[1])
        weights = ops.reshape(ops.cast(kernel, x.dtype), shape)
        return ops.conv(x, weights, padding="same") + ops.cast(bias, x.dtype)


def step_dropout(
    dropout: Dropout, tape: keras.KerasTensor, count: keras.KerasTensor | int, training: bool
) -> TapeStep:
    """Returns the dropout of a tape [B, N, W, D] before each of `count` steps.

    Masks are drawn here, before the loop of the steps: a compiled loop would not advance the seeds.
    """
    if not training or dropout.rate == 0.0:
        return lambda tape, number: tape
    masks = dropout(ops.ones((count, *ops.shape(tape)), tape.dtype), training=True)
    return lambda tape, number: tape * ops.take(masks, number, axis=0)


def through(
    layers: Iterable[CGRU],
    tape: keras.KerasTensor,
    mask: keras.KerasTensor,
    others: keras.KerasTensor | None = None,
) -> keras.KerasTensor:
    """Runs a tape [B, N, W, D] through the layers of one step; see `CGRU.call`."""
    for layer in layers:
        tape = layer(tape, mask, others)
    return tape
