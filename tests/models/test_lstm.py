"""The LSTM against Keras's own, and its attention against plain NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

from support.model_kinds import make_model
from support.rounding import assert_close, normal
from support.terms import terms_of
from t2t_lite.layers.attention import MASKED
from t2t_lite.layers.recurrent import LSTMCell, Recurrent
from t2t_lite.layers.recurrent_attention import (
    AdditiveAttention,
    MultiplicativeAttention,
    SourceMemory,
)

D = 4


def _keras_lstm(layer):
    """Keras's LSTM with the weights of ours, which adds its forget bias of 1 to the variable."""
    channels = layer.cell.gates.kernel.shape[1] // 4
    theirs = keras.layers.LSTM(channels, return_sequences=True, return_state=True)
    theirs.build((None, None, channels))
    kernel, recurrent = np.split(np.array(layer.cell.gates.kernel), 2)
    bias = np.array(layer.cell.gates.bias)
    bias[channels : 2 * channels] += 1.0
    theirs.set_weights([kernel, recurrent, bias])
    return theirs


def test_layer_computes_what_keras_lstm_computes():
    layer = Recurrent(LSTMCell(D, D, gain=1.0))
    layer.cell.gates.bias.assign(normal(4 * D))
    x = normal(3, 5, D, seed=1)
    own_outputs, final = layer(x)
    outputs, last_output, last_cell = _keras_lstm(layer)(x)
    assert_close(own_outputs, outputs, terms=5 * 2 * D)
    assert_close(final.output, last_output, terms=5 * 2 * D)
    assert_close(final.cell, last_cell, terms=5 * 2 * D)


def test_encoder_ends_in_the_state_after_the_last_token(features):
    """Keras's masks, which stop at padding, are the oracle."""
    model = make_model("luong")
    inputs, terms = features["inputs"], terms_of(model, 7)
    encoded = model.encode(inputs)
    x = model.inputs_embedding(inputs)
    for layer, (output, cell) in zip(model.encoder.stack, encoded.states, strict=True):
        x, last_output, last_cell = _keras_lstm(layer)(x, mask=ops.convert_to_tensor(inputs != 0))
        assert_close(output, last_output, terms)
        assert_close(cell, last_cell, terms)
    real = inputs != 0
    assert_close(np.array(encoded.output)[real], np.array(x)[real], terms)


@pytest.mark.parametrize("kind", [AdditiveAttention, MultiplicativeAttention])
def test_attention_is_the_weighted_mean_without_padding(kind):
    attention = kind(D, gain=1.0)
    values, queries = normal(2, 3, D), normal(2, 5, D, seed=1)
    lengths = (3, 2)
    bias = np.array([[[0, 0, 0]], [[0, 0, MASKED]]], np.float32)
    attended = attention(queries, SourceMemory(values, attention.key(values), bias))

    for b, length in enumerate(lengths):
        keys = values[b, :length] @ np.array(attention.key.kernel)
        for k, query in enumerate(queries[b]):
            if kind is AdditiveAttention:
                added = np.tanh(query @ np.array(attention.query.kernel) + keys)
                scores = added @ np.array(attention.score.kernel)[:, 0]
            else:
                scores = keys @ query
            weights = np.exp(scores) / np.exp(scores).sum()
            joined = np.concatenate([weights @ values[b, :length], query])
            wanted = np.tanh(joined @ np.array(attention.join.kernel))
            assert_close(attended[b, k], wanted, terms=2 * D + D + 2 * 3 + 2 * D)


def test_decoder_reads_its_own_attention(features):
    """Input feeding: a step depends on the attentional output of the step before."""
    model = make_model("bahdanau")
    state = model.start_decoding(features["inputs"], 1, 3)
    ids, step = np.full((3, 1), 5, np.int32), ops.convert_to_tensor(1)
    logits, _ = model.decode_step(ids, step, state)
    fed = state.hypothesis._replace(attended=state.hypothesis.attended + 1.0)
    changed, _ = model.decode_step(ids, step, state._replace(hypothesis=fed))
    assert np.abs(np.array(logits) - np.array(changed)).max() > 1e-2


def test_attention_is_chosen_by_name():
    assert isinstance(make_model("bahdanau").decoder.attention, AdditiveAttention)
    assert isinstance(make_model("luong").decoder.attention, MultiplicativeAttention)


@pytest.mark.integration
def test_dropout_reaches_what_the_decoder_feeds_itself(features, monkeypatch):
    """Without dropout in the encoder, and with targets that embed as zero, that alone is left."""
    features = {**features, "targets": np.zeros((3, 2), np.int32)}

    def change(layers):
        model = make_model("luong", num_hidden_layers=layers)
        encode = model.encoder.encode
        monkeypatch.setattr(model.encoder, "encode", lambda inputs, training: encode(inputs))
        difference = model.hidden(features, training=True) - model.hidden(features)
        return np.abs(difference).max(axis=(0, 2))

    one_layer, two_layers = change(1), change(2)
    assert one_layer[0] == 0  # no attentional output yet, nor a layer below
    assert one_layer[1] > 1e-2
    assert two_layers[0] > 1e-2


def test_both_directions_are_side_by_side_at_each_position():
    model = make_model("normed_bahdanau")
    ids = np.array([[5, 9, 2, 1]])
    both = ops.convert_to_numpy(model.encoder(ids))
    assert both.shape == (1, 4, 16)
    later = ops.convert_to_numpy(model.encoder(np.array([[5, 9, 3, 1]])))
    read_before = np.all(both[0, :2] == later[0, :2], axis=0)
    np.testing.assert_array_equal(read_before, [True] * 8 + [False] * 8, "forward, then backward")
