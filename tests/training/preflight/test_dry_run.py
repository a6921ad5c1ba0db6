"""A whole dry run, and its errors."""

import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from support.small_runs import generate_pairs
from t2t_lite import usr_dirs
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preflight import dry_run as dry_run_module
from t2t_lite.training.preflight import probe
from t2t_lite.training.preflight.dry_run import MemoryModel, dry_run

HPARAMS = (
    "batch_size=2048,max_length=64,num_hidden_layers=1,hidden_size=256,filter_size=1024,"
    "batch_shuffle_size=8"
)


# Few files: opening one takes longer than reading what these hold.
PROBLEM = """
from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir

@registry.register_problem
class FewFiles(Text2textTmpdir):
    @property
    def dataset_splits(self):
        return [
            {"split": DatasetSplit.TRAIN, "shards": 4},
            {"split": DatasetSplit.EVAL, "shards": 1},
            {"split": DatasetSplit.TEST, "shards": 1},
        ]
"""


@pytest.fixture(scope="module")
def usr_dir(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("usr") / "dry_run_problems"
    folder.mkdir()
    (folder / "__init__.py").write_text(PROBLEM, encoding="utf-8")
    usr_dirs.import_usr_dir(str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def made_data(usr_dir, tmp_path_factory) -> pathlib.Path:
    return generate_pairs(tmp_path_factory.mktemp("run"), "few_files", 300)


@pytest.fixture
def data_dir(made_data, tmp_path) -> pathlib.Path:
    """A folder of data that tests may damage."""
    return shutil.copytree(made_data, tmp_path / "data")


def config(data_dir, **changes) -> TrainerConfig:
    settings = {
        "data_dir": str(data_dir),
        "output_dir": str(data_dir.parent / "run"),
        "problem": "few_files",
        "model": "transformer",
        "hparams_set": "transformer_test",
        "hparams": HPARAMS,
        "train_steps": 1000,
    }
    return TrainerConfig(**(settings | changes))


@pytest.mark.parametrize(
    ("schedule", "read"), [("train", False), ("continuous_train_and_eval", True)]
)
def test_dev_data_is_read_if_it_is_evaluated(data_dir, monkeypatch, schedule, read):
    class MeasuredError(Exception): ...

    def measure(request, hparams):
        raise MeasuredError

    monkeypatch.setattr(dry_run_module, "_measure", measure)
    for path in data_dir.glob("*-dev-*"):
        path.unlink()
    with pytest.raises(UserError if read else MeasuredError):
        dry_run(config(data_dir, schedule=schedule))


def write_shard(data_dir: pathlib.Path, **sides: list[int]) -> pathlib.Path:
    """Replaces a training file by one of a single example."""
    shard = sorted(data_dir.glob("*-train-*"))[3]
    feature = {
        side: tf.train.Feature(int64_list=tf.train.Int64List(value=ids))
        for side, ids in sides.items()
    }
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    with tf.io.TFRecordWriter(str(shard)) as writer:
        writer.write(example.SerializeToString())
    return shard


@pytest.mark.slow
def test_a_good_run(data_dir, usr_dir, capsys):
    dry_run(config(data_dir), usr_dir)
    out = capsys.readouterr().out
    assert "train: 300 examples" in out
    assert "dev: 6 examples" in out
    assert "batches of up to 2,048 source and as many target subwords\n" in out
    predicted, measured = (
        int(re.search(rf"{word} ([\d,]+) MiB", out)[1].replace(",", ""))
        for word in ("predicted", "measured")
    )
    assert 0.7 < predicted / measured < 1.4
    assert re.search(r"a step takes [\d.]+ s, the mean of 10 batches of the data", out)
    assert re.search(r"; 1,000 steps [\d:]+, ", out)
    assert not (data_dir.parent / "run").exists()


@pytest.mark.parametrize(
    ("sides", "fault"),
    [
        ({"inputs": [5, 1], "targets": [5, 99_999, 1]}, "targets with ids outside the vocabulary"),
        ({"inputs": [5, 1]}, "targets missing or empty"),
    ],
)
def test_bad_examples_are_named(data_dir, sides, fault):
    shard = write_shard(data_dir, **sides)
    with pytest.raises(DataError, match=f"{fault}: 1, first {shard.name}, record 1"):
        dry_run(config(data_dir))


def test_a_vocabulary_of_other_data_is_refused(data_dir):
    vocabulary = next(data_dir.glob("vocab.*"))
    lines = vocabulary.read_text(encoding="utf-8").splitlines(keepends=True)
    # The reserved ids and the alphabet are also a vocabulary.
    alphabet = [line for line in lines[2:] if len(line.strip()) == len("'a'")]
    assert 0 < len(alphabet) < len(lines) - 2
    vocabulary.write_text("".join([*lines[:2], *alphabet]), encoding="utf-8")
    with pytest.raises(DataError, match="with ids outside the vocabulary"):
        dry_run(config(data_dir))


def test_data_without_an_example_of_use_is_refused(data_dir):
    with pytest.raises(DataError, match="have no usable example"):
        dry_run(config(data_dir, hparams="max_length=100,min_length=99"))


@pytest.mark.integration
def test_a_batch_that_does_not_fit_is_refused(data_dir, monkeypatch):
    def measure(request: probe.Request, timeout: float) -> probe.Cost:
        raise probe.DoesNotFitError("out of memory")

    monkeypatch.setattr("t2t_lite.training.preflight.dry_run.measure", measure)
    with pytest.raises(UserError, match=r"fails: out of memory; lower batch_size=2048 or"):
        dry_run(config(data_dir))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("changes", "splits"),
    [
        ({}, ["train", "dev"]),
        ({"eval_use_test_set": True}, ["train", "test"]),
        ({"schedule": "train"}, ["train"]),
    ],
)
def test_the_cost_is_that_of_the_runs_data(data_dir, monkeypatch, capsys, changes, splits):
    def measure(request: probe.Request, timeout: float) -> probe.Cost:
        peaks = [2**20 * sentences * length for sentences, length in request.shapes]
        return probe.Cost(2, 4, False, 1, 1, 1, 1, peaks, [3.0] * request.batches)

    monkeypatch.setattr("t2t_lite.training.preflight.dry_run.measure", measure)
    for path in data_dir.glob("*-dev-*"):
        shutil.copy(path, path.with_name(path.name.replace("-dev-", "-test-")))
    dry_run(config(data_dir, hparams="batch_size=64,max_length=64", **changes))
    out = capsys.readouterr().out
    assert re.findall(r"^(\w+): \d+ examples", out, re.MULTILINE) == splits
    assert "256 source and as many target subwords, in 4 parts: 2 devices × 2 accumulation" in out
    buckets = re.findall(r"^ +\d+ +(\d+) +\d+ +[\d,]+ +(\d+)$", out, re.MULTILINE)
    steps = sum(int(examples) / (4 * int(sentences)) for sentences, examples in buckets)
    assert steps > 1
    assert f"a step takes 3 s, the mean of 10 batches of the data; an epoch of {steps:.1f} " in out
    assert "; 1,000 steps 0:50:00, " in out


@pytest.mark.integration
@pytest.mark.parametrize(
    ("step", "told"),
    [(400, "; the 600 steps that remain 0:30:00, "), (2000, "; the 0 steps that remain 0:00:00, ")],
)
def test_updates_that_are_done_take_no_time(data_dir, monkeypatch, capsys, tmp_path, step, told):
    def measure(request: probe.Request, timeout: float) -> probe.Cost:
        return probe.Cost(1, 1, False, 1, 1, 1, 1, [1] * 4, [3.0] * request.batches)

    monkeypatch.setattr("t2t_lite.training.preflight.dry_run.measure", measure)
    for name in (f"model.ckpt-{step}.index", "model.ckpt-100.index"):
        tmp_path.joinpath(name).touch()
    dry_run(config(data_dir, hparams="batch_size=64,max_length=64", output_dir=str(tmp_path)))
    assert told in capsys.readouterr().out


@pytest.mark.slow
def test_a_probe_beyond_its_memory_fails_alone(data_dir, usr_dir):
    request = probe.Request(config(data_dir), usr_dir, shapes=[(2**13, 64)], memory_limit=2**30)
    with pytest.raises(probe.DoesNotFitError, match=r"out of memory|killed by signal"):
        probe.measure(request, 300.0)


def test_workers_are_refused(data_dir):
    several = config(data_dir, worker_hosts="a:1,b:1", worker_id=0)
    with pytest.raises(UsageError, match="use a single machine: omit --worker_hosts"):
        probe.measure(probe.Request(several), 100.0)


def test_a_probe_beyond_its_time_fails_alone(data_dir):
    with pytest.raises(probe.DoesNotFitError, match="not done in 0 s"):
        probe.measure(probe.Request(config(data_dir)), 0.1)


@given(
    base=st.integers(0, 10**9),
    fixed=st.integers(10**6, 10**9),
    cell=st.integers(0, 10**6),
    pair=st.integers(0, 10**4),
)
def test_the_fit_recovers_what_it_was_made_from(base, fixed, cell, pair):
    truth = MemoryModel(0.0, fixed, cell, pair)
    shapes = [(146, 7), (4, 256), (293, 7), (8, 256)]
    fitted = MemoryModel.fit(base, shapes, [round(truth(*shape)) for shape in shapes])
    for shape in ((1, 8), (16, 256), (60, 65)):
        # Peaks are whole bytes, of a million at least: a thousandth is far more than that changes.
        np.testing.assert_allclose(fitted(*shape), max(base, truth(*shape)), rtol=1e-3)
