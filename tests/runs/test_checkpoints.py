"""Checkpoints on disk: exact, whole or not at all, with a fallback from damaged ones."""

import concurrent.futures
import logging
import os
import pathlib
import random
import shutil
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.limits import full_disk, strategy_over
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files
from t2t_lite.runs import checkpoints as checkpoints_module
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles, take_snapshot

FILES = TrainingFiles({"train-0": 50})
DATA, INDEX = ".data-00000-of-00001", ".index"


class Window:
    """The part of a TrainStep that checkpoints need."""

    def __init__(self) -> None:
        self.window = tf.Variable(tf.zeros(3, tf.float64))
        self.state = {"window": self.window}


class Training:
    """A small run: weights, optimizer with EMA, shuffled data, checkpoints in `folder`."""

    def __init__(self, folder, strategy=None, seed=1, keep=3, units=3) -> None:
        keras.utils.set_random_seed(seed)
        self.strategy = strategy or tf.distribute.get_strategy()
        with self.strategy.scope():
            layers = [keras.layers.Input((4,)), keras.layers.Dense(units)]
            self.model = keras.Sequential(layers)
            self.optimizer = keras.optimizers.Adam(0.1, use_ema=True)
            self.optimizer.build(self.model.trainable_variables)
        self.batches = iter(tf.data.Dataset.range(50).shuffle(20, seed=3).repeat().batch(4))
        self.train_step = Window()
        self.step = 0
        self.folder = folder
        self.checkpoints = Checkpoints(
            folder, self.model, self.optimizer, self.batches, FILES, self.train_step.state, keep
        )
        self._compiled = tf.function(self._train)

    def _train(self, batch) -> None:
        scale = tf.reduce_sum(tf.cast(batch, tf.float32))
        variables = self.model.trainable_variables
        self.optimizer.apply([scale * tf.ones_like(v) for v in variables], variables)
        self.train_step.window.assign_add(tf.cast([scale, 1.0, 2.0], tf.float64))

    def train(self, steps: int) -> None:
        for _ in range(steps):
            self._compiled(next(self.batches))
            self.step += 1

    def save_at(self, *steps: int) -> dict[int, list[np.ndarray]]:
        """Trains and saves at these steps; returns the state at each."""
        states = {}
        with self.checkpoints:
            for step in steps:
                self.train(step - self.step)
                self.checkpoints.save(step)
                states[step] = self.state()
        return states

    def restore(self) -> int:
        self.step = self.checkpoints.restore()
        return self.step

    def state(self) -> list[np.ndarray]:
        values = [*self.model.weights, *self.optimizer.variables, self.train_step.window]
        return [np.array(keras.ops.convert_to_numpy(value)) for value in values]


def assert_equal(one: list[np.ndarray], other: list[np.ndarray]) -> None:
    assert len(one) == len(other) > 8
    for a, b in zip(one, other, strict=True):
        assert np.array_equal(a, b)


def names(folder: pathlib.Path) -> list[str]:
    return [os.path.basename(path) for path in checkpoint_files.checkpoints(folder)]


def tensorflows_manager(run: Training) -> tf.train.CheckpointManager:
    checkpoint = run.checkpoints._checkpoint
    return tf.train.CheckpointManager(checkpoint, str(run.folder), 5, checkpoint_name="model.ckpt")


def cut_in_half(path: pathlib.Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: pathlib.Path, position: int | None = None) -> None:
    """Changes the byte at a position, or in the middle."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.integration
@pytest.mark.parametrize("devices", [0, 2])
def test_a_snapshot_does_not_change_while_training_continues(tmp_path, monkeypatch, devices):
    strategy = strategy_over(devices) if devices else None
    go_on = threading.Event()
    write = checkpoints_module.Snapshot.write

    def held_up(self, prefix):
        assert go_on.wait(60)
        write(self, prefix)

    monkeypatch.setattr(checkpoints_module.Snapshot, "write", held_up)
    run = Training(tmp_path, strategy)
    with run.checkpoints:
        run.train(5)
        run.checkpoints.save(5)
        assert run.checkpoints.newest_step == 5
        saved = run.state()
        run.train(7)  # weights, moments, averages and the shuffle buffer move on
        assert names(tmp_path) == []
        go_on.set()
    end = run.state()
    assert not np.array_equal(end[0], saved[0])
    resumed = Training(tmp_path, strategy, seed=2)
    assert resumed.restore() == 5
    assert_equal(resumed.state(), saved)
    resumed.train(7)
    assert_equal(resumed.state(), end)


def test_the_files_are_those_of_tensorflow(tmp_path):
    run = Training(tmp_path)
    run.train(3)
    checkpoint = run.checkpoints._checkpoint
    take_snapshot(checkpoint).write(str(tmp_path / "ours"))
    checkpoint.write(str(tmp_path / "theirs"))
    ours, theirs = (tf.train.load_checkpoint(str(tmp_path / n)) for n in ("ours", "theirs"))
    shapes = ours.get_variable_to_shape_map()
    assert shapes == theirs.get_variable_to_shape_map()
    for name in shapes:
        if not name.startswith("batches"):  # which numpy cannot hold
            assert np.array_equal(ours.get_tensor(name), theirs.get_tensor(name)), name
    assert set(os.listdir(tmp_path)) == {
        name + suffix for name in ("ours", "theirs") for suffix in (DATA, INDEX)
    }


@pytest.mark.integration
def test_a_checkpoint_by_tensorflows_manager_is_restored(tmp_path):
    run = Training(tmp_path)
    manager = tensorflows_manager(run)
    run.train(4)
    run.checkpoints._step.assign(4)
    manager.save(4)
    run.train(3)
    resumed = Training(tmp_path, seed=2)
    assert resumed.restore() == 4
    resumed.train(3)
    assert_equal(resumed.state(), run.state())


def test_the_newest_are_kept_and_listed(tmp_path, caplog):
    run = Training(tmp_path, keep=2)
    with caplog.at_level(logging.INFO):
        run.save_at(1, 2, 9, 10)
    assert names(tmp_path) == ["model.ckpt-9", "model.ckpt-10"]
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model.ckpt-10")
    listed = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    assert list(listed) == checkpoint_files.checkpoints(tmp_path)
    assert len(os.listdir(tmp_path)) == 2 * 2 + 1
    assert "checkpoint of step 10 written in" in caplog.text


DAMAGES = {
    "no index": lambda prefix: os.remove(prefix + INDEX),
    "no data": lambda prefix: os.remove(prefix + DATA),
    "half the data": lambda prefix: cut_in_half(pathlib.Path(prefix + DATA)),
    "half the index": lambda prefix: cut_in_half(pathlib.Path(prefix + INDEX)),
    "an empty index": lambda prefix: os.truncate(prefix + INDEX, 0),
    "other weights": lambda prefix: flip(pathlib.Path(prefix + DATA)),
}


@pytest.mark.integration
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped(tmp_path, caplog, damage):
    states = Training(tmp_path).save_at(2, 4)
    DAMAGES[damage](str(tmp_path / "model.ckpt-4"))
    resumed = Training(tmp_path, seed=2)
    assert resumed.restore() == 2
    assert_equal(resumed.state(), states[2])
    (warning,) = [
        r.getMessage() for r in caplog.records if r.name == "t2t_lite.runs.checkpoint_files"
    ]
    assert f"skipping checkpoint {tmp_path}/model.ckpt-4, which cannot be read: " in warning
    assert "__wrapped__" not in warning
    assert_equal(resumed.save_at(4)[4], states[4])
    assert names(tmp_path) == ["model.ckpt-2", "model.ckpt-4"]
    again = Training(tmp_path, seed=3)
    assert again.restore() == 4
    assert_equal(again.state(), states[4])


@pytest.mark.integration
def test_damage_anywhere_is_noticed_or_does_no_harm(tmp_path):
    (tmp_path / "whole").mkdir()
    states = Training(tmp_path / "whole").save_at(2, 4)
    draw = random.Random(4)
    restored = set()
    for number in range(16):
        folder = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", folder)
        path = folder / f"model.ckpt-4{draw.choice([DATA, INDEX])}"
        position = draw.randrange(path.stat().st_size)
        if number % 2:
            flip(path, position)
        else:
            os.truncate(path, position)
        run = Training(folder, seed=2)
        step = run.restore()
        assert_equal(run.state(), states[step])
        restored.add(step)
    assert 2 in restored


@pytest.mark.integration
def test_if_none_can_be_read_all_are_named(tmp_path):
    Training(tmp_path).save_at(2, 4)
    for step in (2, 4):
        cut_in_half(tmp_path / f"model.ckpt-{step}{DATA}")
    with pytest.raises(UserError, match=r"no checkpoint .*ckpt-4 \(.*ckpt-2 \(.*another --output"):
        Training(tmp_path).restore()


def test_another_models_checkpoint_is_an_error(tmp_path):
    Training(tmp_path).save_at(2, 4)
    with pytest.raises(UserError, match=r"model\.ckpt-4 does not fit the model"):
        Training(tmp_path, units=5).restore()


@pytest.mark.integration
@pytest.mark.parametrize("content", [None, "", 'model_checkpoint_path: "model.ck', "\0\0\0\0"])
def test_a_torn_list_of_checkpoints_does_no_harm(tmp_path, content):
    states = Training(tmp_path).save_at(2, 4)
    if content is None:
        (tmp_path / "checkpoint").unlink()
    else:
        (tmp_path / "checkpoint").write_text(content)
    resumed = Training(tmp_path, seed=2)
    assert resumed.restore() == 4
    assert_equal(resumed.state(), states[4])


@pytest.mark.integration
def test_a_clock_set_back_changes_nothing(tmp_path, monkeypatch):
    run = Training(tmp_path, keep=2)
    manager = tensorflows_manager(run)
    for step in (1, 2, 3):  # as the released version did, in the year 2100
        monkeypatch.setattr(time, "time", lambda: 4.1e9)
        run.train(1)
        run.checkpoints._step.assign(step)
        path = manager.save(step)
        for suffix in (DATA, INDEX):
            os.utime(path + suffix, (4.1e9 - step, 4.1e9 - step))
    monkeypatch.undo()
    resumed = Training(tmp_path, keep=2)
    assert resumed.restore() == 3
    resumed.save_at(4)
    assert names(tmp_path) == ["model.ckpt-3", "model.ckpt-4"]
    assert Training(tmp_path).restore() == 4


@pytest.mark.integration
def test_a_checkpoint_after_the_restored_step_replaces_no_other(tmp_path):
    Training(tmp_path).save_at(10, 20)
    cut_in_half(tmp_path / f"model.ckpt-20{DATA}")
    resumed = Training(tmp_path, keep=1)
    assert resumed.restore() == 10
    resumed.save_at(15)
    assert names(tmp_path) == ["model.ckpt-15", "model.ckpt-20"]
    assert Training(tmp_path).restore() == 15


@pytest.mark.integration
def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    run = Training(tmp_path)
    run.save_at(2)
    before = sorted(os.listdir(tmp_path))
    content = (tmp_path / f"model.ckpt-2{DATA}").read_bytes()
    run.train(1)
    message = r"step 3 not saved .*good one is .*ckpt-2\): .*/model.ckpt-3: .*too large"
    with full_disk(100):
        run.checkpoints.save(3)
        with pytest.raises(UserError, match=message):
            run.checkpoints.wait()
        run.checkpoints.save(3)
        with pytest.raises(UserError, match="step 3 not saved"):  # noticed at the next save
            run.checkpoints.save(4)
        run.checkpoints.save(3)
        concurrent.futures.wait([run.checkpoints._written])
        with pytest.raises(UserError, match="step 3 not saved"):  # or step
            run.checkpoints.check()
        run.checkpoints.check()
    assert sorted(os.listdir(tmp_path)) == before
    assert (tmp_path / f"model.ckpt-2{DATA}").read_bytes() == content
    assert Training(tmp_path).restore() == 2
    run.save_at(4)
    assert Training(tmp_path).restore() == 4


def test_what_a_killed_writer_leaves_is_cleared_away(tmp_path):
    (tmp_path / "model.ckpt-5.incomplete").mkdir()
    (tmp_path / "model.ckpt-5.incomplete" / f"checkpoint{DATA}").write_bytes(b"half")
    assert Training(tmp_path).restore() == 0
    assert os.listdir(tmp_path) == []
