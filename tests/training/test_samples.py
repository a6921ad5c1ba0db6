"""Samples of evaluations: escaped text, and images that show attention weights."""

import numpy as np
import pytest

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.decoding.dataset_decoding import Decodes
from t2t_lite.models.attention_maps import attention_maps
from t2t_lite.training import samples
from t2t_lite.training.samples import attention_images, sample_table

HEADS, LAYERS, S, T = 2, 2, 6, 4
CELL = GAP = 8


def make(name: str, hparams_set: str):
    hparams = registry.hparams(hparams_set).override(f"num_hidden_layers={LAYERS}").freeze()
    return registry.model(name)(hparams, 20, 20)


@pytest.fixture
def one_example(monkeypatch):
    pair = (list(range(2, 2 + S)), list(range(3, 3 + T)))
    monkeypatch.setattr(samples, "eval_examples", lambda paths, reader, limit: [pair][:limit])
    return pair


def test_a_table_shows_the_first_sentences_as_they_are():
    count = 9
    decodes = Decodes(
        [f"source {i}" for i in range(count)],
        ["*not* <b>bold</b> | [x](y)"] * count,
        [Output("a_b_c")] * count,
    )
    table = sample_table(decodes)
    assert table[0] == ["source", "reference", "output"]
    assert [row[0] for row in table[1:]] == [f"source {i}" for i in range(5)]
    assert table[1][1] == r"\*not\* \<b\>bold\</b\> \| \[x\]\(y\)"
    assert table[1][2] == r"a\_b\_c"


@pytest.mark.integration
def test_images_hold_the_weights_of_every_head(one_example):
    model = make("transformer", "transformer_test")
    images = attention_images(model, ["any"], None)
    maps = attention_maps(model, *one_example)["encoder_decoder"]
    assert len(images) == len(maps) == LAYERS
    for image, layer in zip(images, maps, strict=True):
        assert image.shape == (T * CELL + 2 * GAP, HEADS * (S * CELL + GAP) + GAP, 1)
        for head in range(HEADS):
            left = GAP + head * (S * CELL + GAP)
            cells = image[GAP : GAP + T * CELL : CELL, left : left + S * CELL : CELL, 0]
            assert_close(1.0 - cells, layer[head], terms=1, scale=1.0)  # white is 1
            assert_close(layer[head].sum(axis=1), np.ones(T), terms=2 * S)
        assert not np.allclose(layer[0], layer[1], rtol=0, atol=1e-3)  # heads differ
    assert not np.array_equal(images[0], images[1])
    assert all(layer.source_attention.attention_hook is None for layer in model.decoder.stack)


def test_an_lstm_has_one_image(one_example):
    lstm = make("lstm_seq2seq_attention", "lstm_luong_attention")
    [image] = attention_images(lstm, ["any"], None)
    assert image.shape == (T * CELL + 2 * GAP, S * CELL + 2 * GAP, 1)


def test_an_empty_split_has_no_images(monkeypatch):
    monkeypatch.setattr(samples, "eval_examples", lambda paths, reader, limit: [])
    assert attention_images(make("transformer", "transformer_test"), ["any"], None) == []
