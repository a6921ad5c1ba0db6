import keras
import numpy as np

from support.rounding import assert_close
from t2t_lite.layers.dense import FeedForward

X = np.random.RandomState(0).normal(size=(2, 3, 4)).astype(np.float32)


def _layer(dropout):
    layer = FeedForward(4, 50, dropout, 1.0, keras.random.SeedGenerator(0))
    layer.expand.bias.assign(np.linspace(-1, 1, 50))
    layer.contract.bias.assign(np.arange(4.0))
    return layer


def test_is_equation_2():
    layer = _layer(0.0)
    w1, b1, w2, b2 = (np.array(v) for v in layer.trainable_variables)
    assert_close(layer(X), np.maximum(0, X @ w1 + b1) @ w2 + b2, terms=4 + 50 + 2)


def test_dropout_is_of_the_hidden_features():
    layer = _layer(0.5)
    dropped = np.array(layer(X, training=True))
    assert np.abs(dropped - np.array(layer(X))).min() > 0
    layer.contract.kernel.assign(np.zeros((50, 4)))
    np.testing.assert_array_equal(layer(X, training=True), np.broadcast_to(np.arange(4.0), X.shape))
