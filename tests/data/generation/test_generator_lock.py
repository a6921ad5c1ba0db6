import fcntl
import os
import pathlib
import subprocess
import sys

import pytest

from support import numbered
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import exclusive, generate_data
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UserError


class Small(numbered.Small):
    dataset_splits = ({"split": DatasetSplit.TRAIN, "shards": 1},)


class Borrowing(Small):
    base_name = "borrowing"
    use_vocab_from_other_problem = Small()


class Other(Small):
    base_name = "other"


def assert_locked(problem: Text2TextProblem, folder: pathlib.Path, name: str) -> None:
    message = f"another t2t-datagen is generating {name} in {folder}; wait for it"
    with pytest.raises(UserError, match=message), exclusive(problem, str(folder)):
        pass


def test_two_runs_at_once_do_not_make_the_same(tmp_path):
    class Twice(Small):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            assert_locked(Small(), tmp_path, "small")
            return super().generate_samples(data_dir, tmp_dir, dataset_split)

    generate_data(Twice(), str(tmp_path), "", DatagenOptions())
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["small-train-00000-of-00001", "small.fingerprint.json"]


def test_a_vocabulary_is_made_by_one_run_at_a_time(tmp_path):
    with exclusive(Small(), str(tmp_path)):
        assert_locked(Borrowing(), tmp_path, "small")
        with exclusive(Other(), str(tmp_path)):
            pass
    with exclusive(Borrowing(), str(tmp_path)):
        assert_locked(Small(), tmp_path, "small")
    with exclusive(Small(), str(tmp_path)), exclusive(Small(), str(tmp_path / "b")):
        pass


def test_what_a_killed_run_leaves_blocks_nobody(tmp_path):
    script = (
        "import fcntl, os, signal, sys; file = open(sys.argv[1], 'w');"
        "fcntl.flock(file, fcntl.LOCK_EX); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / ".small.lock"])
    assert os.listdir(tmp_path) == [".small.lock"]
    with exclusive(Small(), str(tmp_path)):
        pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_there", [False, True])
def test_a_lock_file_that_its_holder_has_just_removed_does_not_count(
    tmp_path, monkeypatch, is_there
):
    flock = fcntl.flock

    def removing(file, operation):
        flock(file, operation)
        os.remove(file.name)
        if is_there:
            pathlib.Path(file.name).touch()

    monkeypatch.setattr(fcntl, "flock", removing)
    assert_locked(Small(), tmp_path, "small")


def test_where_nothing_can_be_locked_a_warning_is_all(tmp_path, monkeypatch, caplog):
    (tmp_path / ".small.lock").mkdir()  # cannot be opened
    with exclusive(Small(), str(tmp_path)):
        assert "cannot lock" in caplog.text
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with exclusive(Other(), str(tmp_path)):
        assert "do not start a second t2t-datagen there" in caplog.messages[1]
