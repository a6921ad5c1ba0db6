import functools

import keras
import numpy as np
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite.layers.auxiliary_losses import AuxiliaryLayer, collected_statistics
from t2t_lite.layers.base import Dropout
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.recomputation import recomputed


def gradients(recompute: bool) -> tuple[list[np.ndarray], int]:
    """Of two layers with dropout; and how often the layers ran."""
    keras.utils.set_random_seed(1)
    seeds = keras.random.SeedGenerator(3)
    projections = [Projection(8, (8,)) for _ in range(2)]
    dropout = Dropout(0.5, seeds)
    runs = 0

    def layer(projection, x, factor):
        nonlocal runs
        runs += 1
        return dropout(
            keras.ops.tanh(projection(dropout(x, training=True) * factor)), training=True
        )

    with tf.GradientTape() as tape:
        x, factor = tf.ones((4, 8)), tf.fill((8,), 1.5)
        tape.watch([x, factor])
        y = x
        for projection in projections:
            run = functools.partial(layer, projection)
            y = (recomputed(run, seeds) if recompute else run)(y, factor)
        loss = tf.reduce_sum(y**2)
    variables = [projection.kernel.value for projection in projections]
    found = tape.gradient(loss, [x, factor, *variables])
    return [loss.numpy(), seeds.state.numpy(), *(g.numpy() for g in found)], runs


def test_masks_and_gradients_are_those_without_recomputation():
    kept, runs = gradients(recompute=False)
    again, more_runs = gradients(recompute=True)
    assert (runs, more_runs) == (2, 4)
    for one, other in zip(kept, again, strict=True):
        # Two products over 8, there and back; the loss adds up 4 x 8 squares.
        assert_close(one, other, terms=2 * 2 * 8 + 4 * 8)


class Squares(AuxiliaryLayer):
    """Statistics of its input."""

    @property
    def statistics_shapes(self):
        return {"squares": ()}

    def call(self, x):
        self.add_statistics({"squares": keras.ops.sum(x * x)})
        return x

    def auxiliary_losses(self, sums):
        return {"squares": sums["squares"] ** 2}


def test_statistics_come_out_of_it_with_their_gradients():
    seeds, layer = keras.random.SeedGenerator(3), Squares()
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape, collected_statistics() as collected:
        tape.watch(x)
        recomputed(layer, seeds)(x)
    squares = collected[layer]["squares"]
    assert float(squares) == 5.0
    np.testing.assert_array_equal(tape.gradient(squares, x), [2.0, 4.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        recomputed(layer, seeds)(x)
        (loss,) = layer.losses
    assert float(loss) == 25.0
    np.testing.assert_array_equal(tape.gradient(loss, x), [20.0, 40.0])
