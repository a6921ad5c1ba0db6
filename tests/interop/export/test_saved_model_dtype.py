"""Decoding a run's checkpoint in another dtype than that of training: all ways to load it."""

import types

import numpy as np
import pytest
import tensorflow as tf

from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.loading import find_models, load_decoder
from t2t_lite.errors import UsageError
from t2t_lite.interop.export import saved_model
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training import checkpoint_evaluation, devices, trainer
from t2t_lite.training.config import TrainerConfig

SETTINGS = "beam_size=1,extra_length=3,dtype=bfloat16"


@pytest.fixture(scope="module")
def run(make_run):
    return make_run("lstm_seq2seq_attention", "translate_ende_wmt_characters")


@pytest.fixture(scope="module")
def decoder(run):
    return Decoder.from_run(run, hparams=DecodeHParams.of(run.problem, SETTINGS))


def test_the_library_and_the_command_load_the_same(run, decoder):
    config = DecoderConfig(output_dir=str(run.folder), decode_hparams=SETTINGS)
    loaded, _ = load_decoder(config, find_models(config))
    for model in (decoder.engine.models[0], loaded.engine.models[0]):
        assert model.is_narrow
        assert model.targets_embedding.matrix.dtype == "bfloat16"
    for one, other in zip(
        decoder.engine.models[0].weights, loaded.engine.models[0].weights, strict=True
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert not run.load_model().model.is_narrow


@pytest.mark.integration
@pytest.mark.bfloat16
def test_an_export_decodes_in_the_dtype(run, decoder, tmp_path):
    saved_model.export(run, run.latest_checkpoint(), str(tmp_path), decoder.hparams)
    loaded = tf.saved_model.load(str(tmp_path / "ids" / "1"))
    dtypes = {variable.dtype for variable in loaded.signatures["serving_default"].variables}
    assert tf.bfloat16 in dtypes
    lines = ["x", "yz"]
    sources = decoder.text.encode(lines)
    found = decoder.decode(sources)
    ids = tf.ragged.constant([source.ids for source in sources], tf.int32).to_tensor()
    outputs = loaded.signatures["serving_default"](inputs=ids)["outputs"].numpy().tolist()
    for row, hypotheses in zip(outputs, found, strict=True):
        assert [id_ for id_ in row if id_] == hypotheses[0].ids


def test_checkpoints_are_scored_in_the_dtype(run, decoder, monkeypatch):
    """Loss as in training; outputs by a copy that gets the weights of every checkpoint."""
    evaluated, decoded = [], []

    class TeacherForced:
        def __init__(self, strategy, model, run):
            evaluated.append(model)

        def __call__(self, batches):
            return {"loss": 1.0}

    def decode_examples(decoder, paths, name):
        decoded.append(decoder.engine.models[0].get_weights())
        return types.SimpleNamespace(score=lambda metrics: {}, references=["text"])

    for function in (TeacherForced, decode_examples):
        monkeypatch.setattr(checkpoint_evaluation, function.__name__, function)
    monkeypatch.setattr(checkpoint_evaluation, "eval_dataset", lambda *args, **kwargs: [])
    monkeypatch.setattr(type(run.problem), "existing_filepaths", lambda *args: [])
    scorer = checkpoint_evaluation._Scorer(str(run.folder), devices.make_strategy(0), "", SETTINGS)
    scorer.score(run.latest_checkpoint(), "dev", {"": []})
    assert not evaluated[0].is_narrow
    for one, other in zip(decoded[0], decoder.engine.models[0].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_training_evaluates_in_its_own_dtype():
    config = TrainerConfig(
        data_dir="",
        output_dir="",
        problem="translate_ende_wmt_characters",
        model="transformer",
        hparams_set="transformer_base",
        decode_hparams="dtype=bfloat16",
    )
    with pytest.raises(UsageError, match="dtype=bfloat16: evaluations during training decode"):
        trainer.run(config)
