import dataclasses
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.layers.base import without_initial_values
from t2t_lite.runs import run_creation, run_folder
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.search.decode_hparams import DecodeHParams

SMALL = "num_hidden_layers=1,hidden_size=8"
FLAGS = {"problem": "algorithmic_reverse_decimal40", "random_seed": 1, "parts": 1, "data_dir": ""}
MODELS = [("transformer", "transformer_test"), ("lstm_seq2seq_attention", "lstm_attention")]


def make_run(folder, model="transformer", hparams_set="transformer_test", overrides=SMALL):
    names = {"model": model, "hparams_set": hparams_set}
    return small_runs.make_run(folder, **names, overrides=overrides)


def saved_checkpoint(run, step=7) -> keras.Model:
    """Saves a freshly initialised model as the trainer does; returns it."""
    model = run.build_model()
    small_runs.save_weights(run.folder, model, step)
    return model


@pytest.mark.integration
@pytest.mark.parametrize(("model", "hparams_set"), MODELS)
def test_a_checkpoint_restores_every_weight_of_a_fresh_model(tmp_path, model, hparams_set):
    run = make_run(tmp_path, model, hparams_set, "num_hidden_layers=2,hidden_size=8")
    keras.utils.set_random_seed(1)
    saved = saved_checkpoint(run)
    keras.utils.set_random_seed(2)
    opened = run_folder.RunFolder.open(str(tmp_path))
    fresh = opened.build_model()
    assert opened.restore_weights(fresh) == 7
    assert len(saved.weights) > 10
    for one, other in zip(saved.weights, fresh.weights, strict=True):
        assert np.array_equal(one.numpy(), other.numpy()), one.path


@pytest.mark.integration
@pytest.mark.parametrize(("model", "hparams_set"), MODELS)
def test_loading_a_model_draws_nothing_at_random(tmp_path, model, hparams_set):
    run = make_run(tmp_path, model, hparams_set, "num_hidden_layers=2,hidden_size=8")
    saved = saved_checkpoint(run)
    with without_initial_values():
        assert all(np.ptp(weight) == 0 for weight in run.build_model().weights)
    loaded, step, _ = run.load_model()
    assert step == 7
    for one, other in zip(saved.weights, loaded.weights, strict=True):
        assert np.array_equal(one.numpy(), other.numpy()), one.path
    drawn_again = run.build_model().weights
    assert sum(np.ptp(weight) > 0 for weight in drawn_again) > len(drawn_again) / 3


def test_search_settings_of_a_problem_win_over_those_of_an_imported_model(tmp_path, monkeypatch):
    run = make_run(tmp_path)
    published = "beam_size=6,alpha=1.0"
    settings = dataclasses.replace(run.settings, published_decode_hparams=published)
    run = dataclasses.replace(run, settings=settings)
    assert DecodeHParams.of(run) == DecodeHParams(beam_size=6, alpha=1.0)
    monkeypatch.setattr(type(run.problem), "decode_hparams", "beam_size=8,extra_length=3")
    assert DecodeHParams.of(run) == DecodeHParams(beam_size=8, alpha=1.0, extra_length=3)
    settings = dataclasses.replace(settings, published_decode_hparams=None)
    run = dataclasses.replace(run, settings=settings)
    assert DecodeHParams.of(run) == DecodeHParams(beam_size=8, extra_length=3)


def test_open_run_gives_back_what_was_made(tmp_path):
    made = make_run(tmp_path)
    opened = run_folder.RunFolder.open(str(tmp_path))
    assert opened.hparams == made.hparams
    assert opened.hparams.hidden_size == 8
    assert opened.problem.name == FLAGS["problem"]
    versions = json.loads((tmp_path / "versions.json").read_text())
    assert versions["tensorflow"] == tf.__version__.replace("-", "")  # 2.22.0-rc0, say


def test_another_vocabulary_is_refused(tmp_path):
    data, run = tmp_path / "data", tmp_path / "run"
    data.mkdir()
    tokens = data / "vocab.text2text_tmpdir_tokens.tokens"
    flags = FLAGS | {"problem": "text2text_tmpdir_tokens", "output_dir": str(run)}
    flags |= {"model": "transformer", "hparams_set": "transformer_test"}
    settings = RunSettings.of(flags)
    hparams = registry.hparams("transformer_test").freeze()
    tokens.write_text("<UNK>\na\nb\n")
    run_creation.create_run(settings, hparams, str(data))
    opened = run_creation.create_run(settings, hparams, str(data))
    opened.refuse_other_vocabulary(str(data))
    opened.refuse_other_vocabulary(str(tmp_path / "records without a vocabulary"))
    tokens.write_text("<UNK>\na\nc\n")
    with pytest.raises(UserError, match=r"differs from .*data.*; use the run's own --data_dir"):
        opened.refuse_other_vocabulary(str(data))
    with pytest.raises(UserError, match="which this run was trained with, differs from"):
        run_creation.create_run(settings, hparams, str(data))


@pytest.mark.integration
def test_a_checkpoint_of_another_size_is_refused(tmp_path):
    saved_checkpoint(make_run(tmp_path))
    opened = run_folder.RunFolder.open(str(tmp_path))
    for change in ({"hidden_size": 16}, {"num_hidden_layers": 2}):
        other = dataclasses.replace(opened, hparams=opened.hparams.copy(**change).freeze())
        model = other.build_model()
        with pytest.raises(
            UserError, match=r"model\.ckpt-7 does not fit the model, hparams\.json and"
        ):
            other.restore_weights(model)


def test_missing_pieces_are_named(tmp_path):
    with pytest.raises(UserError, match=r"is not a run folder: .*flags\.json is missing"):
        run_folder.RunFolder.open(str(tmp_path))
    run = make_run(tmp_path)
    with pytest.raises(UserError, match="holds no checkpoint yet"):
        run.latest_checkpoint()
    with pytest.raises(UserError, match=r"nowhere\.index is missing"):
        run.restore_weights(run.build_model(), str(tmp_path / "nowhere"))
    (tmp_path / "hparams.json").write_text('{"hidden_siz": 3}')
    with pytest.raises(UserError, match=r"hparams\.json: unknown hparam 'hidden_siz'; did you"):
        run_folder.RunFolder.open(str(tmp_path))
    (tmp_path / "hparams.json").write_text("{")
    with pytest.raises(UserError, match=r"hparams\.json is damaged: not JSON"):
        run_folder.RunFolder.open(str(tmp_path))


@pytest.mark.integration
def test_moving_averages_are_restored_where_training_kept_them(tmp_path):
    run = make_run(tmp_path, overrides=f"{SMALL},ema_decay=0.9")
    model = run.build_model()
    optimizer = keras.optimizers.SGD(
        keras.optimizers.schedules.ExponentialDecay(0.0, 1, 1.0), use_ema=True
    )
    optimizer.build(model.trainable_variables)
    averages = optimizer.variables[-len(model.trainable_variables) :]
    for number, average in enumerate(averages):
        average.assign(tf.fill(average.shape, float(number)))
    step = tf.Variable(5, dtype=tf.int64)
    saved = tf.train.Checkpoint(model=model, optimizer=optimizer, step=step)
    saved.write(str(tmp_path / "model.ckpt-5"))
    loaded = run.load_model().model
    assert [float(np.mean(v)) for v in loaded.trainable_variables] == list(range(len(averages)))
