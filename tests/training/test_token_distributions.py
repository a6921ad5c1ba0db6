"""Distributions over the vocabulary: the forms for XLA are those of the plain loss."""

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite.layers.dense import EXCLUDED, Embedding, GivenLogits, OutputProjection
from t2t_lite.training.losses import cross_entropy_of
from t2t_lite.training.objectives.token_distributions import TokenDistributions

TOKENS, VOCAB = 6, 9
TARGETS = np.array([1, 5, 8, 2, 3, 0], np.int32)  # the last is padding


def random_logits(offset: float = 0.0) -> np.ndarray:
    """[TOKENS, VOCAB], around `offset`."""
    return offset + np.random.default_rng(5).normal(scale=3.0, size=(TOKENS, VOCAB))


def with_gradient(values_of, logits):
    """Returns values [C] that are computed from logits, and the gradient of their weighted sum."""
    logits = tf.constant(logits, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        values = values_of(logits)
        total = tf.reduce_sum(values * tf.range(1.0, len(values) + 1.0))
    return values, tape.gradient(total, logits)


def excluding(logits: np.ndarray) -> np.ndarray:
    """Excludes two ids of some tokens, and all but the target of another."""
    logits[:2, [0, 4]] = EXCLUDED
    logits[2, :-1] = EXCLUDED
    return logits


def without_padding(logits: np.ndarray) -> np.ndarray:
    """What a projection without padding makes."""
    logits[:, 0] = EXCLUDED
    return logits


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("offset", [0.0, -50.0, 80.0])
@pytest.mark.parametrize(
    ("projection", "change"),
    [
        (lambda: OutputProjection(Embedding(VOCAB, 2)), lambda logits: logits),
        (lambda: OutputProjection(Embedding(VOCAB, 2), has_padding=False), without_padding),
        (GivenLogits, excluding),
    ],
    ids=["all", "without padding", "excluding"],
)
def test_cross_entropy_is_that_of_the_plain_loss(projection, change, offset, smoothing):
    logits, projection = change(random_logits(offset)), projection()
    plain = cross_entropy_of(projection)
    wanted = with_gradient(lambda z: plain(z, TARGETS, smoothing)[:-1], logits)

    def ours(z):
        return TokenDistributions.of(projection, z).cross_entropy(TARGETS, smoothing)[:-1]

    for one, other in zip(with_gradient(ours, logits), wanted, strict=True):
        # Log-probabilities of ids; rounding of logits as large as the offset; there and back.
        assert_close(one, other, 2 * 2 * VOCAB, scale=max(1.0, abs(offset)))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("projection", "change"),
    [
        (lambda: OutputProjection(Embedding(VOCAB, 2), has_padding=False), without_padding),
        (GivenLogits, excluding),
    ],
    ids=["without padding", "excluding"],
)
def test_xla_computes_the_same(projection, change):
    logits, projection = change(random_logits()), projection()

    def ours(z):
        return TokenDistributions.of(projection, z).cross_entropy(TARGETS, 0.1)[:-1]

    compiled = tf.function(lambda: with_gradient(ours, logits), jit_compile=True)
    for one, other in zip(compiled(), with_gradient(ours, logits), strict=True):
        assert_close(one, other, 2 * 2 * VOCAB)


def test_means_are_under_the_distribution():
    values = np.random.default_rng(6).normal(size=(TOKENS, VOCAB))
    projection = OutputProjection(Embedding(VOCAB, 2))

    def ours(z):
        return TokenDistributions.of(projection, z).mean(tf.constant(values, tf.float32))

    def wanted(z):
        return tf.reduce_sum(tf.nn.softmax(z) * tf.constant(values, tf.float32), axis=1)

    found = with_gradient(ours, random_logits())
    for one, other in zip(found, with_gradient(wanted, random_logits()), strict=True):
        assert_close(one, other, 2 * 2 * VOCAB)


def test_extreme_logits_stay_finite():
    logits = random_logits() * 1e4
    projection = OutputProjection(Embedding(VOCAB, 2))

    def ours(z):
        p = TokenDistributions.of(projection, z)
        return p.cross_entropy(TARGETS, 0.1) + p.mean(p.logits) - p.log_sums

    for numbers in with_gradient(ours, logits):
        assert np.isfinite(numbers).all()
