"""The position-wise feed-forward network (paper, section 3.3)."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, seeds_or_new
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout

# By their names as hparam `ffn_activation`. The last is Hendrycks and Gimpel's sigmoid form.
_ACTIVATIONS: dict[str, Callable[[keras.KerasTensor], keras.KerasTensor]] = {
    "relu": ops.relu,
    "swish": ops.silu,
    "gelu": functools.partial(ops.gelu, approximate=False),
    "gelu_tanh": functools.partial(ops.gelu, approximate=True),
    "gelu_sigmoid": lambda x: x * ops.sigmoid(1.702 * x),
}


@keras.saving.register_keras_serializable(package="t2t_lite")
class FeedForward(Layer):
    """`f(x W₁ + b₁) W₂ + b₂`, with dropout of the hidden features; f is ReLU in equation 2.

    Args:
        channels: D.
        filter_size: hidden features (paper: d_ff).
        dropout_rate: dropout of the hidden features.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        activation: f: relu, swish, gelu (exact), gelu_tanh or gelu_sigmoid.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        filter_size: int,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        activation: str = "relu",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.filter_size = filter_size
        self.dropout_rate = dropout_rate
        self.gain = gain
        self.activation = activation
        self._activate = _ACTIVATIONS[activation]
        policy = self.dtype_policy
        self.expand = Projection(channels, (filter_size,), gain, use_bias=True, dtype=policy)
        self.contract = Projection(filter_size, (channels,), gain, use_bias=True, dtype=policy)
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=policy)

    def call(
        self,
        x: keras.KerasTensor,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
        counted: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., D]; the masks are for a `MixtureOfExperts` in its place."""
        return self.contract(self.dropout(self._activate(self.expand(x)), training=training))
