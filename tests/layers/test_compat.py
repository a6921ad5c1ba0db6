"""What stands in for missing parts of Keras, or for private ones, does the same."""

import keras
import numpy as np
import pytest

from t2t_lite import registry
from t2t_lite.layers.base import flattened, int8_quarters, own_weights


class WithoutPrivateNames:
    """A layer as a release of Keras without its private interface would show it."""

    def __init__(self, layer: keras.layers.Layer) -> None:
        self.weights = layer.weights


def test_quarters_are_the_bits_of_the_words(monkeypatch):
    words = [0, 1, -1, 255, 65535, -65536, 2**31 - 1, -(2**31), 0x01FE7F80]
    words = np.array(words, np.int32).reshape(3, 3)
    for _ in range(2):  # with `ops.view` where there is one, and without
        found = np.array(int8_quarters(keras.ops.convert_to_tensor(words)))
        np.testing.assert_array_equal(found, words.view(np.int8))
        monkeypatch.delattr(keras.ops, "view", raising=False)


@pytest.mark.parametrize(
    ("name", "hparams_set"),
    [("transformer", "transformer_test"), ("lstm_seq2seq_attention", "lstm_attention")],
)
def test_layers_are_found_without_keras_list(monkeypatch, name, hparams_set):
    hparams = registry.hparams(hparams_set).copy(num_hidden_layers=2, hidden_size=8)
    model = registry.model(name)(hparams, 9, 9)
    expected = flattened(model)
    monkeypatch.delattr(keras.layers.Layer, "_flatten_layers")
    found = flattened(model)
    assert found[0] is model
    assert len(found) == len({*map(id, found)})
    assert {*map(id, found)} == {*map(id, expected)}
    assert len(found) > 10


def test_weights_are_found_without_keras_list():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    layer.trainable = False
    found = own_weights(WithoutPrivateNames(layer))
    assert [*map(id, found)] == [*map(id, own_weights(layer))] != []
