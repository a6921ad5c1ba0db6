"""Layers of a user's own, such as Keras's, have weights, names and copies as the model's have."""

import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.own_layers import (
    DRY,
    SMALL,
    InASet,
    OwnEncoder,
    WithOwnLayers,
    a_dense,
    with_own_layers,
)
from t2t_lite.errors import UsageError
from t2t_lite.models.known_weights import KnownWeights
from t2t_lite.models.transformer import Transformer

FEATURES = {
    "inputs": np.array([[5, 9, 1], [4, 1, 0]], np.int32),
    "targets": np.array([[3, 1], [7, 1]], np.int32),
}
pytestmark = pytest.mark.integration  # models with layers of others are traced

# Models are called once to be made; without dropout, that call takes less.
DRY_AND_SMALL = {**SMALL, **DRY}
OWN = ("alone", "listed", "by_name", "sequential", "functional", "above")


@pytest.fixture(scope="module")
def model():
    """No test changes it."""
    return with_own_layers()


def outputs_of(model):
    return np.asarray(model(FEATURES))


def own_weights(model):
    """The weights of a model that a Transformer of its sizes lacks."""
    plain = [*Transformer("transformer_base", 13, 13, **DRY_AND_SMALL).weights]
    assert len(model.weights) > len(plain)
    inside = [model.alone, *model.listed, *model.by_name.values(), model.sequential]
    inside += [model.functional, *model.encoder.above]
    return [weight for layer in inside for weight in layer.weights]


def test_a_constructed_model_has_all_its_weights(model):
    own = own_weights(model)
    assert len(own) == 2 * 10 + 2  # of ten Dense layers and a normalisation
    assert {id(w) for w in own} <= {id(w) for w in model.trainable_weights}
    assert model.built
    assert model.encoder.built
    before = len(model.weights)
    model(FEATURES)
    assert len(model.weights) == before


def test_a_model_whose_layers_have_weights_is_not_called(monkeypatch):
    """Tracing a large model takes seconds."""

    def refuse(self, features, training=False):
        raise AssertionError("called")

    monkeypatch.setattr(Transformer, "call", refuse)
    assert Transformer("transformer_base", 13, 13, **DRY_AND_SMALL).built


def test_the_call_draws_initial_weights_alone():
    """All others, and the dropout masks, are those of a model without the layer."""

    def made(kind):
        keras.utils.set_random_seed(1)
        return kind("transformer_base", 13, 13, **SMALL)

    class OneMore(Transformer):
        def make_layers(self):
            super().make_layers()
            self.alone = a_dense()

        def hidden(self, features, training=False):
            return self.alone(super().hidden(features, training=training))

    plain, more = made(Transformer), made(OneMore)
    own = {id(weight) for weight in more.alone.weights}
    weights = [weight for weight in more.weights if id(weight) not in own]
    for found, wanted in zip(weights, plain.weights, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(more.seeds.state, plain.seeds.state)


def test_a_language_model_is_called_with_targets_alone():
    class OwnLanguageModel(Transformer):
        def make_layers(self):
            super().make_layers()
            self.alone = [a_dense()]

        def hidden(self, features, training=False):
            return self.alone[0](super().hidden(features, training=training))

    assert len(OwnLanguageModel("transformer_base", 0, 13, **DRY_AND_SMALL).alone[0].weights) == 2


# ---- copies


def test_copies_compute_the_same(model, tmp_path):
    wanted = outputs_of(model)
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for copy in (loaded, clone, pickle.loads(pickle.dumps(model))):
        assert len(copy.trainable_weights) == len(model.trainable_weights)
        np.testing.assert_array_equal(outputs_of(copy), wanted)


def test_a_checkpoint_names_every_weight(model, tmp_path):
    """TensorFlow itself leaves out layers in Keras's lists and dicts, wherever they are."""
    path = tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")
    names = [n for n, _ in tf.train.list_variables(path) if n.endswith("VARIABLE_VALUE")]
    assert len(names) == len(model.weights)
    for name in OWN:
        assert any(f"/{name}" in one for one in names), name
    other = with_own_layers()
    assert not np.array_equal(outputs_of(other), outputs_of(model))
    tf.train.Checkpoint(model=other).read(path).assert_consumed()
    for found, wanted in zip(other.weights, model.weights, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_the_names_of_weights_in_attributes_are_those_of_attributes(tmp_path):
    """A run of before continues: other layers do not change how weights are called."""
    path = tf.train.Checkpoint(model=with_own_layers()).write(tmp_path / "checkpoint")
    names = {name for name, _ in tf.train.list_variables(path)}
    plain = tf.train.Checkpoint(model=Transformer("transformer_base", 13, 13, **DRY_AND_SMALL))
    before = {name for name, _ in tf.train.list_variables(plain.write(tmp_path / "plain"))}
    assert before <= names
    assert "model/alone/bias/.ATTRIBUTES/VARIABLE_VALUE" in names


def test_a_weight_without_a_name_is_refused(tmp_path):
    model = InASet("transformer_base", 13, 13, **DRY_AND_SMALL)
    with pytest.raises(UsageError, match=r"InASet: .*kernel.*keep the layer in an attribute"):
        tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")


def test_layers_under_keys_that_are_spelled_alike_are_refused(tmp_path):
    """One would take the other's place in the checkpoint."""

    class Alike(Transformer):
        def make_layers(self):
            super().make_layers()
            self.by_key = {1: a_dense(), "1": a_dense()}

        def hidden(self, features, training=False):
            x = super().hidden(features, training=training)
            return self.by_key["1"](self.by_key[1](x))

    model = Alike("transformer_base", 13, 13, **DRY_AND_SMALL)
    with pytest.raises(UsageError, match=r"Alike: .*kernel.* under a key of its own"):
        tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")


def test_an_encoder_alone_is_built_by_its_first_call(tmp_path):
    ids = FEATURES["inputs"]
    encoder = OwnEncoder("transformer_base", 13, **DRY_AND_SMALL)
    assert not encoder.built
    wanted = np.asarray(encoder(ids))
    assert encoder.built
    encoder.save(tmp_path / "encoder.keras")
    loaded = keras.saving.load_model(tmp_path / "encoder.keras")
    np.testing.assert_array_equal(loaded(ids), wanted)
    given = keras.Input((None,), dtype="int32")
    keras.Model(given, OwnEncoder("transformer_base", 13, **DRY_AND_SMALL)(given)).save(
        tmp_path / "functional.keras"
    )
    functional = keras.saving.load_model(tmp_path / "functional.keras")
    functional.set_weights(encoder.get_weights())
    np.testing.assert_array_equal(functional(ids), wanted)


# ---- freezing and adapting


def test_own_layers_are_the_output_that_is_not_frozen():
    model = with_own_layers(frozen="embeddings+encoder+decoder")
    left = {id(weight) for weight in model.trainable_weights}
    assert left == {id(w) for w in own_weights(model)} - {id(w) for w in model.encoder.weights}
    with pytest.raises(UsageError, match="is left to learn"):
        with_own_layers(frozen="embeddings+encoder+decoder+output")


def test_a_copy_keeps_what_is_frozen_inside(model):
    copy = WithOwnLayers.from_config(model.get_config())
    copy.listed[1].steps[0].trainable = False
    copy.alone.bias.trainable = False
    copy.by_name["first"].trainable = False
    again = WithOwnLayers.from_config(copy.get_config())
    wanted = [weight.trainable for weight in copy.weights]
    assert [weight.trainable for weight in again.weights] == wanted
    assert len(again.trainable_weights) == len(copy.trainable_weights)
    assert len(model.trainable_weights) - len(copy.trainable_weights) == 5


def test_low_rank_adaptation_of_own_layers(tmp_path):
    model = with_own_layers()
    for layer in (model.alone, model.listed[0], model.by_name["first"]):
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(0.1 * np.ones((2, 8)))
    path = tf.train.Checkpoint(model=model).write(tmp_path / "checkpoint")
    names = [name for name, _ in tf.train.list_variables(path)]
    assert sum("lora_kernel_b" in name for name in names) == 3
    wanted = outputs_of(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(outputs_of(loaded), wanted, rtol=1e-5, atol=1e-5)


# ---- weights that come late


def test_a_layer_that_comes_late_is_named():
    class Late(Transformer):
        def hidden(self, features, training=False):
            if not hasattr(self, "late"):
                self.late = [a_dense()]
            return self.late[0](super().hidden(features, training=training))

    model = Late("transformer_base", 13, 13, **DRY_AND_SMALL)
    known = KnownWeights(model)
    known.require_no_others()
    model(FEATURES)
    with pytest.raises(UsageError, match=r"Late: kernel of the layer 'late\.0' \(Dense\)"):
        known.require_no_others()


class BuiltLate(Transformer):
    """Makes what it needs in `build`, as Keras's users do."""

    def build(self, input_shape):
        self.extra = a_dense(len(input_shape["targets"]) * 4)
        self.scale = self.add_weight((8,), initializer="ones", name="scale")
        super().build(input_shape)

    def hidden(self, features, training=False):
        return self.extra(super().hidden(features, training=training)) * self.scale


class BuiltAlone(Transformer):
    """The same, without the base class's."""

    def build(self, input_shape):
        self.extra = a_dense()

    def hidden(self, features, training=False):
        return self.extra(super().hidden(features, training=training))


class BuiltEncoder(OwnEncoder):
    """An encoder that makes its layer in `build`."""

    def make_layers(self):
        super(OwnEncoder, self).make_layers()

    def build(self, input_shape):
        self.above = (a_dense(),)


class WithBuiltEncoder(Transformer):
    """A model with such an encoder."""

    encoder_class = BuiltEncoder


@pytest.mark.parametrize(("kind", "more"), [(BuiltLate, 3), (BuiltAlone, 2), (WithBuiltEncoder, 2)])
def test_a_build_of_its_own_makes_weights_before_training(kind, more):
    model = kind("transformer_base", 13, 13, **DRY_AND_SMALL)
    plain = Transformer("transformer_base", 13, 13, **DRY_AND_SMALL)
    assert len(model.weights) == len(plain.weights) + more
    assert model.built
    assert all(layer.built for layer in model._flatten_layers())
