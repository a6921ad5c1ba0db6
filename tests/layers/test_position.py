import numpy as np
import pytest

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.layers.transformer_layers import Position, sinusoids


@pytest.mark.parametrize(
    ("name", "positions", "channels"),
    [
        ("length10_channels8", range(10), 8),
        ("length10_channels7", range(10), 7),
        ("length10_channels512", range(10), 512),
        ("length4_channels8_start5", range(5, 9), 8),
        ("length1000_channels512_rows_100_255_999", (100, 255, 999), 512),
    ],
)
def test_sinusoids_are_those_of_t2t(golden, name, positions, channels):
    wanted = np.load(golden / "units.npz")[f"timing/{name}"]
    # The angle is rounded: a sine of 999 is as exact as 999. Its rate is a power.
    assert_close(sinusoids(np.array(positions), channels), wanted, terms=4, scale=max(positions))


def test_sinusoids_run_from_2_pi_to_20000_pi():
    signal = np.array(sinusoids(np.arange(3), 6))
    rates = np.array([1.0, 0.01, 0.0001])
    for position in range(3):
        wanted = np.concatenate([np.sin(position * rates), np.cos(position * rates)])
        assert_close(signal[position], wanted, terms=4, scale=2.0)  # an angle of 2


@pytest.mark.parametrize("kind", ["timing", "emb"])
def test_a_position_adds_the_same_wherever_it_is_asked_for(kind):
    """One step at position 3 sees what the whole sequence sees there."""
    layer = Position(kind, 6, max_length=8)
    x = np.random.RandomState(0).normal(size=(2, 5, 6)).astype(np.float32)
    whole = np.array(layer(x, np.arange(5)))
    assert_close(layer(x[:, 3:4], np.array([3])), whole[:, 3:4], terms=4 + 1, scale=3.0)
    assert np.abs(whole - x).max(axis=(0, 2)).min() > 0.1


def test_learned_positions_beyond_the_table_share_its_last_row():
    layer = Position("emb", 4, max_length=3)
    added = np.array(layer(np.zeros((1, 5, 4), np.float32), np.arange(5)))[0]
    np.testing.assert_array_equal(added, np.array(layer.table)[[0, 1, 2, 2, 2]])


def test_none_adds_nothing():
    x = np.ones((1, 5, 4), np.float32)
    np.testing.assert_array_equal(Position("none", 4, max_length=3)(x, np.arange(5)), x)


def test_learned_positions_need_a_length():
    with pytest.raises(UsageError, match="max_length=0 positions: set max_length"):
        Position("emb", 8, max_length=0)
