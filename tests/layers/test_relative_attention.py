import keras
import numpy as np
import pytest

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import causal_bias
from t2t_lite.layers.relative_attention import RelativeSelfAttention

HEADS, LARGEST = 2, 2


@pytest.fixture
def layer():
    """Heads with keys of 3 features and values of 5."""
    made = RelativeSelfAttention(8, HEADS, LARGEST, key_channels=6, value_channels=10)
    for i, variable in enumerate(made.trainable_variables):
        variable.assign(np.random.RandomState(i).normal(size=variable.shape))
    return made


# The products before and after; a score and its distance; the softmax, and the mean of values.
TERMS = 8 + 10 + 2 * 3 + 7 + 2 * 7


@pytest.fixture
def x():
    return np.random.RandomState(9).normal(size=(3, 7, 8)).astype("float32")


def row_of(query, key):
    return min(max(key - query, -LARGEST), LARGEST) + LARGEST


def by_definition(layer, x, sees):
    """Equations 3 to 5 of Shaw et al. (2018), one pair of positions at a time; `x` is [N, D]."""
    queries, keys, values = np.split(x @ np.asarray(layer.qkv.kernel), [6, 12], axis=1)
    to_keys, to_values = np.asarray(layer.relative_keys), np.asarray(layer.relative_values)
    outputs = []
    for i in range(len(x)):
        heads = []
        for h in range(HEADS):
            k, v = slice(3 * h, 3 * h + 3), slice(5 * h, 5 * h + 5)
            seen = [j for j in range(len(x)) if sees(i, j)]
            scores = [queries[i, k] @ (keys[j, k] + to_keys[row_of(i, j)]) / 3**0.5 for j in seen]
            weights = np.exp(scores) / np.exp(scores).sum()
            heads.append(
                sum(
                    w * (values[j, v] + to_values[row_of(i, j)])
                    for w, j in zip(weights, seen, strict=True)
                )
            )
        outputs.append(np.concatenate(heads) @ np.asarray(layer.output_projection.kernel))
    return np.stack(outputs)


def test_is_that_of_the_paper(layer, x):
    both_sides, left = layer(x, np.zeros((1, 1, 1, 7), "float32")), layer(x, causal_bias(7))
    for sentence in range(3):
        wanted = by_definition(layer, x[sentence], lambda i, j: True)
        assert_close(both_sides[sentence], wanted, TERMS)
        wanted = by_definition(layer, x[sentence], lambda i, j: j <= i)
        assert_close(left[sentence], wanted, TERMS)


def test_steps_are_the_whole(layer, x):
    whole = layer(x, causal_bias(7))
    cache = layer.empty_cache(3, 1, 9)
    for step in range(7):
        y, cache = layer.step(x[:, step : step + 1], cache, keras.ops.convert_to_tensor(step))
        assert_close(y[:, 0], whole[:, step], TERMS, scale=np.abs(whole).max())


def test_distances_are_clipped_as_in_t2t(golden):
    units = np.load(golden / "units.npz")
    wanted = units["relative/positions_length6_max2"]
    assert [[row_of(i, j) for j in range(6)] for i in range(6)] == wanted.tolist()


def test_a_largest_distance_is_needed():
    with pytest.raises(UsageError, match=r"max_relative_position=0: .* needs at least 1"):
        RelativeSelfAttention(8, 2, 0)


def test_distances_double_the_operations_of_a_pair(layer):
    assert layer.flops_per_pair() == 2 * 2 * (6 + 10)
