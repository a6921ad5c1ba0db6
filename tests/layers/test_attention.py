import keras
import numpy as np
import pytest
from keras import ops

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import (
    MASKED,
    EncoderDecoderAttention,
    SelfAttention,
    causal_bias,
    merge_heads,
    padding_bias,
    split_heads,
)
from t2t_lite.layers.parameter_attention import ParameterAttention


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


# ---- parameters, and a neighbourhood


def _softmax(scores):
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_parameter_attention_is_its_formula():
    """softmax(q (√D K)ᵀ / √d_k) √D V in each head, between two projections."""
    channels, heads, key_size, value_size, pairs = 6, 2, 3, 5, 7
    sizes = {"key_channels": heads * key_size, "value_channels": heads * value_size}
    layer = ParameterAttention(channels, heads, pairs, **sizes)
    x = np.random.RandomState(0).normal(size=(2, 4, channels)).astype(np.float32)
    names = ("query", "output_projection")
    query, output = (np.asarray(getattr(layer, name).kernel) for name in names)
    keys, values = np.asarray(layer.keys), np.asarray(layer.values)
    mixed = []
    for head in range(heads):
        own_keys = slice(head * key_size, (head + 1) * key_size)
        own_values = slice(head * value_size, (head + 1) * value_size)
        scores = x @ query[:, own_keys] @ keys[:, own_keys].T * channels**0.5 / key_size**0.5
        mixed.append(_softmax(scores) @ values[:, own_values] * channels**0.5)
    wanted = np.concatenate(mixed, axis=-1) @ output
    terms = channels + key_size + 2 * pairs + heads * value_size  # queries, scores, attention, end
    assert_close(layer(x), wanted, terms)


@pytest.mark.parametrize(("heads", "pairs"), [(8, 1536), (16, 512)])
def test_it_has_the_papers_2097152_parameters(heads, pairs):
    layer = ParameterAttention(
        512, heads, pairs, key_channels=heads * 64, value_channels=heads * 64
    )
    assert sum(int(np.prod(weight.shape)) for weight in layer.weights) == 2_097_152


def test_it_trains_and_drops_weights(seeds):
    layer = ParameterAttention(4, 2, 9, dropout_rate=0.5, seeds=seeds)
    x = np.ones((1, 3, 4), np.float32)
    still, dropped = np.array(layer(x)), np.array(layer(x, training=True))
    assert_close(still[0, 0], still[0, 2], terms=4 + 2 + 2 * 9 + 4)
    assert np.abs(dropped[0, 0] - dropped[0, 2]).max() > 1e-3


# ---- neighbourhood


def _restricted(neighborhood, seeds):
    return SelfAttention(4, 2, neighborhood=neighborhood, seeds=seeds)


@pytest.mark.parametrize(
    ("neighborhood", "before", "behind"), [(1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 2, 1), (5, 2, 2)]
)
def test_positions_see_their_neighbourhood_alone(neighborhood, before, behind, seeds):
    layer = _restricted(neighborhood, seeds)
    seen = []
    layer.attention_hook = seen.append
    layer(np.random.RandomState(0).normal(size=(1, 8, 4)), padding_bias(np.ones((1, 8))))
    weights = ops.convert_to_numpy(seen[0])[0]
    distances = np.subtract.outer(np.arange(8), np.arange(8))  # query - key
    near = np.broadcast_to((distances <= before) & (distances >= -behind), weights.shape)
    assert (weights[near] > 0).all()
    assert (weights[~near] == 0).all()
    assert near[0].sum(axis=1).max() == neighborhood


def test_a_negative_neighbourhood_is_a_usage_error(seeds):
    with pytest.raises(UsageError, match="attention_neighborhood=-1: expected at least 1 position"):
        _restricted(-1, seeds)


def test_a_wide_neighbourhood_restricts_nothing(seeds):
    narrow, free = _restricted(40, seeds), _restricted(0, seeds)
    free.set_weights(narrow.get_weights())
    x = np.random.RandomState(0).normal(size=(2, 9, 4)).astype(np.float32)
    found, wanted = (layer(x, causal_bias(9)) for layer in (narrow, free))
    np.testing.assert_array_equal(found, wanted)  # the same kernels: only the mask differs
