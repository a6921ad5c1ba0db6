"""Batches [W, B, L] whose parts hold very different numbers of tokens."""

import numpy as np
import tensorflow as tf

VOCAB = 30


def ragged_batches(steps: int, parts: int = 8) -> list[dict[str, tf.Tensor]]:
    """Returns so many batches."""
    rng = np.random.default_rng(7)
    batches = []
    for _ in range(steps):
        features = {}
        for name, length in (("inputs", 6), ("targets", 7)):
            ids = rng.integers(2, VOCAB, (parts, 3, length))
            ends = rng.integers(1, length, (parts, 3, 1))
            ids = np.where(np.arange(length) < ends, ids, 0)
            features[name] = tf.constant(ids, tf.int32)
        batches.append(features)
    return batches


def ragged_batch(parts: int = 4) -> dict[str, tf.Tensor]:
    """Returns the first of these batches."""
    return ragged_batches(1, parts)[0]
