"""The SSRU, against its equations step by step."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close
from t2t_lite.layers.ssru import SSRU

B, T, D = 3, 7, 6


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


@pytest.fixture
def layer() -> SSRU:
    layer = SSRU(D)
    for number, weight in enumerate(layer.weights):
        weight.assign(np.random.RandomState(number).normal(size=weight.shape))
    return layer


@pytest.fixture
def x() -> np.ndarray:
    return np.random.RandomState(9).normal(size=(B, T, D)).astype(np.float32)


def by_hand(layer: SSRU, x: np.ndarray) -> np.ndarray:
    candidate, gate = np.split(
        ops.convert_to_numpy(layer.projection.kernel).astype(np.float64), 2, axis=1
    )
    cell, outputs = np.zeros((len(x), D)), []
    for position in range(x.shape[1]):
        now = x[:, position]
        kept = sigmoid(now @ gate + ops.convert_to_numpy(layer.gate_bias))
        cell = kept * cell + (1 - kept) * (now @ candidate)
        outputs.append(np.maximum(cell, 0))
    return np.stack(outputs, axis=1)


def test_the_equations(layer, x):
    assert_close(layer(x), by_hand(layer, x), terms=D + 2 * T)


def test_steps_and_the_whole_are_equal_and_a_state_is_a_hypothesis(layer, x):
    """The rows of `x` are beams of one sentence, exchanged on the way."""
    order, whole = [2, 0, 1], ops.convert_to_numpy(layer(x))
    state = layer.empty_cache(1, B, 1)
    for position in range(T):
        if position == 4:
            state = type(state)(ops.take(state.cell.numpy(), order, axis=1)).grown(9)
            x, whole = x[order], whole[order]
        y, state = layer.step(x[None, :, position], state, position)
        assert_close(y[0], whole[:, position], terms=D + 2 * T)


def test_the_gradient_is_that_of_the_equations(layer, x):
    """Central differences in float64 along random directions."""
    direction = np.random.RandomState(3).normal(size=(B, T, D))

    def loss() -> float:
        return float(np.sum(by_hand(layer, x) * direction))

    with tf.GradientTape() as tape:
        value = tf.reduce_sum(layer(x) * direction.astype(np.float32))
    for weight, gradient in zip(
        layer.weights, tape.gradient(value, [w.value for w in layer.weights]), strict=True
    ):
        way, start = (
            np.random.RandomState(4).normal(size=weight.shape),
            ops.convert_to_numpy(weight),
        )
        ends = []
        for distance in (1e-3, -1e-3):
            weight.assign(start + distance * way)
            ends.append(loss())
        weight.assign(start)
        expected = (ends[0] - ends[1]) / 2e-3
        assert np.sum(gradient * way) == pytest.approx(expected, rel=1e-3, abs=1e-2)


@pytest.mark.bfloat16
def test_a_narrow_dtype_forgets_nothing_that_a_gate_near_one_keeps():
    """1,000 steps that keep 0.999 each; in bfloat16, 0.999 is 1."""
    layer = SSRU(1, dtype="mixed_bfloat16")
    layer.projection.kernel.assign([[1.0, 0.0]])
    layer.gate_bias.assign([np.log(999.0)])
    y = layer(np.ones((1, 1000, 1), np.float32))
    assert y.dtype == "bfloat16"
    assert float(y[0, -1, 0]) == pytest.approx(1 - 0.999**1000, rel=0.01)
