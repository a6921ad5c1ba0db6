"""Frozen parts stay frozen when a model is saved and loaded."""

import keras
import numpy as np
import pytest

from t2t_lite.layers.attention import SelfAttention
from t2t_lite.layers.dense import FeedForward
from t2t_lite.layers.transformer_layers import EncoderLayer
from t2t_lite.models.transformer import Transformer

SMALL = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 2}


def make(**kwargs):
    return Transformer("transformer_base", 13, 13, **SMALL, **kwargs)


def copied(layer):
    return type(layer).from_config(layer.get_config())


def trainable(model):
    """Which of all weights are trainable, in a fixed order."""
    return [weight.trainable for weight in model.weights], len(model.trainable_weights)


def freeze_encoder(model):
    model.encoder.trainable = False


def freeze_stack_but_last_layer(model):
    model.encoder.stack.trainable = False
    model.encoder.stack[-1].trainable = True


def freeze_embedding(model):
    model.inputs_embedding.trainable = False


def freeze_one_weight(model):
    model.decoder.stack[0].feed_forward.trainable_weights[0].trainable = False


def freeze_everything(model):
    model.trainable = False


@pytest.mark.integration
@pytest.mark.parametrize(
    "freeze",
    [
        freeze_encoder,
        freeze_stack_but_last_layer,
        freeze_embedding,
        freeze_one_weight,
        freeze_everything,
    ],
)
def test_a_model_keeps_what_is_frozen(freeze):
    model = make(use_target_space_embedding=True)
    every = len(model.trainable_weights)
    freeze(model)
    assert len(model.trainable_weights) < every
    assert trainable(copied(model)) == trainable(model)


@pytest.mark.integration
def test_a_model_keeps_its_own_flag():
    model = make(trainable=False)
    assert not copied(model).trainable
    assert trainable(copied(model)) == trainable(model)


def test_nothing_frozen_leaves_configurations_alone():
    model = make()
    freeze_everything(model)
    model.trainable = True
    for part in (model, model.encoder, model.encoder.stack):
        assert "frozen" not in part.get_config()
    assert "trainable" not in model.get_config()


def test_a_layer_keeps_what_is_frozen():
    layer = EncoderLayer(SelfAttention(8, 2), FeedForward(8, 12, 0.1))
    layer.attention.trainable = False
    layer.feed_forward.trainable_weights[0].trainable = False
    assert trainable(copied(layer)) == trainable(layer)


@pytest.mark.integration
def test_a_saved_classifier_on_a_frozen_encoder(tmp_path):
    model = make()
    model.encoder.trainable = False
    ids = keras.Input((None,), dtype="int32")
    mean = keras.layers.GlobalAveragePooling1D()(model.encoder(ids))
    classifier = keras.Model(ids, keras.layers.Dense(2)(mean))
    assert len(classifier.trainable_weights) == 2
    classifier.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert trainable(loaded) == trainable(classifier)
    inputs = np.array([[5, 9, 1]], np.int32)
    np.testing.assert_array_equal(loaded(inputs), classifier(inputs))
