"""Functions with gradients of their own have those that Keras finds."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import normal
from t2t_lite.layers.own_gradients import dropped


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
