"""Run folders with unusual names: everything saved there can be read, in every way."""

import itertools
import json
import pathlib
import shutil
import sys
from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.commands import exit_code
from support.small_runs import fill, make_run, save_weights
from support.t2t_files import write_values
from t2t_lite.bin import t2t_avg_all, t2t_avg_checkpoints, t2t_eval, t2t_trainer
from t2t_lite.bin.command import checkpoint_name, checkpoint_names
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.loading import find_models
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.export import keras_archive, saved_model
from t2t_lite.interop.imports import t2t_checkpoint
from t2t_lite.runs import checkpoint_files, opening, run_folder, warm_start
from t2t_lite.runs.checkpoint_files import split_checkpoints
from t2t_lite.runs.checkpoint_names import named_checkpoint
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles
from t2t_lite.runs.selection import Criterion, best_checkpoints, keep_best
from t2t_lite.search.decode_hparams import DecodeHParams

pytestmark = pytest.mark.integration

NAMES = ["[lr=0.1]", "[!a-", "back\\slash", "a, b", "*?{c,d}", " blanks\n", "-~ü文", "%s #'\"$HOME"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Iterator[pathlib.Path]:
    """A run of three checkpoints, in each of which all weights are equal, and their scores."""
    folder = tmp_path_factory.mktemp("made")
    kind = {"model": "lstm_seq2seq", "hparams_set": "lstm_seq2seq"}  # which has few weights
    model = make_run(folder, **kind, num_hidden_layers=1, hidden_size=8).build_model()
    for number, value in ((1, 1.0), (2, 4.0), (3, -2.0)):
        # Training saves more, but the optimizer distinguishes its checkpoints from averages.
        save_weights(folder, fill(model, value), number, optimizer=tf.Variable(1.0))
        with (folder / "metrics.jsonl").open("a") as lines:
            lines.write(json.dumps({"kind": "eval", "step": number, "bleu": value}) + "\n")
    with pytest.MonkeyPatch.context() as patch:  # one model for all reads
        patch.setattr(run_folder.RunFolder, "build_model", lambda self: model)
        yield folder


@pytest.fixture(params=NAMES)
def folder(request, made, tmp_path, monkeypatch) -> str:
    """That run under an unusual name, relative to the working directory."""
    monkeypatch.chdir(tmp_path)
    folder = f"./{request.param}/run{request.param}"
    shutil.copytree(made, folder)
    return folder


def value(run: run_folder.RunFolder, checkpoint: str | None = None) -> float:
    """Returns the value of all weights in a checkpoint."""
    model = run.load_model(checkpoint).model
    (found,) = {float(x) for v in model.trainable_variables for x in np.ravel(v)}
    return found


def names(*argv: str) -> list[str]:
    """Returns the checkpoints that t2t-eval finds for its flags."""
    return checkpoint_names(t2t_eval.COMMAND.parse(argv))


def test_checkpoints_are_read_again(folder):
    run = run_folder.RunFolder.open(folder)
    newest = run.latest_checkpoint()
    assert newest == str(pathlib.Path(folder, "model.ckpt-3"))
    assert value(run, newest) == -2.0
    assert value(run) == -2.0
    keep_best(run.folder, [2])
    bleu = Criterion("bleu", minimize=False)
    assert best_checkpoints(run.folder, bleu, 1) == [f"{run.folder}/best.ckpt-2"]
    assert value(run, named_checkpoint("best", folder)) == 4.0
    (found,) = find_models(DecoderConfig(output_dir=folder))
    _, loaded = found.load()
    assert loaded.checkpoint == newest
    model = run.build_model()
    model.trainable_variables[0].assign_add(model.trainable_variables[0])
    warm_start.warm_start(model, folder)
    assert {float(x) for v in model.trainable_variables for x in np.ravel(v)} == {-2.0}
    pathlib.Path(newest + ".data-00000-of-00001").write_bytes(b"torn")
    assert run.latest_checkpoint().endswith("model.ckpt-2")
    with pytest.raises(UserError) as error:
        run.restore_weights(run.build_model(), newest)
    assert "cannot be read" in str(error.value)
    assert "/t2t-" not in str(error.value), "the name is the one that the user knows"


def test_averages_are_written_and_read(folder, capsys):
    flags = f"--output_dir={folder}", "--num_last_checkpoints=2"
    assert exit_code(t2t_avg_checkpoints.main, *flags) == 0
    run = run_folder.RunFolder.open(folder)
    average = named_checkpoint("averaged", folder)
    assert average == str(run.folder / "averaged.ckpt-3")
    assert value(run, average) == 1.0
    assert checkpoint_files.is_inference_only(average)
    flags = f"--output_dir={folder}", "--checkpoints=1,2", f"--output_path={folder}/of,[2].ckpt"
    assert exit_code(t2t_avg_checkpoints.main, *flags) == 0
    (odd,) = names(f"--output_dir={folder}", "--checkpoint_path=of,[2].ckpt")
    assert value(run, named_checkpoint(odd, folder)) == 2.5
    flags = f"--model_dir={folder}", f"--output_dir={folder}/avg", "--n=2"
    for new in (2, 0):  # the second time, all exist
        capsys.readouterr()
        assert exit_code(t2t_avg_all.main, *flags) == 0
        assert capsys.readouterr().out.count("model.ckpt-") == new
    means = run_folder.RunFolder.open(f"{folder}/avg")
    assert value(means, means.latest_checkpoint()) == 1.0
    opening.refuse_inference_only(run.folder)


def test_commas_in_names_do_not_split_a_list(folder):
    paths = [f"{folder}/model.ckpt-{step}" for step in (1, 2)]
    assert names(f"--checkpoint_path={','.join(paths)}") == paths
    listed = f"--checkpoint_path=newest, {paths[0]},averaged,2"
    assert names(f"--output_dir={folder}", listed) == ["newest", paths[0], "averaged", "2"]
    for given in (",".join(paths), tuple(paths)):
        found = find_models(DecoderConfig(checkpoint_path=given))
        assert [one.checkpoint for one in found] == paths


def test_exports_are_read_again_or_refused(folder):
    run = run_folder.RunFolder.open(folder)
    checkpoint = run.latest_checkpoint()
    keras_archive.export(run, checkpoint, f"{folder}/export")
    path = pathlib.Path(folder, "export", "keras", "1", "model.keras")
    assert keras.saving.load_model(path).count_params() > 0
    if "[" in folder or "\\" in folder:
        with pytest.raises(UserError, match="TensorFlow could not load a SavedModel from"):
            saved_model.export(run, checkpoint, f"{folder}/export", DecodeHParams())
        assert not pathlib.Path(folder, "export", "ids").exists()
    else:
        module = tf.Module()
        module.weight = tf.Variable(3.0)
        tf.saved_model.save(module, f"{folder}/export/ids/1")
        assert float(tf.saved_model.load(f"{folder}/export/ids/1").weight) == 3.0


def test_training_resumes(folder):
    def training() -> tuple[Checkpoints, keras.Variable, tf.data.Iterator]:
        batches = iter(tf.data.Dataset.range(9).shuffle(9, seed=1))
        model, optimizer = keras.layers.Dense(1, use_bias=False), tf.train.Checkpoint()
        model.build([1, 1])
        (weight,) = model.weights
        path = pathlib.Path(folder, "other")
        path.mkdir(exist_ok=True)
        files = TrainingFiles()
        return Checkpoints(path, model, optimizer, batches, files, {}, 2), weight, batches

    checkpoints, weight, batches = training()
    with checkpoints:
        for step in (1, 2, 3):
            weight.assign([[float(step)]])
            next(batches)
            checkpoints.save(step)
    expected = [int(x) for x in itertools.islice(batches, 3)]
    resumed, weight, batches = training()
    assert resumed.restore() == 3
    assert weight.numpy() == [[3.0]]
    assert [int(x) for x in itertools.islice(batches, 3)] == expected


def test_what_t2t_trained_is_read(folder):
    checkpoint = {"transformer/symbol_modality_1": tf.ones([2, 2]), "global_step": tf.constant(9)}
    step, arrays = t2t_checkpoint._read(write_values(pathlib.Path(folder), checkpoint, step=9))
    assert step == 9
    assert list(arrays) == ["transformer/symbol_modality_1"]


def test_tilde_is_the_home_folder_in_every_name_of_a_list(made, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(made, tmp_path / "a,b")
    paths = [str(tmp_path / "a,b" / f"model.ckpt-{step}") for step in (1, 2)]
    listed = "~/a,b/model.ckpt-1, ~/a,b/model.ckpt-2,~/gone/model.ckpt-3"
    assert split_checkpoints(listed) == [*paths, str(tmp_path / "gone" / "model.ckpt-3")]


def test_one_checkpoint_may_have_a_comma_but_two_are_refused(made, tmp_path):
    shutil.copytree(made, tmp_path / "a,b")
    parse = t2t_eval.COMMAND.parse
    path = str(tmp_path / "a,b" / "model.ckpt-1")
    assert checkpoint_name(parse([f"--checkpoint_path={path}"])) == path
    with pytest.raises(UsageError, match="name only one checkpoint"):
        checkpoint_name(parse(["--checkpoint_path=newest,best"]))
    numbers = [str(number) for number in range(100_000, 100_060)]  # longer than a name may be
    assert split_checkpoints(",".join(numbers), str(made)) == numbers


def test_a_symlinked_folder_and_a_slash_behind_the_name(made, tmp_path, monkeypatch):
    (tmp_path / "link[1]").symlink_to(made)
    run = run_folder.RunFolder.open(f"{tmp_path}/link[1]/")
    assert run.latest_checkpoint() == f"{tmp_path}/link[1]/model.ckpt-3"
    temporary = tmp_path / "[tmp]"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    assert value(run, run.latest_checkpoint()) == -2.0


@pytest.mark.parametrize("flag", ["output_dir", "data_dir", "warm_start_from"])
def test_a_name_that_is_not_utf8_is_refused_before_anything_is_written(
    flag, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    flags = {"output_dir": "run", "data_dir": "data"} | {flag: "\udcff\udcfe"}
    assert sys.getfilesystemencoding() == "utf-8"
    assert exit_code(t2t_trainer.main, *(f"--{name}={text}" for name, text in flags.items())) == 2
    assert f"--{flag}='\\udcff\\udcfe' is not UTF-8" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
