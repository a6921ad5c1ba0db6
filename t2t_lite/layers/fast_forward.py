"""Recurrent layers with fast-forward connections (Zhou et al. 2016, section 3.1)."""

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, seeds_or_new
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.recurrent import LSTMCell, LSTMState, Recurrent


@keras.saving.register_keras_serializable(package="t2t_lite")
class FastForward(Layer):
    """An LSTM beside a linear path: f = W x, h = LSTM(half of f), and both go to the next layer.

    So neither a non-linearity nor a recurrence lies on the way from the first f to the last. There
    is no bias: f is zero where x is, as at padding.

    Args:
        inputs: features of x: those of an embedding, or of the result of the layer below.
        channels: D, features of h.
        width: F, features of f.
        backward: whether the LSTM reads from the last token to the first.
        dropout_rate: dropout of the LSTM's inputs.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        width: int,
        backward: bool = False,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.width = width
        self.backward = backward
        self.dropout_rate = dropout_rate
        self.gain = gain
        policy = self.dtype_policy
        self.linear = Projection(inputs, (width,), gain, dtype=policy)
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=policy)
        cell = LSTMCell(width // 2, channels, gain, dtype=policy)
        self.recurrent = Recurrent(cell, backward, dtype=policy)

    def call(
        self,
        x: keras.KerasTensor,
        mask: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, inputs] to f and h, side by side, [B, N, F + D].

        Args:
            x: the inputs.
            mask: [B, N], False at padding (default: no padding).
            training: whether to apply dropout.
        """
        f = self.linear(x)
        h, _ = self.recurrent(self.dropout(self.half(f), training=training), mask=mask)
        return ops.concatenate([f, h], axis=-1)

    def step(self, x: keras.KerasTensor, state: LSTMState) -> tuple[keras.KerasTensor, LSTMState]:
        """Maps one position `x` [..., inputs]; returns f and h, and the next state."""
        f = self.linear(x)
        state = self.recurrent.step(self.half(f), state)
        return ops.concatenate([f, state.output], axis=-1), state

    def half(self, f: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the features of f that the LSTM reads, [..., F / 2]."""
        return f[..., : self.width // 2]
