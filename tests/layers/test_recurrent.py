"""The recurrent layer against Keras's own, and attention to the source against plain NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close, normal
from t2t_lite.layers.recurrent import CELLS, Cell, LSTMCell, LSTMState, Recurrent, run_cell
from t2t_lite.layers.recurrent_attention import (
    AdditiveAttention,
    DotAttention,
    FactoredAttention,
    NormedAdditiveAttention,
)

INPUTS, D = 3, 4
# Padding after the tokens, before them, and between them.
MASK = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [1, 0, 0, 1, 1]]) > 0
X = np.random.RandomState(0).normal(size=(*MASK.shape, INPUTS)).astype(np.float32)

STEP = INPUTS + D  # terms of the product of one step
TERMS = MASK.shape[1] * STEP


def make(cell="lstm", backward=False):
    layer = Recurrent(CELLS[cell](INPUTS, D), backward)
    for i, weight in enumerate(layer.trainable_weights):
        weight.assign(np.random.RandomState(i).normal(size=weight.shape))
    return layer


def keras_layer(layer):
    """Keras's layer with the same weights; it adds its forget bias to the variable."""
    cell = layer.cell
    kernel = ops.convert_to_numpy(cell.gates.kernel)
    bias = ops.convert_to_numpy(cell.gates.bias)
    if isinstance(cell, LSTMCell):
        cls, biases = keras.layers.LSTM, bias + np.repeat([0.0, 1.0, 0.0, 0.0], D)
    else:
        of_output = np.concatenate([np.zeros(2 * D), ops.convert_to_numpy(cell.output_bias)])
        cls, biases = keras.layers.GRU, np.stack([bias, of_output])
    theirs = cls(D, return_sequences=True, return_state=True, go_backwards=layer.backward)
    theirs.build((None, None, INPUTS))
    theirs.set_weights([kernel[:INPUTS], kernel[INPUTS:], biases])
    return theirs


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_computes_what_keras_computes(cell, backward):
    layer = make(cell, backward)
    outputs, final = layer(X, MASK)
    wanted, *state = keras_layer(layer)(X, mask=ops.convert_to_tensor(MASK))
    wanted = ops.convert_to_numpy(wanted)
    wanted = (wanted[:, ::-1] if backward else wanted) * MASK[..., None]
    assert_close(outputs, wanted, TERMS)
    for part, other in zip(final, state, strict=True):
        assert_close(part, other, TERMS)


@pytest.mark.parametrize("backward", [False, True])
def test_the_state_passes_through_padding(backward):
    """The sentence of two tokens ends in the same state wherever its padding is."""
    layer = make(backward=backward)
    _, alone = layer(X[1:2, :2])
    for before, after in ((0, 3), (2, 1)):
        x = np.pad(X[1:2, :2], [(0, 0), (before, after), (0, 0)], constant_values=9.0)
        outputs, final = layer(x, _tokens(before))
        for part, other in zip(final, alone, strict=True):
            assert_close(part, other, terms=2 * STEP)  # one product of more rows
        assert not np.any(ops.convert_to_numpy(outputs)[~_tokens(before)])


def test_a_mask_from_keras_hides_padding_also_with_an_initial_state():
    layer, state = make(), LSTMState(*normal(2, len(MASK), D))
    masked = keras.layers.Masking()(np.where(MASK[..., None], X, 0.0).astype(np.float32))
    for given in (None, state):
        wanted, final = layer(X, mask=MASK, initial_state=given)
        outputs, found = layer(masked, initial_state=given)
        np.testing.assert_array_equal(outputs, wanted)
        np.testing.assert_array_equal(found.cell, final.cell)


def _tokens(before):
    return (np.arange(5)[None] >= before) & (np.arange(5)[None] < before + 2)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_those_of_the_sequence(cell):
    """From a given state, and with only some of the inputs multiplied in advance."""
    layer = make(cell)
    state = layer.cell.initial_state(np.full((len(X), D), 0.5, np.float32))
    outputs, final = layer(X, initial_state=state)
    partly = layer.cell.stepper(known=2)
    other = state
    for position in range(X.shape[1]):
        x = X[:, position]
        state = layer.step(x, state)
        other = partly(layer.cell.project(x[:, :2]), other, x[:, 2:])
        assert_close(state.output, outputs[:, position], TERMS)
        assert_close(other.output, outputs[:, position], TERMS)
    for part, wanted in zip(state, final, strict=True):
        assert_close(part, wanted, TERMS)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("mask", [None, MASK], ids=["tokens", "padding"])
def test_the_gradient_is_that_of_automatic_differentiation(mask, backward):
    """Of outputs and final state, by inputs, initial state and weights."""
    cell = make(backward=backward).cell
    targets = [tf.constant(normal(*MASK.shape, D)), *map(tf.constant, normal(2, len(X), D, seed=1))]
    sources = [tf.constant(X), *map(tf.constant, normal(2, len(X), D, seed=2))]
    weights = [weight.value for weight in cell.trainable_weights]
    gradients = []
    for scan in (type(cell).scan, Cell.scan):
        with tf.GradientTape() as tape, pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(cell), "scan", scan)
            tape.watch(sources)
            outputs, final = run_cell(cell, sources[0], mask, LSTMState(*sources[1:]), backward)
            loss = sum(
                tf.reduce_sum(part * target)
                for part, target in zip((outputs, *final), targets, strict=True)
            )
        gradients.append(tape.gradient(loss, sources + weights))
    for own, automatic in zip(*gradients, strict=True):
        assert_close(
            own, automatic, 2 * TERMS + MASK.size
        )  # there and back, over sentences and steps


@pytest.mark.integration
def test_xla_compiles_the_gradient():
    cell = make().cell

    def gradient(x, mask):
        with tf.GradientTape() as tape:
            outputs, _ = run_cell(cell, x, mask)
            loss = tf.reduce_sum(outputs**2)
        return tape.gradient(loss, [weight.value for weight in cell.trainable_weights])

    compiled = tf.function(gradient, jit_compile=True)(tf.constant(X), tf.constant(MASK))
    for found, wanted in zip(compiled, gradient(X, MASK), strict=True):
        assert_close(found, wanted, 2 * TERMS + MASK.size)


def test_a_second_bias_is_added_to_the_first():
    cell = LSTMCell(INPUTS, D, forget_bias=0.0, second_bias=True)
    state = cell.initial_state(np.zeros((len(X), D), np.float32))
    before = cell(X[:, 0], state)
    cell.gates.bias.assign(np.arange(4.0 * D))
    cell.output_bias.assign(-np.arange(4.0 * D))
    # Biases up to 16 cancel each other.
    assert_close(cell(X[:, 0], state).output, before.output, terms=STEP + 2, scale=4.0 * D)


# ---- attention


def softmax(scores):
    return np.exp(scores) / np.exp(scores).sum()


def test_normed_scores_are_those_of_the_formula():
    attention = NormedAdditiveAttention(D, outputs=0)
    attention.scale.assign([0.7])
    attention.bias.assign(normal(D, seed=3))
    query, values = normal(1, 2, D), normal(1, 5, D, seed=1)
    memory = attention.memory(values, np.ones((1, 5), bool))
    q, k, v = (
        ops.convert_to_numpy(part.kernel)
        for part in (attention.query, attention.key, attention.score)
    )
    for row, result in zip(
        query[0], ops.convert_to_numpy(attention(query, memory))[0], strict=True
    ):
        hidden = np.tanh(row @ q + values[0] @ k + ops.convert_to_numpy(attention.bias))
        scores = 0.7 * hidden @ v[:, 0] / np.linalg.norm(v)
        assert_close(result, softmax(scores) @ values[0], terms=D + 1 + 2 * D + 2 * 5)


@pytest.mark.parametrize("window", [1, 3])
def test_local_attention_is_that_of_the_formula(window):
    """Luong et al. 2015, equations 9 and 10, with the sentence's own length."""
    attention = DotAttention(D, outputs=0, window=window)
    query, values = 2.0 * normal(2, 3, D), normal(2, 6, D, seed=1)
    lengths = [6, 4]
    memory = attention.memory(values, np.arange(6)[None] < np.array(lengths)[:, None])
    weights = ops.convert_to_numpy(attention.attention_weights(query, memory))
    inner, outer = (
        ops.convert_to_numpy(part.kernel) for part in (attention.position, attention.position_score)
    )
    for b, length in enumerate(lengths):
        for row, found in zip(query[b], weights[b], strict=True):
            share = 1.0 / (1.0 + np.exp(-(np.tanh(row @ inner) @ outer)[0]))
            distance = np.arange(length) - length * share
            scores = np.where(np.abs(distance) <= window, values[b, :length] @ row, -np.inf)
            wanted = softmax(scores) * np.exp(-(distance**2) / (2 * (window / 2) ** 2))
            # The window's exponent, of the centre after two products, is up to 2 (6 / window)².
            assert_close(found[:length], wanted, terms=2 * D + D + 6, scale=(6 / window) ** 2 * 2)
            assert not found[length:].any()


def test_concat_is_the_additive_score():
    """V · tanh(W [query; key]): the halves of W are the matrices of queries and keys."""
    attention = AdditiveAttention(D, outputs=0)
    query, values = normal(1, 1, D), normal(1, 5, D, seed=1)
    q, k, v = (
        ops.convert_to_numpy(part.kernel)
        for part in (attention.query, attention.key, attention.score)
    )
    pairs = np.concatenate([np.repeat(query[0], 5, axis=0), values[0]], axis=1)
    wanted = np.tanh(pairs @ np.concatenate([q, k])) @ v
    found = attention.scores(query, attention.keys(values))
    assert_close(found[0, 0], wanted[:, 0], terms=2 * D + D)


def test_factored_scores_are_those_of_the_formula():
    attention = FactoredAttention(D)
    query, keys = normal(2, 3, D), normal(2, 5, D, seed=1)
    w, v = (ops.convert_to_numpy(part.kernel) for part in (attention.query, attention.score))
    wanted = np.einsum("bqd,bsd->bqs", np.tanh(query @ w) * v[:, 0], np.tanh(keys))
    assert_close(attention.scores(query, keys), wanted, terms=D + D)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_an_output_may_be_projected():
    """An LSTM of more cells, whose output is multiplied by a matrix before anyone sees it."""
    cell = LSTMCell(INPUTS, D, cells=7)
    assert cell.gates.kernel.shape == (INPUTS + D, 4 * 7)
    x, h, c = normal(2, INPUTS), normal(2, D, seed=1), normal(2, 7, seed=2)
    state = cell(x, LSTMState(h, c))
    gates = np.concatenate([x, h], axis=-1) @ ops.convert_to_numpy(cell.gates.kernel)
    write, forget, new, read = np.split(gates, 4, axis=-1)
    wanted = sigmoid(forget + 1) * c + sigmoid(write) * np.tanh(new)
    output = (sigmoid(read) * np.tanh(wanted)) @ ops.convert_to_numpy(cell.output_kernel)
    assert_close(state.cell, wanted, terms=STEP)
    assert_close(state.output, output, terms=STEP + 7)
    outputs, final = Recurrent(cell)(normal(2, 4, INPUTS))
    assert (outputs.shape, final.output.shape, final.cell.shape) == ((2, 4, D), (2, D), (2, 7))
