"""The trainer resumes after its data has been moved, or explains why it cannot."""

import dataclasses
import functools
import json
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from support.small_runs import generate_pairs
from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.runs import run_creation, run_folder
from t2t_lite.runs.averaging import average
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.training import resolved_settings, trainer


@pytest.fixture
def config():
    """Returns a function that makes the configuration of a training of six steps."""
    return functools.partial(
        small_runs.make_config,
        train_steps=6,
        local_eval_frequency=3,
        log_step_count_steps=1,
        schedule="train",
    )


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_run_whose_data_was_moved_ends_where_an_undisturbed_one_does(
    tmp_path, monkeypatch, config
):
    """With segmentations drawn anew, and losses of experts that end between two log lines."""
    settings = {
        "problem": "text2text_tmpdir_bpe",
        "hparams": "batch_shuffle_size=2,bpe_dropout=0.3,"
        "ffn_layer=local_moe,moe_num_experts=3,moe_hidden_sizes=8",
        "log_step_count_steps": 2,
    }
    calm, moved = tmp_path / "calm", tmp_path / "moved"
    data_dir = generate_pairs(tmp_path / "made", "text2text_tmpdir_bpe", 60)
    trainer.run(config(data_dir, calm, **settings))
    shutil.copytree(data_dir, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    trainer.run(config("data", moved, **settings, train_steps=3))
    (tmp_path / "data").rename(tmp_path / "renamed")
    monkeypatch.chdir("/")
    trainer.run(config(tmp_path / "renamed", moved, **settings))
    small_runs.assert_equal_runs(calm, moved)
    assert len(small_runs.records_of(calm)) == 3
    for record in small_runs.records_of(calm):
        assert record["expert_importance_loss"] > 0 < record["expert_load_loss"]


@pytest.fixture
def older_run(data_dir, tmp_path, config) -> pathlib.Path:
    """A run folder with a checkpoint in the format of the first release."""
    settings = config(data_dir, tmp_path / "run")
    made = dataclasses.replace(settings.run_settings, parts=1)
    hparams = resolved_settings.resolve_hparams(settings)
    run = run_creation.create_run(made, hparams, str(data_dir))
    paths = run.problem.existing_filepaths(str(data_dir), "train")
    batches = iter(tf.data.TFRecordDataset(paths))
    next(batches)
    checkpoint = tf.train.Checkpoint(
        model=run.build_model(), batches=batches, step=tf.Variable(3, dtype=tf.int64)
    )
    checkpoint.write(str(run.folder / "model.ckpt-3"))
    (run.folder / run_folder.VERSIONS).write_text(json.dumps({"t2t_lite": "0.0.9"}))
    return run.folder


@pytest.mark.integration
def test_a_run_of_an_older_release_serves_for_all_but_resuming(older_run, data_dir, config):
    before = {path.name: path.read_bytes() for path in older_run.iterdir()}
    for _ in range(2):  # the first refusal must not overwrite the name of the release
        with pytest.raises(UserError, match=r"\(0\.0\.9 by versions\.json\).*--warm_start_from"):
            trainer.run(config(data_dir, older_run))
    after = {path.name: path.read_bytes() for path in older_run.iterdir()}
    assert after | {".trainer.lock": b""} == before | {".trainer.lock": b""}
    run = run_folder.RunFolder.open(str(older_run))
    assert run.latest_checkpoint() == str(older_run / "model.ckpt-3")
    model, step, _ = run.load_model()
    assert step == 3
    average(run, [run.latest_checkpoint()])
    fresh = run.build_model()
    warm_start(fresh, str(older_run))
    for weight, theirs in zip(fresh.weights, model.weights, strict=True):
        assert np.array_equal(weight.numpy(), theirs.numpy())


@pytest.mark.integration
def test_a_shard_that_is_missing_is_named(older_run, data_dir, tmp_path, config):
    os.remove(older_run / "model.ckpt-3.index")
    shutil.copytree(data_dir, tmp_path / "cut")
    problem = registry.problem("text2text_tmpdir")
    shard = problem.filepaths(str(tmp_path / "cut"), "train")[0]
    os.remove(shard)
    with pytest.raises(UserError, match="no data for 'text2text_tmpdir'") as raised:
        trainer.run(config(tmp_path / "cut", older_run))
    assert shard in str(raised.value)
