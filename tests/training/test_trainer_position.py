"""A checkpoint's position in the data, and its fate when the data has changed."""

import json
import os

import keras
import pytest
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.runs import run_folder
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles, refuse_other_release

FILES, OTHERS = TrainingFiles({"train-0": 50}, "a"), TrainingFiles({"train-0": 60}, "a")


class _OneWeight(keras.layers.Layer):
    def __init__(self, shape) -> None:
        super().__init__()
        self.weight = self.add_weight(shape=shape, initializer="zeros")
        self.built = True


class Training:
    """A minimal run: one weight, and numbers as data."""

    def __init__(self, folder, files=FILES, shape=(), dataset=None) -> None:
        self.parts = {"model": _OneWeight(shape), "optimizer": tf.Variable(tf.zeros(shape))}
        self.state = {"window": tf.Variable(0.0)}  # as in a TrainStep
        self.batches = iter(dataset or tf.data.Dataset.range(50))
        self.checkpoints = Checkpoints(
            folder,
            **self.parts,
            batches=self.batches,
            training_files=files,
            train_state=self.state,
            keep=3,
        )

    def train_to(self, step) -> None:
        for _ in range(step):
            self.parts["model"].weight.assign_add(tf.ones_like(self.parts["model"].weight))
            next(self.batches)
        with self.checkpoints:
            self.checkpoints.save(step)

    def where(self):
        """Returns the weight and the next number."""
        return float(self.parts["model"].weight.numpy()), int(next(self.batches))


def save_as_the_first_release(folder, step=3) -> None:
    """Writes a checkpoint without a version and a description of the training files."""
    training = Training(folder)
    saved = {**training.parts, **training.state, "batches": training.batches}
    checkpoint = tf.train.Checkpoint(**saved, step=tf.Variable(step, dtype=tf.int64))
    checkpoint.write(str(folder / f"model.ckpt-{step}"))
    (folder / run_folder.VERSIONS).write_text(json.dumps({"t2t_lite": "0.0.9"}))


@pytest.mark.parametrize("accept", [False, True])
def test_training_resumes_on_the_same_files(tmp_path, accept):
    Training(tmp_path).train_to(3)
    resumed = Training(tmp_path)
    assert resumed.checkpoints.restore(accept_changed_data=accept) == 3
    assert resumed.where() == (3.0, 3)


@pytest.mark.parametrize(
    "refuse", [refuse_other_release, lambda f: Training(f).checkpoints.restore()]
)
def test_an_older_release_is_named(tmp_path, refuse):
    save_as_the_first_release(tmp_path)
    with pytest.raises(UserError) as raised:
        refuse(tmp_path)
    message = str(raised.value)
    assert f"checkpoint in {tmp_path} was saved by another release of t2t_lite (0.0.9" in message
    assert "--warm_start_from" in message
    assert "\n" not in message
    assert "vocabulary" not in message


def test_the_folder_may_have_an_odd_name(tmp_path):
    folder = tmp_path / "[lr=0.1],*"
    folder.mkdir()
    Training(folder).train_to(3)
    refuse_other_release(folder)
    assert Training(folder).checkpoints.restore() == 3
    save_as_the_first_release(folder, step=5)
    with pytest.raises(UserError, match=r"0\.0\.9"):
        refuse_other_release(folder)


def test_of_a_torn_checkpoint_the_one_before_says_the_release(tmp_path):
    save_as_the_first_release(tmp_path)
    (tmp_path / "model.ckpt-5.index").write_bytes(b"torn")
    with pytest.raises(UserError, match="was saved by another release"):
        refuse_other_release(tmp_path)


def test_a_run_of_this_release_and_an_empty_folder_are_not_refused(tmp_path):
    refuse_other_release(tmp_path)
    assert Training(tmp_path).checkpoints.restore() == 0
    Training(tmp_path).train_to(3)
    refuse_other_release(tmp_path)
    assert Training(tmp_path).checkpoints.restore() == 3


def test_changed_data_is_an_error(tmp_path):
    Training(tmp_path).train_to(3)
    changed = Training(tmp_path, OTHERS)
    with pytest.raises(UserError) as raised:
        changed.checkpoints.restore()
    message = str(raised.value)
    assert f"since the newest checkpoint in {tmp_path} was saved" in message
    assert "train-0: 50 bytes -> 60 bytes" in message
    assert "--accept_changed_data" in message
    assert changed.where() == (0.0, 0), "nothing has been restored"


def test_accepted_changes_start_the_data_from_the_beginning(tmp_path, caplog):
    Training(tmp_path).train_to(3)
    accepting = Training(tmp_path, OTHERS)
    assert accepting.checkpoints.restore(accept_changed_data=True) == 3
    assert accepting.where() == (3.0, 0)
    assert "starts from the beginning: train-0: 50 bytes -> 60 bytes" in caplog.text
    # If killed before the next checkpoint, it must be accepted again; after that, no longer.
    with pytest.raises(UserError, match="--accept_changed_data"):
        Training(tmp_path, OTHERS).checkpoints.restore()
    accepting.train_to(4)
    assert Training(tmp_path, OTHERS).checkpoints.restore() == 4


def test_the_part_that_does_not_fit_is_named(tmp_path):
    Training(tmp_path).train_to(3)
    with pytest.raises(UserError, match=r"model\.ckpt-3 does not fit the model"):
        Training(tmp_path, shape=(2,)).checkpoints.restore()
    stages = tf.data.Dataset.range(50).shuffle(3).batch(1)
    with pytest.raises(UserError, match="position in the training data") as raised:
        Training(tmp_path, dataset=stages).checkpoints.restore()
    assert "vocabulary" not in str(raised.value)
    assert f"this is {tf.__version__}" in str(raised.value)


def test_a_damaged_position_is_passed_over(tmp_path):
    training = Training(tmp_path)
    training.train_to(2)
    training.train_to(4)
    data = tmp_path / "model.ckpt-4.data-00000-of-00001"
    os.truncate(data, data.stat().st_size - 1)
    assert Training(tmp_path).checkpoints.restore() == 2
