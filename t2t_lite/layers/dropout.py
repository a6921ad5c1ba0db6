"""Dropout whose masks come from the model's single seed generator."""

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, seeds_or_new


@keras.saving.register_keras_serializable(package="t2t_lite")
class Dropout(Layer):
    """Zeroes features with probability `rate` and scales the others by `1 / (1 - rate)`.

    All dropout layers of a model draw from one generator, in call order.
    Setting its state from (seed, step, replica) makes every mask of a step repeatable.

    Args:
        rate: probability of a zero.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self, rate: float, seeds: keras.random.SeedGenerator | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seeds = seeds_or_new(seeds)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Applies dropout to `x`, of any shape, if `training`."""
        if not training or self.rate == 0.0:
            return x
        # Always in float32: bfloat16 has only 128 values to draw from, too coarse for most
        # rates. It also gives every dtype the same masks.
        dropped = keras.random.dropout(ops.cast(x, "float32"), self.rate, seed=self.seeds)
        return ops.cast(dropped, x.dtype)
