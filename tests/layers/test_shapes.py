"""Reshaping and products whose sizes are partly unknown while TensorFlow traces."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close
from t2t_lite.layers.dense import multiply, sizes
from t2t_lite.tensor_sizes import shape_of, split


def spec(*shape: int | None) -> tf.TensorSpec:
    return tf.TensorSpec(shape, tf.float32)


@pytest.mark.parametrize(
    ("known", "computes"),
    [((2, 3, 4), False), ((None, 3, 4), False), ((2, None, 4), False), ((None, None, 4), True)],
)
def test_sizes_are_computed_only_if_two_are_unknown(known, computes):
    traced = tf.function(lambda x: ops.reshape(x, (*sizes(x)[:2], 2, 2)), autograph=False)
    graph = traced.get_concrete_function(spec(*known))
    assert graph(tf.zeros((2, 3, 4))).shape == (2, 3, 2, 2)
    assert any(op.type == "Shape" for op in graph.graph.get_operations()) == computes


@pytest.mark.parametrize("known", [(6, 4), (None, 4), (2, 3, 4), (None, 3, 4), (None, None, 4)])
def test_multiply_is_one_product_of_all_rows(known):
    draw = np.random.default_rng(7)
    shape = (6, 4) if len(known) == 2 else (2, 3, 4)
    x, kernel = draw.normal(size=shape), draw.normal(size=(4, 5))
    traced = tf.function(multiply, autograph=False)
    graph = traced.get_concrete_function(spec(*known), spec(4, 5))
    y = graph(tf.constant(x, tf.float32), tf.constant(kernel, tf.float32))
    assert_close(y, x @ kernel, terms=4 + 1)
    types = [op.type for op in graph.graph.get_operations()]
    assert types.count("MatMul") == 1
    assert not {"Prod", "BatchMatMulV2"} & set(types)


@pytest.mark.parametrize("known", [(2, 3, 6), (None, 3, 6), (None, None, 6)])
def test_unknown_sizes_are_taken_apart_by_one_operation(known):
    traced = tf.function(lambda x: ops.zeros(shape_of(x)), autograph=False)
    graph = traced.get_concrete_function(spec(*known))
    assert graph(tf.ones((2, 3, 6))).shape == (2, 3, 6)
    types = [op.type for op in graph.graph.get_operations()]
    assert types.count("Unpack") == (None in known)
    assert "StridedSlice" not in types


def test_parts_have_their_sizes(monkeypatch):
    """As Keras splits for other backends."""
    x = np.arange(12.0).reshape(1, 2, 6)
    for backend in ("tensorflow", "jax"):
        monkeypatch.setattr(keras.backend, "backend", lambda backend=backend: backend)
        for part, wanted in zip(split(x, (1, 3, 2)), np.split(x, [1, 4], axis=-1), strict=True):
            np.testing.assert_array_equal(part, wanted)


def test_functional_models_take_tensors_apart():
    x = keras.Input((3, 6))
    assert shape_of(x) == (None, 3, 6)
    assert [part.shape for part in split(x, (1, 5))] == [(None, 3, 1), (None, 3, 5)]
