import keras
import numpy as np
import pytest

from support.rounding import assert_close
from t2t_lite.layers.base import Dropout
from t2t_lite.layers.dense import DROPPED_ID, Embedding, drop_symbols

X = np.ones((100, 200), np.float32)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_rate_and_scale(rate):
    """20,000 draws: four standard deviations of the share of zeros are below 0.015."""
    y = np.array(Dropout(rate, keras.random.SeedGenerator(3))(X, training=True))
    assert (y == 0).mean() == pytest.approx(rate, abs=0.015)
    assert_close(y[y != 0], np.full(np.count_nonzero(y), 1 / (1 - rate)), terms=1)


def test_layers_draw_from_the_generator_in_turn():
    seeds = keras.random.SeedGenerator(3)
    one, other = Dropout(0.5, seeds), Dropout(0.5, seeds)
    state = np.array(seeds.state)
    first = [np.array(layer(X, training=True)) for layer in (one, other, one)]
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])
    seeds.state.assign(state)
    for mask, layer in zip(first, (one, other, one), strict=True):
        np.testing.assert_array_equal(layer(X, training=True), mask)


def test_evaluation_and_rate_0_change_nothing_and_draw_nothing():
    seeds = keras.random.SeedGenerator(3)
    before = np.array(seeds.state)
    np.testing.assert_array_equal(Dropout(0.5, seeds)(X), X)
    np.testing.assert_array_equal(Dropout(0.0, seeds)(X, training=True), X)
    np.testing.assert_array_equal(np.array(seeds.state), before)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_the_mean_stays_the_same_in_every_dtype(dtype, rate):
    """4 million draws: four standard deviations of their mean are below 0.0015."""
    y = Dropout(rate, keras.random.SeedGenerator(3))(
        keras.ops.ones((2001, 1999), dtype), training=True
    )
    assert keras.backend.standardize_dtype(y.dtype) == dtype
    y = np.array(keras.ops.cast(y, "float32"), np.float64)
    assert y.mean() == pytest.approx(1.0, abs=0.0015)
    assert (y == 0).mean() == pytest.approx(rate, rel=0.02)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 0, 3), (5, 1, 7)])
def test_every_shape(shape):
    x = np.ones(shape, np.float32)
    y = np.array(Dropout(0.5, keras.random.SeedGenerator(3))(x, training=True))
    assert y.shape == shape
    assert set(y.ravel()) <= {0.0, 2.0}


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_features_near_and_far_are_independent(rate):
    """A word decides about four neighbours, and groups share bits.

    400,000 pairs of each kind: five standard deviations of a correlation are below 0.008.
    """
    seeds = keras.random.SeedGenerator(3)
    layers = [Dropout(rate, seeds) for _ in range(2)]
    one, other = (np.array(layer(np.ones(400_000), training=True)) != 0 for layer in layers)
    for distance in (1, 2, 3, 4, 5, 1023, 1024, 1028):
        found = np.corrcoef(one[distance:], one[:-distance])[0, 1]
        assert found == pytest.approx(0, abs=0.008), distance
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(0, abs=0.008)


@pytest.mark.parametrize("rate", [0.001, 0.0995, 0.1, 0.4999, 0.501, 0.9, 0.999])
def test_the_rate_is_finer_than_the_bits_of_a_feature(rate):
    """8 bits alone would miss these rates by up to 0.002; 4 million draws miss less.

    The bound is five standard deviations, of which shared bits add at most a tenth.
    """
    draws = 4_000_000
    y = np.array(Dropout(rate, keras.random.SeedGenerator(3))(np.ones(draws), training=True))
    deviation = np.sqrt(rate * (1 - rate) / draws)
    assert (y == 0).mean() == pytest.approx(rate, abs=5.5 * deviation + 2**-17)


def test_shared_bits_do_not_show_in_the_number_of_zeros():
    """Their variance over 4,000 groups is that of independent features, to 5 deviations (0.112)."""
    y = np.array(Dropout(0.1, keras.random.SeedGenerator(3))(np.ones((4000, 1024)), training=True))
    variance = (y == 0).sum(axis=1).var()
    assert variance / (1024 * 0.1 * 0.9) == pytest.approx(1, abs=0.112 + 1024 * 2**-18 / 0.09)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [1e-7, 0.001])
def test_a_rate_near_0_keeps_nearly_everything(dtype, rate):
    y = Dropout(rate, keras.random.SeedGenerator(3))(keras.ops.ones((20000,), dtype), training=True)
    y = np.array(keras.ops.cast(y, "float32"))
    assert (y == 0).mean() < 0.002
    assert y.max() == pytest.approx(1.0, abs=0.002)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("rate", [0.99998, 1 - 1e-9])
def test_a_rate_near_1_keeps_the_mean_and_gives_numbers(dtype, rate):
    """float16 has no number for 1 / (1 - rate), nor have 16 random bits a probability of 1e-9.

    Of 4 million features 122 are kept; a group has none, or 4 on average. The bound is five
    standard deviations.
    """
    x = keras.ops.ones((4_000_000,), dtype)
    y = Dropout(rate, keras.random.SeedGenerator(3))(x, training=True)
    y = np.array(keras.ops.cast(y, "float32"))
    assert {*y} == {0.0, 2.0**15}
    assert y.mean() == pytest.approx(1.0, abs=1.0)


def test_rate_1_drops_everything():
    np.testing.assert_array_equal(Dropout(1.0)(X, training=True), np.zeros_like(X))


@pytest.mark.parametrize("rate", [0.2, 1.0])
def test_dropped_symbols_have_no_embedding_but_are_no_padding(rate):
    ids = np.where(np.arange(100) < 90, np.full((100, 100), 7), 0).astype(np.int32)
    dropped = np.array(drop_symbols(ids, rate, keras.random.SeedGenerator(3)))
    assert (dropped[:, 90:] == 0).all()
    assert set(np.unique(dropped[:, :90])) <= {7, DROPPED_ID}
    share = (dropped[:, :90] == DROPPED_ID).mean()
    assert share == pytest.approx(rate, abs=0.0 if rate == 1.0 else 0.02)
    embedding = Embedding(8, 4)
    embedding.matrix.assign(np.ones((8, 4)))
    assert (np.array(embedding(dropped)).any(axis=-1) == (dropped == 7)).all()
    np.testing.assert_array_equal(embedding.compute_mask(dropped), ids != 0)
