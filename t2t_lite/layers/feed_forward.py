"""The position-wise feed-forward network (paper, section 3.3)."""

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, seeds_or_new
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout


@keras.saving.register_keras_serializable(package="t2t_lite")
class FeedForward(Layer):
    """`max(0, x W₁ + b₁) W₂ + b₂` (equation 2), with dropout of the hidden features.

    Args:
        channels: D.
        filter_size: hidden features (paper: d_ff).
        dropout_rate: dropout of the hidden features.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        filter_size: int,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.filter_size = filter_size
        self.dropout_rate = dropout_rate
        self.gain = gain
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
        return self.contract(self.dropout(ops.relu(self.expand(x)), training=training))
