"""Functions with gradients of their own have those that Keras finds."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close, normal
from t2t_lite.layers.base import dropped
from t2t_lite.layers.transformer_layers import LayerNormalization


def outputs_and_gradients(function, *arguments):
    """Of a sum of the outputs with weights of any size."""
    arguments = [tf.constant(argument) for argument in arguments]
    with tf.GradientTape() as tape:
        tape.watch(arguments)
        y = function(*arguments)
        loss = tf.reduce_sum(tf.cast(y, tf.float32) * normal(*y.shape, seed=9))
    return [tf.cast(one, tf.float32) for one in (y, *tape.gradient(loss, arguments))]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_dropped_is_a_choice(dtype):
    x, kept = tf.cast(normal(3, 5, 7), dtype), normal(3, 5, 7, seed=1) > 0

    def chosen(x):
        return ops.where(kept, x * ops.cast(1.25, dtype), ops.cast(0, dtype))

    found = outputs_and_gradients(lambda x: dropped(x, kept, 1.25), x)
    for one, other in zip(found, outputs_and_gradients(chosen, x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("shape", [(6, 8), (3, 5, 8), (2, 1, 3, 8)])
def test_layer_normalisation_is_keras_s(policy, shape):
    """With features far from 0, and some that do not differ."""
    x = normal(*shape) + 3
    x[0] = 2.0
    weights = normal(8, seed=1), normal(8, seed=2)

    def normalised(kind):
        layer = kind(epsilon=1e-3, dtype=policy)
        layer.build(shape)

        def call(x, gamma, beta):
            pairs = [(layer.gamma, gamma), (layer.beta, beta)]
            with keras.StatelessScope(pairs):
                return layer(x, training=True)

        return outputs_and_gradients(call, tf.cast(x, layer.compute_dtype), *weights)

    ours, wanted = normalised(LayerNormalization), normalised(keras.layers.LayerNormalization)
    # Mean, variance and both means of the backward pass, or a sum over rows, are float32 numbers
    # under both policies; bfloat16 is but the last rounding.
    terms = {"float32": 4 * 8 + int(np.prod(shape[:-1])), "mixed_bfloat16": 1}[policy]
    for one, other in zip(ours, wanted, strict=True):
        assert_close(one, other, terms, dtype=policy.removeprefix("mixed_"))
