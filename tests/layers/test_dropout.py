import keras
import numpy as np
import pytest

from t2t_lite.layers.dropout import Dropout

X = np.ones((100, 200), np.float32)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_rate_and_scale(rate):
    """20,000 draws: four standard deviations of the share of zeros are below 0.015."""
    y = np.array(Dropout(rate, keras.random.SeedGenerator(3))(X, training=True))
    assert (y == 0).mean() == pytest.approx(rate, abs=0.015)
    np.testing.assert_allclose(y[y != 0], 1 / (1 - rate), rtol=1e-6)


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
