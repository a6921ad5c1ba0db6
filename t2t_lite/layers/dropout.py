"""Dropout whose masks come from the model's single seed generator."""

import functools
import operator
from collections.abc import Sequence
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
        if self.rate == 1.0:
            return ops.zeros_like(x)
        # In float32: bfloat16 would make every kept feature too small or too large by 0.2 %.
        scaled = ops.cast(ops.cast(x, "float32") / (1.0 - self.rate), x.dtype)
        return ops.where(self._kept(ops.shape(x)), scaled, ops.cast(0, x.dtype))

    def _kept(self, shape: Sequence[int | keras.KerasTensor]) -> keras.KerasTensor:
        """Draws which features to keep, of that shape; every dtype gets the same.

        16 random bits decide about a feature: drawing them takes longer than all the rest.
        """
        size = functools.reduce(operator.mul, shape, 1)
        words = keras.random.randint(
            ((size + 1) // 2, 1), -(2**31), 2**31 - 1, "int32", seed=self.seeds
        )
        numbers = ops.reshape(ops.view(words, "int16"), (-1,))[:size]
        least = ops.cast(round(self.rate * 2**16) - 2**15, "int16")
        return ops.reshape(numbers >= least, shape)
