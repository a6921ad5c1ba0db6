import keras
import numpy as np
import pytest
from keras import ops

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import (
    MASKED,
    EncoderDecoderAttention,
    causal_bias,
    merge_heads,
    padding_bias,
    split_heads,
)


@pytest.fixture(scope="module")
def units(golden):
    return np.load(golden / "units.npz")


@pytest.fixture
def seeds():
    return keras.random.SeedGenerator(0)


def test_biases_are_those_of_t2t(units):
    np.testing.assert_array_equal(causal_bias(5), units["bias/lower_triangle_5"])
    ids = np.any(units["bias/embedding"] != 0, axis=-1).astype(np.int32)
    np.testing.assert_array_equal(padding_bias(ids), units["bias/ignore_padding"])


def test_biases_hide_padding_and_the_future():
    np.testing.assert_array_equal(padding_bias(np.array([[7, 1, 0]])), [[[[0, 0, MASKED]]]])
    seen = ops.convert_to_numpy(causal_bias(4))[0, 0] == 0
    np.testing.assert_array_equal(seen, np.tril(np.ones((4, 4), bool)))


def test_heads_are_split_as_in_t2t(units):
    x = units["split_heads/in"]
    heads = split_heads(x, 2)
    np.testing.assert_array_equal(heads, units["split_heads/out"])
    np.testing.assert_array_equal(merge_heads(heads), x)


def test_attention_is_that_of_t2t(units, seeds):
    q, k, v = (units[f"attention/{name}"] for name in "qkv")
    layer = EncoderDecoderAttention(8, 2, seeds=seeds)
    weights = layer.attention_weights(q, k, units["attention/bias"])
    assert_close(weights @ v, units["attention/out"], terms=q.shape[-1] + 2 * k.shape[-2])


def test_attention_is_a_softmax_of_products(seeds):
    random = np.random.RandomState(0)
    q, k = random.normal(size=(1, 1, 2, 9)), random.normal(size=(1, 1, 3, 9))
    layer = EncoderDecoderAttention(9, 1, seeds=seeds)
    scores = np.exp(q[0, 0] @ k[0, 0].T) * [1, 1, 0]
    wanted = scores / scores.sum(axis=1, keepdims=True)
    weights = layer.attention_weights(
        q.astype("float32"), k.astype("float32"), np.array([0, 0, MASKED])
    )
    assert_close(weights[0, 0], wanted, terms=q.shape[-1] + k.shape[-2])


def test_heads_must_divide_the_channels():
    with pytest.raises(UsageError, match="value_channels=9 cannot be split over 2 heads"):
        EncoderDecoderAttention(8, 2, value_channels=9)
