"""Maps hold the weights that the model attended with, and leave nothing behind."""

import functools
import itertools

import numpy as np
import pytest

from support.model_kinds import make_model, model_of
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite.models.attention_maps import attention_maps, with_attention
from t2t_lite.models.seq2seq import Seq2Seq

SOURCE, TARGET = [5, 9, 2, 12, 7, 1], [3, 10, 4, 1]
S, T, D, HEADS, LAYERS = len(SOURCE), len(TARGET), 16, 2, 2


# What each kind of attention maps, [Q, N].
SIZES = {"encoder": (S, S), "decoder": (T, T), "encoder_decoder": (T, S)}


@pytest.fixture
def model(model):
    if not model.attention_layers():
        pytest.skip("a model without attention")
    return model


@functools.cache
def maps_of(kind):
    return attention_maps(model_of(kind), SOURCE, TARGET)


def test_maps_of_all_layers(kind, model):
    maps = maps_of(kind)
    assert {*maps} == {*model.attention_layers()} <= {*SIZES}
    for name, layers in maps.items():
        assert len(layers) >= len(model.attention_layers()[name]) >= 1
        for weights in layers:
            assert weights.shape[1:] == SIZES[name]
            sums = weights.sum(axis=-1)
            if kind == "local_gru":  # multiplied by a Gaussian after the softmax
                assert np.all((sums > 0) & (sums < 1))
            else:
                assert_close(sums, np.ones_like(sums), terms=2 * weights.shape[2])
        assert all(not np.array_equal(*pair) for pair in itertools.pairwise(layers))
    assert all(np.all(np.triu(weights, 1) == 0) for weights in maps.get("decoder", []))


@pytest.mark.parametrize(
    ("model_kind", "heads"),
    [
        ("post_norm", {name: [HEADS] * LAYERS for name in SIZES}),
        ("luong", {"encoder_decoder": [1]}),
        pytest.param(
            "universal", {name: [HEADS] * 2 for name in SIZES}, marks=pytest.mark.integration
        ),
        pytest.param(
            "evolved",  # an additional layer of attention below, the decoder's with more heads
            {
                "encoder": [HEADS],
                "decoder": [2 * HEADS, HEADS],
                "encoder_decoder": [HEADS] * 2,
            },
            marks=pytest.mark.integration,
        ),
    ],
)
def test_a_map_for_each_layer_or_step_and_each_head(model_kind, heads):
    maps = maps_of(model_kind)
    assert {name: [len(weights) for weights in layers] for name, layers in maps.items()} == heads


def test_the_last_layer_is_what_a_search_sees(kind, model):
    if "encoder_decoder" not in model.attention_layers():
        pytest.skip("a model without attention from outputs to the source")
    features = {"inputs": np.array([SOURCE]), "targets": np.array([TARGET])}
    _, expected = with_attention(model, lambda: model(features))
    layers = [layer for group in model.attention_layers().values() for layer in group]
    assert all(layer.attention_hook is None for layer in layers)
    maps = maps_of(kind)
    layers = maps["encoder_decoder"] if kind == "conv_s2s" else maps["encoder_decoder"][-1:]
    found = np.mean(layers, axis=(0, 1))
    assert_close(found, expected[0], terms_of(model, S))


def test_the_first_layer_by_hand():
    model = make_model("post_norm")
    layer = model.encoder.stack[0].attention
    x = model.encoder.position(model.inputs_embedding(np.array([SOURCE])), np.arange(S))
    queries, keys, _ = np.split(np.array(layer.qkv(x))[0], 3, axis=-1)  # [S, H·d] each
    d = queries.shape[-1] // HEADS
    for head, found in enumerate(attention_maps(model, SOURCE, TARGET)["encoder"][0]):
        own = slice(head * d, (head + 1) * d)
        scores = queries[:, own] @ keys[:, own].T / d**0.5
        odds = np.exp(scores)
        expected = odds / odds.sum(axis=1, keepdims=True)
        assert_close(
            found, expected, terms=D + D // HEADS + S, scale=np.abs(scores).max()
        )  # an exponent's error is the error of its result


def test_no_hook_is_left(kind, model, monkeypatch):
    maps_of(kind)
    hidden = model.hidden

    def fail(features):
        hidden(features)
        raise ValueError("a defect")

    monkeypatch.setattr(model, "hidden", fail)
    with pytest.raises(ValueError, match="a defect"):
        attention_maps(model, SOURCE, TARGET)
    layers = [layer for group in model.attention_layers().values() for layer in group]
    assert layers
    assert all(layer.attention_hook is None for layer in layers)


def test_a_model_without_attention_has_no_maps(monkeypatch):
    model = make_model("luong")
    monkeypatch.setattr(type(model), "attention_layers", Seq2Seq.attention_layers)
    assert attention_maps(model, SOURCE, TARGET) == {}
