"""Which checkpoints a process beside the trainer reads, and which the trainer may delete."""

import contextlib
import itertools
import json
import os
import pathlib
import time

import pytest

from t2t_lite import waiting
from t2t_lite.errors import UserError
from t2t_lite.runs import followers, run_creation
from t2t_lite.runs.checkpoint_files import CHECKPOINT_INDEX, step_of, whole_checkpoints
from t2t_lite.runs.followers import Follower, delete_leftovers, delete_old


class Trainer:
    """Saves checkpoints of a run as a trainer does, and keeps two."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        flags = {"problem": "any", "model": "any", "hparams_set": "any"}
        flags |= {"train_steps": 50, "keep_checkpoint_max": 2}
        (folder / "flags.json").write_text(json.dumps(flags))

    def save(self, *steps: int) -> list[int]:
        """Saves checkpoints; returns the steps of those that are there."""
        for step in steps:
            for suffix in (".data-00000-of-00001", CHECKPOINT_INDEX):
                (self.folder / f"model.ckpt-{step}{suffix}").write_text(f"{suffix} {step}")
            delete_old(self.folder, whole_checkpoints(self.folder), keep=2)
        return self.steps

    @property
    def steps(self) -> list[int]:
        return list(map(step_of, whole_checkpoints(self.folder)))


@pytest.fixture
def trainer(tmp_path, monkeypatch) -> Trainer:
    monkeypatch.setattr(waiting, "_POLL", 0.001)
    return Trainer(tmp_path)


def nothing(path: str) -> bool:
    return False


def test_without_followers_old_checkpoints_go(trainer):
    assert trainer.save(10, 20, 30) == [20, 30]
    assert [line.split('"')[1] for line in (trainer.folder / "checkpoint").open()] == [
        "model.ckpt-30",
        "model.ckpt-20",
        "model.ckpt-30",
    ]


def test_none_goes_before_each_follower_has_finished_with_it(trainer):
    trainer.save(10)
    with Follower(trainer.folder, "eval") as one, Follower(trainer.folder, "decode") as other:
        assert trainer.save(20, 30) == [10, 20, 30]
        first, second = (follower.checkpoints(nothing, 0) for follower in (one, other))
        assert [step_of(path) for path in first] == [10, 20, 30]
        assert step_of(next(second)) == 10
        assert trainer.save(40) == [10, 20, 30, 40], "one still reads the first"
        assert step_of(next(second)) == 20
        assert trainer.save(50) == [20, 30, 40, 50]
        listed = (trainer.folder / "checkpoint").read_text()
        assert listed.count("all_model_checkpoint_paths") == 4
    delete_leftovers(trainer.folder)
    assert trainer.steps == [40, 50]


def test_leftovers_are_left_to_a_trainer_that_runs(trainer):
    with Follower(trainer.folder, "eval"):
        trainer.save(10, 20, 50)
        with run_creation.exclusive(str(trainer.folder)):
            delete_leftovers(trainer.folder)
    assert trainer.steps == [10, 20, 50]
    delete_leftovers(trainer.folder)
    assert trainer.steps == [20, 50]


def test_leftovers_stay_until_the_training_has_ended(trainer):
    """The trainer may be on another machine, which sees no lock of this one."""
    with Follower(trainer.folder, "eval"):
        trainer.save(10, 20, 30)
    delete_leftovers(trainer.folder)
    assert trainer.steps == [10, 20, 30]


def test_a_follower_that_died_long_ago_keeps_no_leftovers(trainer):
    follower = Follower(trainer.folder, "eval").__enter__()
    trainer.save(10, 20, 50)
    follower.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    (path,) = (trainer.folder / "followers").glob("*.json")
    long_ago = time.time() - 601
    for one in (path, *trainer.folder.glob("model.ckpt-*")):
        os.utime(one, (long_ago, long_ago))
    delete_leftovers(trainer.folder)
    assert trainer.steps == [20, 50]


def test_a_killed_follower_is_waited_for_but_not_for_ever(trainer):
    trainer.save(10)
    follower = Follower(trainer.folder, "eval").__enter__()
    next(follower.checkpoints(nothing, 0))
    follower.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert trainer.save(20, 30) == [10, 20, 30]
    (path,) = (trainer.folder / "followers").glob("*.json")
    long_ago = time.time() - 601
    os.utime(path, (long_ago, long_ago))
    assert trainer.save(40) == [30, 40]


def test_a_follower_with_wrong_settings_is_not_waited_for(trainer):
    with contextlib.suppress(UserError), Follower(trainer.folder, "eval"):
        raise UserError("the wrong settings")
    assert trainer.save(10, 20, 30) == [20, 30]


def test_a_damaged_file_of_a_follower_needs_all(trainer):
    with Follower(trainer.folder, "eval") as follower:
        follower._path.write_text("{")
        assert trainer.save(10, 20, 30) == [10, 20, 30]


def test_a_living_follower_says_so(trainer, monkeypatch):
    monkeypatch.setattr(followers, "_BEAT", 0.001)
    with Follower(trainer.folder, "eval") as follower:
        os.utime(follower._path, (0, 0))
        end = time.monotonic() + 30
        while follower._path.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.001)
        assert follower._path.stat().st_mtime > 0


def test_a_second_follower_of_a_name_is_refused(trainer):
    second = Follower(trainer.folder, "eval")
    with Follower(trainer.folder, "eval"):
        with pytest.raises(UserError, match=r"another process follows .* \(eval\)"):
            second.__enter__()


def test_checkpoints_come_once_in_order_until_training_ends(trainer):
    """Those that come meanwhile, too; what an earlier process has finished with does not come."""
    trainer.save(10, 20)
    with Follower(trainer.folder, "eval") as follower:
        found = follower.checkpoints(lambda path: step_of(path) == 10, minutes=-1)
        assert step_of(next(found)) == 20
        trainer.save(30, 40)
        assert [step_of(path) for path in itertools.islice(found, 2)] == [30, 40]
        trainer.save(50)
        assert [step_of(path) for path in found] == [50]


def test_a_follower_may_need_the_checkpoints_before_each(trainer):
    """As one that averages them."""
    trainer.save(10)
    with Follower(trainer.folder, "average", before=2) as follower:
        assert trainer.save(20, 30, 40) == [10, 20, 30, 40]
        found = follower.checkpoints(lambda path: step_of(path) < 40, minutes=-1)
        assert step_of(next(found)) == 40
        assert trainer.save(50) == [20, 30, 40, 50]
        assert [step_of(path) for path in found] == [50]
        assert trainer.save(60) == [40, 50, 60]


def test_a_checkpoint_that_is_written_anew_comes_again(trainer):
    trainer.save(10)
    with Follower(trainer.folder, "eval") as follower:
        assert [step_of(path) for path in follower.checkpoints(nothing, 0)] == [10]
        trainer.save(10)
        os.utime(trainer.folder / f"model.ckpt-10{CHECKPOINT_INDEX}", (1, 1))
        assert [step_of(path) for path in follower.checkpoints(nothing, 0)] == [10]


def test_the_wait_for_the_next_checkpoint_ends(trainer):
    trainer.save(10)
    with Follower(trainer.folder, "eval") as follower:
        assert [step_of(path) for path in follower.checkpoints(nothing, 0.0001)] == [10]
