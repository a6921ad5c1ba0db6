"""Dropout whose masks come from the model's one seed generator."""

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, own_seeds


@keras.saving.register_keras_serializable(package="t2t_lite")
class Dropout(Layer):
    """Zeroes features with probability `rate` and scales the others by `1 / (1 - rate)`.

    All dropout layers of a model draw from one generator, in the order in which they are called.
    Setting its state from (seed, step, replica) makes every mask of a step repeatable.

    Args:
        rate: probability of a zero.
        seeds: the model's seed generator; by default one of its own.
        **kwargs: see `Layer`.
    """

    def __init__(
        self, rate: float, seeds: keras.random.SeedGenerator | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.rate = rate
        self.seeds = own_seeds(seeds)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Applies dropout to `x`, of any shape, if `training`."""
        if not training or self.rate == 0.0:
            return x
        # In float32, whatever x is: numbers drawn in bfloat16 fall into 128 steps, which is too
        # coarse for most rates. Besides, every dtype then has the same masks.
        dropped = keras.random.dropout(ops.cast(x, "float32"), self.rate, seed=self.seeds)
        return ops.cast(dropped, x.dtype)
