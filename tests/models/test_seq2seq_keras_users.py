"""What Keras's users do with any model, through Keras alone."""

import pathlib
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.marks import by_name
from support.model_kinds import (
    LAYERS,
    QUICK,
    SHALLOW,
    kinds,
    make_model,
    make_untrained,
    model_of,
    possible,
)
from support.rounding import assert_close, relative_bound
from support.terms import terms_of
from t2t_lite.errors import UsageError
from t2t_lite.layers.base import default_policy
from t2t_lite.layers.dense import Projection
from t2t_lite.models.transformer import Transformer

# For what takes seconds: CI takes attention and recurrence.
FEW = kinds((), QUICK)
OF_LAYERS = kinds(integration=LAYERS)
# For what Keras does around a model: that it trains recurrence is in test_seq2seq_contract.py.
FITTED = ("post_norm", *by_name("luong"))
LENGTH = 7
FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"


def numpy_of(tensor):
    return possible(tensor)


@pytest.mark.integration
@pytest.mark.parametrize("kind", OF_LAYERS)
def test_ids_of_any_dtype(model, features):
    """Keras makes floats of them in many places."""

    def logits(dtype, training):
        model.seeds.state.assign([3, 0])
        given = {name: ids[:, :4].astype(dtype) for name, ids in features.items()}
        return numpy_of(model(given, training=training))

    for training, dtypes in ((False, ("float32",)), (True, ("float64", "uint8"))):
        wanted = logits("int32", training)
        for dtype in dtypes:
            np.testing.assert_array_equal(logits(dtype, training), wanted)


@pytest.mark.parametrize("kind", FEW)  # that floats are ids is tested for all kinds above
def test_inputs_without_a_dtype(model, features):
    """`keras.Input` is of floats by default."""
    ids = {name: keras.Input((None,), name=name) for name in features}
    functional = keras.Model(ids, model(ids))
    assert_close(numpy_of(functional(features)), numpy_of(model(features)), terms_of(model, LENGTH))


def test_a_call_without_a_dict_says_what_is_expected(model, features):
    lacking = {"targets": features["targets"], "input": features["inputs"]}
    for given in ([*features.values()], tuple(features.values()), features["inputs"], lacking):
        with pytest.raises(Exception, match=r'expected \{"inputs": ids'):
            model(given)


@pytest.mark.integration
@pytest.mark.parametrize("kind", FITTED)
def test_fit_and_evaluate_on_two_replicas(dropouts, features, kind):
    """As on one, with padding left out by weights; `ignore_class` gives other losses on two."""
    # Not by collectives: TensorFlow mixes up those of several models in one process.
    to_one = tf.distribute.ReductionToOneDevice()
    rows = {name: ids[[0, 2, 1, 1]] for name, ids in features.items()}
    targets, weights = rows["targets"], (rows["targets"] != 0).astype("float32")
    tokens = weights.sum(axis=1)
    assert tokens[:2].sum() != tokens[2:].sum(), "the replicas have unlike numbers of tokens"
    losses = []
    for replicas in (1, 2):
        devices = [f"CPU:{number}" for number in range(replicas)]
        with tf.distribute.MirroredStrategy(devices, to_one).scope():
            model = make_untrained(kind, **dict.fromkeys(dropouts, 0.0), **SHALLOW[kind])
            model.compile(
                keras.optimizers.SGD(0.1),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                run_eagerly=True,  # tracing takes far longer than the steps
            )
        model.fit(rows, targets, sample_weight=weights, batch_size=4, shuffle=False, verbose=0)
        losses.append(model.evaluate(rows, targets, 4, verbose=0, sample_weight=weights))
    assert_close(losses[1], losses[0], terms_of(model, LENGTH))


# ---- shapes, exports and adaptation


@pytest.mark.integration
@pytest.mark.parametrize("kind", OF_LAYERS)
def test_the_shape_of_the_output_is_known(kind, model, features):
    """Those of the logits and of the encoder's output that test_seq2seq_contract.py sees."""
    shapes = {name: ids.shape for name, ids in features.items()}
    recorded = np.load(FIXTURES / f"logits_{kind}.npy")
    assert model.compute_output_shape(shapes) == recorded.shape
    assert model.encoder.compute_output_shape((None, LENGTH)) == (None, LENGTH, 16)


@pytest.mark.parametrize("kind", FEW)
def test_an_encoder_within_time_distributed(model, features):
    """Encodes several sentences of each example, such as those of a document."""
    documents = np.stack([features["inputs"]] * 2, axis=1)  # [B, 2, S]
    ids = keras.Input(documents.shape[1:], dtype="int32")
    encoded = keras.Model(ids, keras.layers.TimeDistributed(model.encoder)(ids))(documents)
    for sentence in (0, 1):
        wanted = numpy_of(model.encoder(features["inputs"]))
        assert_close(encoded[:, sentence], wanted, terms_of(model, LENGTH))


@pytest.mark.parametrize("kind", FEW)
def test_a_classifier_is_cloned_and_quantized(features, kind):
    """Keras quantizes its own layers, here the classes; ours keep their weights."""
    model = make_untrained(kind)
    ids = keras.Input((None,), dtype="int32")
    mean = keras.layers.GlobalAveragePooling1D()(model.encoder(ids))
    classifier = keras.Model(ids, keras.layers.Dense(3)(mean))
    clone = keras.models.clone_model(classifier)
    clone.set_weights(classifier.get_weights())
    wanted = numpy_of(classifier(features["inputs"]))
    assert_close(clone(features["inputs"]), wanted, terms_of(model, LENGTH))
    classifier.quantize("int8")
    inputs = np.abs(numpy_of(keras.Model(ids, mean)(features["inputs"]))).max()
    weights = np.abs(clone.layers[-1].get_weights()[0]).max()
    # Each of 16 products errs by half a step of each factor, a 127th of the largest.
    error = 16 * inputs * weights / 127
    assert np.abs(numpy_of(classifier(features["inputs"])) - wanted).max() <= error
    assert classifier.layers[-1].kernel.dtype == "int8"


@pytest.mark.float16
@pytest.mark.parametrize("kind", FEW)
@pytest.mark.parametrize(("dtype", "around"), [("float16", "bfloat16"), ("float32", "float16")])
def test_dtype_policies_of_a_model_and_of_the_layers_around_it(kind, features, dtype, around):
    """The hparam `dtype` sets a model's policy; Keras's global policy that of other layers."""
    model = make_model(kind, dtype=dtype)
    ids = features["inputs"]
    with default_policy(keras.DTypePolicy(f"mixed_{around}")):
        given = keras.Input((None,), dtype="int32")
        head = keras.layers.Dense(3)
        classifier = keras.Model(given, head(model.encoder(given)))
    head.set_weights([np.ones(weight.shape) * [1, 2, 4] for weight in head.get_weights()])
    assert {weight.dtype for weight in classifier.trainable_weights} == {"float32"}
    found = classifier(ids)
    assert keras.backend.standardize_dtype(found.dtype) == around
    encoded = numpy_of(ops.cast(model.encoder(ids), "float32"))  # [B, S, D]
    wanted = (encoded.sum(-1, keepdims=True) + 1) * [1, 2, 4]
    # The encoder's output, each product and each sum are rounded to the narrower of the types.
    size = (np.abs(encoded).sum(-1).max() + 1) * 4
    bound = relative_bound(encoded.shape[-1] + 2, around) * size
    assert np.abs(numpy_of(ops.cast(found, "float32")) - wanted).max() <= bound
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    classifier.compile("sgd", loss, run_eagerly=True, auto_scale_loss=False)
    before = numpy_of(model.encoder.trainable_weights[0])
    classifier.train_on_batch(ids, ids % 3)
    assert not np.array_equal(numpy_of(model.encoder.trainable_weights[0]), before)


@pytest.mark.parametrize("kind", FEW)
def test_low_rank_adaptation_of_every_projection(features, tmp_path, kind):
    model = make_untrained(kind)
    wanted = numpy_of(model(features))
    projections = [part for part in model._flatten_layers() if isinstance(part, Projection)]
    for projection in projections:
        projection.enable_lora(2)
        assert not projection.kernel.trainable
    assert np.array_equal(numpy_of(model(features)), wanted)
    for projection in projections:
        projection.lora_b.assign(0.1 * np.ones(projection.lora_b.shape))
    adapted = numpy_of(model(features))
    assert bool(projections) == (not np.array_equal(adapted, wanted))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert_close(numpy_of(loaded(features)), adapted, terms_of(model, LENGTH))


@pytest.mark.integration
@pytest.mark.parametrize(
    "kind", QUICK
)  # a pickle holds a Keras file, and that is each kind's model
def test_a_pickled_model_is_the_model(model, features):
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(numpy_of(loaded(features)), numpy_of(model(features)))


@pytest.mark.integration
@pytest.mark.parametrize("kind", FITTED)  # test_seq2seq_search.py exports searches of all
def test_an_export_without_a_signature(kind, features, tmp_path):
    """For batches and lengths of any size, though the model was never called with them."""
    model = model_of(kind, **SHALLOW[kind])
    model.export(tmp_path / "model", verbose=False)
    model.encoder.export(tmp_path / "encoder", verbose=False)
    whole, encoder = (tf.saved_model.load(tmp_path / name) for name in ("model", "encoder"))
    given = {name: tf.constant(ids[1:, :3]) for name, ids in features.items()}
    terms = terms_of(model, LENGTH)
    assert_close(numpy_of(whole.serve(given)), numpy_of(model(given)), terms)
    wanted = numpy_of(model.encoder(given["inputs"]))
    assert_close(encoder.serve(given["inputs"]), wanted, terms)


@pytest.mark.integration
def test_the_decoder_of_a_language_model(features, tmp_path):
    small = {"num_hidden_layers": 1, "hidden_size": 8, "filter_size": 12, "num_heads": 2}
    decoder = Transformer("transformer_base", 0, 13, **small).decoder
    wanted = numpy_of(decoder(features["targets"]))
    decoder.save(tmp_path / "decoder.keras")
    loaded = keras.saving.load_model(tmp_path / "decoder.keras")
    np.testing.assert_array_equal(numpy_of(loaded(features["targets"])), wanted)
    assert decoder.compute_output_shape((None, 6)) == (None, 6, 8)
    translator = Transformer("transformer_base", 13, 13, **small)
    with pytest.raises(UsageError, match="needs the encoder's output"):
        translator.decoder.call(features["targets"])
    memory = (None, 7, 8)
    assert translator.decoder.compute_output_shape((None, 6), memory) == (None, 6, 8)


class Tagger(keras.Model):
    """A model of a user's own, with an encoder inside."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.tags = keras.layers.Dense(4)

    def call(self, ids, training=False):
        return self.tags(self.encoder(ids, training=training))


@pytest.mark.integration
@pytest.mark.parametrize("kind", FITTED)
def test_a_subclass_learns_by_fit(dropouts, features, tmp_path, kind):
    """In steps of several batches, with gradients of several batches, and with callbacks."""
    ids = np.concatenate([features["inputs"]] * 4)
    losses = {}
    for accumulated in (None, 2):
        dry = dict.fromkeys(dropouts, 0.0)
        tagger = Tagger(make_untrained(kind, **dry, **SHALLOW[kind]).encoder)
        tagger(ids[:1])
        tagger.tags.set_weights([np.ones((16, 4)) * np.arange(4), np.zeros(4)])
        tagger.compile(
            keras.optimizers.SGD(0.1, gradient_accumulation_steps=accumulated),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=2,
        )
        path = tmp_path / "weights.weights.h5"
        callbacks = [
            keras.callbacks.ModelCheckpoint(path, save_weights_only=True),
            keras.callbacks.EarlyStopping("loss", patience=3),
        ]
        # Equal batches: the mean gradient of two is that of each.
        history = tagger.fit(
            ids, ids % 4, batch_size=3, epochs=4, shuffle=False, verbose=0, callbacks=callbacks
        )
        losses[accumulated] = history.history["loss"]
        found = numpy_of(tagger(ids[:3]))
        tagger.tags.set_weights([np.zeros((16, 4)), np.zeros(4)])
        tagger.load_weights(path)
        np.testing.assert_array_equal(numpy_of(tagger(ids[:3])), found)
    assert losses[None][-1] < losses[None][0]
    assert losses[2][0] > losses[None][0]  # half as many updates
    assert losses[2][-1] < losses[2][0]
