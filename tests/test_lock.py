"""A lock keeps a second process out, and names its holder."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

import pytest

from support.limits import full_disk
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.runs import run_creation

HOLD = """
import sys, time
from t2t_lite.runs import run_creation
with run_creation.exclusive(sys.argv[1]):
    print("holding", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the lock of the run folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, tmp_path], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "holding\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_trainer_is_refused_until_the_first_is_dead(holder, tmp_path):
    who = f"process {holder.pid} on {re.escape(socket.gethostname())}"
    message = f"another t2t-trainer is using {tmp_path}; .*{who}"
    for _ in range(2):  # refusing leaves the holder's name in the file
        with pytest.raises(UserError, match=message), run_creation.exclusive(str(tmp_path)):
            pass
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert os.listdir(tmp_path) == [".trainer.lock"]
    with run_creation.exclusive(str(tmp_path)):
        assert f"process {os.getpid()}" in (tmp_path / ".trainer.lock").read_text()
        pathlib.Path(tmp_path, "hparams.json").touch()
    assert os.listdir(tmp_path) == ["hparams.json"]


def test_a_run_that_came_to_nothing_leaves_no_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), run_creation.exclusive(str(tmp_path / "run")):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_a_lock_holds_on_a_full_disk(tmp_path):
    with full_disk(0), locked(tmp_path / "x.lock", "t2t-decoder", "is writing x"):
        with (
            pytest.raises(UserError, match="another t2t-decoder is writing x"),
            locked(tmp_path / "x.lock", "t2t-decoder", "is writing x"),
        ):
            pass
        with pytest.raises(ZeroDivisionError), locked(tmp_path / "y.lock", "a", "b"):
            raise ZeroDivisionError  # what fails in the block is what is reported


def fail_after_writing(folder: pathlib.Path, contents: dict[str, str]) -> None:
    """Writes files into a run folder while it is locked, and fails."""
    with contextlib.suppress(ZeroDivisionError), run_creation.exclusive(str(folder)):
        for name, text in contents.items():
            (folder / name).write_text(text)
        raise ZeroDivisionError


def test_of_a_run_that_failed_at_its_start_only_the_users_files_are_left(tmp_path):
    (tmp_path / "vocab.mine").touch()
    written = "hparams.json", "flags.json", "vocab.new", "events.out.tfevents.1", "metrics.jsonl"
    fail_after_writing(tmp_path, {**dict.fromkeys(written, ""), "notes": ""})
    assert sorted(os.listdir(tmp_path)) == ["notes", "vocab.mine"]


@pytest.mark.parametrize("trace", ["model.ckpt-2.index", "metrics.jsonl"])
def test_a_run_that_failed_later_is_left(tmp_path, trace):
    fail_after_writing(tmp_path, {"hparams.json": "", trace: "{}\n"})
    assert sorted(os.listdir(tmp_path)) == sorted(["hparams.json", trace])


def test_a_lock_of_another_name_is_another_lock(tmp_path):
    with locked(tmp_path / "a", "x", "does y"), locked(tmp_path / "b", "x", "does y"):
        assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_a_holder_without_a_name_still_holds_the_file(tmp_path):
    with locked(tmp_path / "a", "x", "does y"):
        os.truncate(tmp_path / "a", 0)
        with (
            pytest.raises(UserError, match=rf"another x does y; .*\(it holds {tmp_path}/a\)"),
            locked(tmp_path / "a", "x", "does y"),
        ):
            pass
