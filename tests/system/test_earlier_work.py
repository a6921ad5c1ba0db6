"""Runs, checkpoints, journals, kept exports and `.keras` files of an earlier state are read."""

import pathlib
import tarfile

import numpy as np
import pytest

import t2t_lite as t2t
from support.commands import exit_code
from support.small_runs import kinds_and_steps
from t2t_lite.bin import t2t_decoder, t2t_trainer
from t2t_lite.data.problem import Problem, three_splits

pytestmark = pytest.mark.integration

_ARCHIVE = pathlib.Path(__file__).parents[1] / "fixtures" / "earlier" / "work.tar.xz"
_KERAS = ("byte_net", "conv_s2s", "deep_att", "evolved", "extended_neural_gpu", "gnmt", "moe_lstm")
_SEARCH = "beam_size=2,alpha=0.6,extra_length=3,batch_size=4,return_beams=true"
_HPARAMS = (
    "hidden_size=8,filter_size=8,num_heads=2,num_hidden_layers=1,max_length=16,batch_size=64,"
    "batch_shuffle_size=2"
)


@pytest.fixture
def work(tmp_path, monkeypatch) -> pathlib.Path:
    """The folder of that work, to be in."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", _KERAS)
def test_keras_files(work, name):
    """Registered names are not those of modules, which may be moved."""
    model = t2t.load_model(str(work / "keras" / f"{name}.keras"))
    batch = {
        "inputs": np.array([[5, 9, 2, 1], [8, 1, 0, 0]]),
        "targets": np.array([[3, 10, 1], [6, 1, 0]]),
    }
    with np.load(work / "keras" / "logits.npz") as expected:
        np.testing.assert_allclose(model(batch), expected[name], rtol=1e-4, atol=1e-4)


def test_a_run_its_checkpoint_and_its_keras_file(work):
    run = t2t.open_run("run")
    batch = {"inputs": np.array([[5, 9, 2, 1]]), "targets": np.array([[3, 10, 1]])}
    exported = t2t.load_model(str(work / "keras" / "transformer.keras"))
    np.testing.assert_allclose(run.model()(batch), exported(batch), rtol=1e-5, atol=1e-5)
    assert [step for _, step in kinds_and_steps(work / "run")] == [2, 2, 4, 4]


@pytest.mark.parametrize("engine", ["tensorflow", "ctranslate2"])
def test_a_killed_job_and_a_kept_export(work, engine):
    """The job ends in the output of the undisturbed one, whatever of it is decoded anew."""
    flags = ["--output_dir=run", "--decode_from_file=lines.txt", "--decode_to_file=out.txt"]
    search = f"--decode_hparams={_SEARCH},write_beam_scores=true"
    assert exit_code(t2t_decoder.main, *flags, search, f"--engine={engine}") == 0
    texts, scores = _columns(work / "out.txt")
    expected_texts, expected_scores = _columns(work / "expected.txt")
    assert texts == expected_texts
    np.testing.assert_allclose(scores, expected_scores, rtol=0, atol=0.011)  # two places
    assert not (work / "out.txt.part").exists()


def _columns(path: pathlib.Path) -> tuple[list[list[str]], list[list[float]]]:
    """Returns the texts and the scores of lines with both in turn."""
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    return [row[::2] for row in rows], [[float(cell) for cell in row[1::2]] for row in rows]


def test_training_goes_on(work, monkeypatch):
    monkeypatch.setattr(Problem, "dataset_splits", three_splits(1)[:2])  # as the data was made
    before = (work / "run" / "metrics.jsonl").read_bytes()
    names = ["--problem=text2text_tmpdir", "--model=transformer", "--hparams_set=transformer_test"]
    places = ["--data_dir=data", "--output_dir=run", "--train_steps=6", "--random_seed=5"]
    often = ["--local_eval_frequency=2", "--eval_steps=1", "--log_step_count_steps=2"]
    flags = [*names, *places, *often, f"--hparams={_HPARAMS}"]
    search = "--decode_hparams=beam_size=1,extra_length=1"
    assert exit_code(t2t_trainer.main, *flags, search) == 0
    assert (work / "run" / "metrics.jsonl").read_bytes().startswith(before)
    assert kinds_and_steps(work / "run")[-2:] == [("train", 6), ("eval", 6)]
