"""Subclasses that keep layers of their own in the attributes `encoder` and `decoder`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer import Transformer, TransformerEncoder

FEATURES = {
    "inputs": np.array([[5, 9, 1]], np.int32),
    "targets": np.array([[3, 1]], np.int32),
}
SMALL = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 1}


def dense():
    layer = keras.layers.Dense(8)
    layer.build((None, None, 8))
    return layer


@keras.saving.register_keras_serializable(package="tests")
class OwnParts(Seq2Seq):
    def make_layers(self):
        self.encoder = dense()
        self.decoder = dense()
        self.unused = [dense()]

    def hidden(self, features, training=False):
        source = keras.ops.mean(self.encoder(self.inputs_embedding(features["inputs"])), axis=1)
        return self.decoder(self.targets_embedding(features["targets"])) + source[:, None]

    def start_decoding(self, inputs, beams, length):
        raise NotImplementedError

    grow = decode_step = start_decoding


@keras.saving.register_keras_serializable(package="tests")
class OwnEncoder(TransformerEncoder):
    def make_layers(self):
        super().make_layers()
        self.above = dense()

    def encode(self, inputs, training=False):
        encoded, padding = super().encode(inputs, training)
        return self.above(encoded), padding


@keras.saving.register_keras_serializable(package="tests")
class TransformerWithOwnEncoder(Transformer):
    encoder_class = OwnEncoder


def make_own():
    return OwnParts(BasicHParams(hidden_size=8), 13, 13)


def make_transformer():
    return TransformerWithOwnEncoder("transformer_base", 13, 13, **SMALL)


@pytest.mark.integration
@pytest.mark.parametrize("make", [make_own, make_transformer])
def test_they_are_saved_and_loaded(make, tmp_path):
    model = make()
    assert isinstance(model.encoder, keras.layers.Dense | OwnEncoder)
    assert model.encoder in model.layers
    wanted = model(FEATURES)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(FEATURES), wanted)
    path = tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")
    other = make()
    tf.train.Checkpoint(model=other).read(path).assert_consumed()
    np.testing.assert_array_equal(other(FEATURES), wanted)


def test_they_stay_frozen():
    model = make_own()
    model.encoder.trainable = False
    model.unused[0].trainable = False
    copy = OwnParts.from_config(model.get_config())
    assert len(copy.trainable_weights) == len(model.trainable_weights)
    assert not copy.encoder.trainable
    assert not copy.unused[0].trainable
