"""The position-wise feed-forward network (paper, section 3.3)."""

import keras
from keras import ops

from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout


class FeedForward(Layer):
    """`max(0, x W₁ + b₁) W₂ + b₂` (equation 2), with dropout of the hidden features.

    Args:
        channels: D.
        filter_size: hidden features (paper: d_ff).
        dropout: rate, of the hidden features.
        gain: scale of the initial variance.
        seeds: the model's seed generator.
    """

    def __init__(
        self,
        channels: int,
        filter_size: int,
        dropout: float,
        gain: float,
        seeds: keras.random.SeedGenerator,
    ) -> None:
        super().__init__()
        self.expand = Projection(channels, filter_size, gain=gain, use_bias=True)
        self.contract = Projection(filter_size, channels, gain=gain, use_bias=True)
        self.dropout = Dropout(dropout, seeds)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., D]."""
        return self.contract(self.dropout(ops.relu(self.expand(x)), training=training))
