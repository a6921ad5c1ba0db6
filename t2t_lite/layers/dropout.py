"""Dropout whose masks come from the model's single seed generator."""

import functools
import operator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from t2t_lite.layers import compat
from t2t_lite.layers.base import Layer, seeds_or_new
from t2t_lite.layers.embedding import DROPPED_ID


@keras.saving.register_keras_serializable(package="t2t_lite")
class Dropout(Layer):
    """Zeroes features with probability `rate` and scales the others by `1 / (1 - rate)`.

    The scale is rounded to the dtype of the features, and the probability follows it, so that the
    mean stays the same: with rate 0.1, bfloat16 has scale 1.109 and probability 0.0986.

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
        dtype = keras.backend.standardize_dtype(x.dtype)
        scale = float(np.array(1.0 / (1.0 - self.rate)).astype(dtype))
        kept = self._kept(ops.shape(x), 1.0 / scale)
        return ops.where(kept, x * ops.cast(scale, dtype), ops.cast(0, dtype))

    def _kept(
        self, shape: Sequence[int | keras.KerasTensor], probability: float
    ) -> keras.KerasTensor:
        """Draws which features to keep, of that shape.

        16 random bits decide about a feature: drawing them takes longer than all the rest.
        """
        size = functools.reduce(operator.mul, shape, 1)
        words = keras.random.randint(
            ((size + 1) // 2, 1), -(2**31), 2**31 - 1, "int32", seed=self.seeds
        )
        numbers = ops.reshape(compat.int16_halves(words), (-1,))[:size]
        # A rate below the resolution of the dtype leaves 2^16, which int16 cannot hold.
        end = ops.cast(min(round(probability * 2**16), 2**16 - 1) - 2**15, "int16")
        return ops.reshape(numbers < end, shape)


def drop_symbols(
    ids: keras.KerasTensor, rate: float, seeds: keras.random.SeedGenerator
) -> keras.KerasTensor:
    """Replaces ids [B, N], except padding, by `DROPPED_ID` with probability `rate`.

    This is T2T's `symbol_dropout`, which sets ids to 0. There, as here, the embedding becomes 0. In
    T2T, however, a symbol without embedding is padding: attention does not see a dropped source
    symbol, and recurrent encoders stop that much earlier. Here, positions, lengths and masks remain
    those of the whole sentence.
    """
    ids = ops.cast(ids, "int32")
    dropped = keras.random.uniform(ops.shape(ids), seed=seeds) < rate
    return ops.where(dropped & (ids != 0), DROPPED_ID, ids)
