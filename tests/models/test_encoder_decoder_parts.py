"""Encoders, decoders and layers in models of a Keras user's own."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops

from support.rounding import assert_close
from t2t_lite.layers.attention import SelfAttention
from t2t_lite.layers.dense import Embedding, FeedForward
from t2t_lite.layers.transformer_layers import EncoderLayer
from t2t_lite.models.transformer import Transformer, TransformerEncoder

SMALL = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 1}
INPUTS = np.array([[5, 9, 2, 12, 7, 3, 1], [8, 8, 1, 0, 0, 0, 0]], np.int32)
TARGETS = np.array([[3, 10, 1], [6, 1, 0]], np.int32)


@pytest.fixture(scope="module")
def model():
    return Transformer("transformer_base", 13, 13, **SMALL)


def ids():
    return keras.Input((None,), dtype="int32")


def saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.saving.load_model(tmp_path / "model.keras")


def assert_equal_models(one, other, *inputs):
    inputs = inputs[0] if len(inputs) == 1 else inputs
    np.testing.assert_array_equal(
        ops.convert_to_numpy(one(inputs)), ops.convert_to_numpy(other(inputs))
    )


_CLASSIFIER = """
import sys
if sys.argv[1] != "tensorflow":
    sys.modules["tensorflow"] = None  # which Keras would import, in seconds, to save
import keras
import numpy as np
from support.terms import terms_of
from support.rounding import assert_close
from t2t_lite.models.lstm import LSTMSeq2SeqAttention
from t2t_lite.models.transformer import Transformer

assert keras.backend.backend() == sys.argv[1]
inputs = np.array([[5, 9, 2, 12, 7, 3, 1], [8, 8, 1, 0, 0, 0, 0]], np.int32)
small = {"hidden_size": 8, "num_hidden_layers": 1}
models = (
    Transformer("transformer_base", 13, 13, filter_size=12, num_heads=2, **small),
    LSTMSeq2SeqAttention("lstm_attention", 13, 13, **small),
)
ids = keras.Input((None,), dtype="int32")
pooled = keras.layers.GlobalAveragePooling1D
# Two classes of each encoder.
both = keras.layers.Concatenate()(
    [keras.layers.Dense(2)(pooled()(model.encoder(ids))) for model in models]
)
classifier = keras.Model(ids, both)
before = [keras.ops.convert_to_numpy(model.inputs_embedding.matrix) for model in models]
# A step is run once, for which TensorFlow need not trace it; JAX must.
compiled = keras.backend.backend() == "jax"
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
classifier.compile("sgd", loss, jit_compile=compiled, run_eagerly=not compiled)
classifier.fit(inputs, np.array([0, 3]), verbose=0)
for model, matrix in zip(models, before, strict=True):
    assert np.abs(keras.ops.convert_to_numpy(model.inputs_embedding.matrix) - matrix).max() > 0
classifier.save(sys.argv[2])
loaded = keras.saving.load_model(sys.argv[2])
# JAX compiles a prediction in one piece, and in a call each operation by itself.
loaded.compile(jit_compile=compiled)
outputs = keras.Model.predict_on_batch if compiled else keras.Model.__call__
wanted, found = (keras.ops.convert_to_numpy(outputs(m, inputs)) for m in (classifier, loaded))
np.testing.assert_array_equal(found, wanted)
alone = keras.ops.convert_to_numpy(outputs(loaded, inputs[1:, :3]))  # without its padding
for model, columns in zip(models, ([0, 1], [2, 3]), strict=True):
    terms = terms_of(model, inputs.shape[1])
    assert_close(alone[:, columns], wanted[1:, columns], terms)
    print(type(model).__name__)
"""


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("tensorflow", marks=pytest.mark.integration),
        pytest.param("jax", marks=pytest.mark.integration),
        pytest.param("torch", marks=pytest.mark.slow),
    ],
)
def test_a_classifier_on_an_encoder(backend, tmp_path: pathlib.Path, capsys, monkeypatch):
    """Learns, is saved, is loaded, and does not see padding."""
    pytest.importorskip(backend)
    if backend == keras.backend.backend():
        monkeypatch.setattr(sys, "argv", ["", backend, str(tmp_path / "model.keras")])
        exec(_CLASSIFIER, {})
        assert capsys.readouterr().out.split() == ["Transformer", "LSTMSeq2SeqAttention"]
        return
    done = subprocess.run(
        [sys.executable, "-c", _CLASSIFIER, backend, str(tmp_path / "model.keras")],
        env={
            **os.environ,
            # For tests/support.
            "PYTHONPATH": os.pathsep.join(
                [str(pathlib.Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
            ),
            "KERAS_BACKEND": backend,
            "JAX_PLATFORMS": "cpu",
            # Few steps: no time for a compiler to optimise them.
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0",
        },
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout.split() == ["Transformer", "LSTMSeq2SeqAttention"]


@pytest.mark.integration
def test_encoder_and_decoder_in_one_model_share_their_embedding(model, tmp_path):
    inputs, targets = ids(), ids()
    whole = keras.Model([inputs, targets], model.decoder(targets, model.encoder(inputs)))
    np.testing.assert_array_equal(
        whole([INPUTS, TARGETS]), model.hidden({"inputs": INPUTS, "targets": TARGETS})
    )
    loaded = saved_and_loaded(whole, tmp_path)
    assert_equal_models(whole, loaded, INPUTS, TARGETS)
    assert len(loaded.trainable_variables) == len(whole.trainable_variables)


def test_a_standalone_encoder(tmp_path):
    encoder = TransformerEncoder("transformer_base", 13, **SMALL)
    assert_equal_models(encoder, saved_and_loaded(encoder, tmp_path), INPUTS)
    assert encoder.compute_mask(INPUTS).numpy().tolist() == (INPUTS != 0).tolist()


@pytest.mark.integration
def test_layers_in_the_users_model(tmp_path):
    inputs = ids()
    x = Embedding(13, 8)(inputs)
    x = EncoderLayer(SelfAttention(8, 2), FeedForward(8, 12, 0.1), dropout_rate=0.1)(x)
    mean = keras.layers.GlobalAveragePooling1D()(x)
    classifier = keras.Model(inputs, keras.layers.Dense(2)(mean))
    assert_equal_models(classifier, saved_and_loaded(classifier, tmp_path), INPUTS)
    assert_close(
        classifier(INPUTS[1:, :3]),
        classifier(INPUTS)[1:],
        # A layer's products, scores, attention and two norms; the mean, and the end.
        terms=(8 + 8 + 8 + 12) + 4 + 2 * 7 + 2 * 2 * 8 + 7 + 8,
    )


@pytest.mark.integration
def test_layers_of_a_model_in_another(model, tmp_path):
    """Their one seed generator does not bind them together."""
    inputs = ids()
    x = model.inputs_embedding(inputs)
    for layer in model.encoder.stack:
        x = layer(x)
    other = keras.Model(inputs, x)
    assert_equal_models(other, saved_and_loaded(other, tmp_path), INPUTS)
