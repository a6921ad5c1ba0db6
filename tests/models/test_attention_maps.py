"""Maps hold the weights that the model attended with, and leave nothing behind."""

import numpy as np
import pytest

from t2t_lite.models.attention_maps import attention_maps
from t2t_lite.models.seq2seq import Seq2Seq, with_attention

SOURCE, TARGET = [5, 9, 2, 12, 7, 1], [3, 10, 4, 1]
S, T, HEADS, LAYERS = len(SOURCE), len(TARGET), 2, 2


def test_maps_of_all_layers(model, kind):
    maps = attention_maps(model, SOURCE, TARGET)
    shapes = {name: [weights.shape for weights in layers] for name, layers in maps.items()}
    if kind in ("bahdanau", "luong"):
        assert shapes == {"encoder_decoder": [(1, T, S)]}
    else:
        layers = getattr(model.hparams, "max_steps", LAYERS)  # or the recurrent steps of one layer
        wide = LAYERS if kind == "evolved" else 0  # layers below, the decoder's with more heads
        assert shapes == {
            "encoder": [(HEADS, S, S)] * layers,
            "decoder": ([(2 * HEADS, T, T)] * bool(wide) + [(HEADS, T, T)]) * layers,
            "encoder_decoder": [(HEADS, T, S)] * (layers + wide),
        }
        assert all(np.all(np.triu(weights, 1) == 0) for weights in maps["decoder"])
        assert not np.array_equal(*maps["encoder_decoder"][-2:])
    for layers in maps.values():
        for weights in layers:
            np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-6)


def test_the_last_layer_is_what_a_search_sees(model):
    features = {"inputs": np.array([SOURCE]), "targets": np.array([TARGET])}
    _, expected = with_attention(model, lambda: model(features))
    maps = attention_maps(model, SOURCE, TARGET)
    found = maps["encoder_decoder"][-1].mean(axis=0)
    np.testing.assert_allclose(found, expected[0], rtol=1e-5, atol=1e-7)


def test_the_first_layer_by_hand(make_model):
    model = make_model("post_norm")
    layer = model.encoder_layers[0].attention
    x = model.inputs_position(model.inputs_embedding(np.array([SOURCE])), np.arange(S))
    queries, keys, _ = np.split(np.array(layer.qkv(x))[0], 3, axis=-1)  # [S, H·d] each
    d = queries.shape[-1] // HEADS
    for head, found in enumerate(attention_maps(model, SOURCE, TARGET)["encoder"][0]):
        own = slice(head * d, (head + 1) * d)
        odds = np.exp(queries[:, own] @ keys[:, own].T / d**0.5)
        expected = odds / odds.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)


def test_no_hook_is_left(model, monkeypatch):
    attention_maps(model, SOURCE, TARGET)
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


def test_a_model_without_attention_has_no_maps(make_model, monkeypatch):
    model = make_model("luong")
    monkeypatch.setattr(type(model), "attention_layers", Seq2Seq.attention_layers)
    assert attention_maps(model, SOURCE, TARGET) == {}
