"""Batches for tests of the training step."""

import numpy as np
import pytest
import tensorflow as tf

VOCAB = 30


@pytest.fixture(scope="session")
def ragged_batches():
    """Returns what makes batches [W, B, L] whose parts hold very different numbers of tokens."""

    def make(steps: int, parts: int = 8) -> list[dict[str, tf.Tensor]]:
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

    return make


@pytest.fixture(scope="session")
def ragged_batch(ragged_batches):
    """Returns what makes the first of these batches."""
    return lambda parts=4: ragged_batches(1, parts)[0]
