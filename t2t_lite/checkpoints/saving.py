"""Checkpoints of a whole run: weights, optimizer, position in the data, counters.

A checkpoint is taken in memory, between two steps, and written behind the training that goes on.
Its files appear whole or not at all. What is on disk says which checkpoints there are; the file
`checkpoint` names them for TensorFlow's own tools.
"""

import concurrent.futures
import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_lite import files
from t2t_lite.checkpoints.training_files import TrainingFiles
from t2t_lite.errors import UserError, first_line
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_files import CHECKPOINT_NAME

log = logging.getLogger(__name__)

# A checkpoint's files: the values, and the names that make them a checkpoint.
_DATA, _INDEX = ".data-00000-of-00001", checkpoint_files.CHECKPOINT_INDEX

# Of the position in the data, which those of the first release, with paths in them, do not have.
# Raise it when the stages of the input pipeline change.
_POSITION_VERSION = 1
_TRAINING_DATA = "training_data/.ATTRIBUTES/VARIABLE_VALUE"


class Checkpoints(contextlib.AbstractContextManager["Checkpoints"]):
    """Saves and restores everything that the next step depends on.

    The end of its block waits for the last checkpoint to be written. Dropout needs nothing here:
    its masks are a function of seed, step and part of the batch.

    Args:
        folder: the run folder, which no other process writes to.
        model: with all its variables.
        optimizer: with all its variables.
        batches: iterator of the training data; its position is saved.
        training_files: what `batches` reads; a position in other files means nothing.
        train_state: `TrainStep.state`: the sums since the last log line, and the loss scale of a
            float16 run.
        keep: how many checkpoints stay.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        model: Seq2Seq,
        optimizer: keras.optimizers.Optimizer,
        batches: tf.data.Iterator,
        training_files: TrainingFiles,
        train_state: Mapping[str, tf.Variable | tf.Module],
        keep: int,
    ) -> None:
        self._folder = folder
        self._keep = keep
        self._step = tf.Variable(0, dtype=tf.int64)
        self._training_files = training_files
        description = {"version": _POSITION_VERSION} | dataclasses.asdict(training_files)
        learned = {"model": model, "optimizer": optimizer, "step": self._step, **train_state}
        with tf.device("CPU:0"):
            training_data = tf.Variable(json.dumps(description))
        position = {"batches": batches, "training_data": training_data}
        self._learned = tf.train.Checkpoint(**learned)
        self._position = tf.train.Checkpoint(**position)
        self._checkpoint = tf.train.Checkpoint(**learned, **position)
        self._writer = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
        self._written: concurrent.futures.Future[None] | None = None
        for leftover in folder.glob(f"{CHECKPOINT_NAME}-*{files.INCOMPLETE}"):
            shutil.rmtree(leftover)

    def __exit__(self, *error: object) -> None:
        self.wait()

    def restore(self, accept_changed_data: bool = False) -> int:
        """Restores the newest checkpoint that can be read, if there is any.

        Args:
            accept_changed_data: if it was taken over other training files, restore the rest, and
                let the data begin anew.

        Returns:
            Its step; 0 if there is none.

        Raises:
            UserError: none can be read; or the newest is another model's, of another release, or
                was taken over other training files.
        """

        def read(path: str) -> None:
            goes_on = self._goes_on(path, accept_changed_data)
            self._learned.read(path).expect_partial().assert_existing_objects_matched()
            if goes_on:
                self._restore_position(path)

        checkpoint_files.read_newest(self._folder, read)
        return self.newest_step

    def _goes_on(self, path: str, accept_changed_data: bool) -> bool:
        """Whether a checkpoint's position is one in the training files as they are now.

        Raises:
            UserError: it is not, and that is not accepted; or it is of another release.
        """
        then = _read_training_files(path, self._folder)
        changes = then.changes(self._training_files)
        if changes and not accept_changed_data:
            raise UserError(
                "the training data is not what it was when the newest checkpoint in "
                f"{self._folder} was saved (then -> now): {changes}. Bring it back, or begin "
                "another run in another --output_dir; with --accept_changed_data this one goes "
                "on, and the data begins anew"
            )
        if changes:
            log.warning("the training data has changed and begins anew: %s", changes)
        return not changes

    def _restore_position(self, path: str) -> None:
        """Restores the position in the data, the rest of what it belongs to being restored.

        Raises:
            UserError: the checkpoint is whole, but TensorFlow takes the position for no such.
        """
        try:
            self._position.read(path).expect_partial().assert_existing_objects_matched()
        except (tf.errors.OpError, IndexError, ValueError, AssertionError) as error:
            if checkpoint_files.damage(path):
                raise
            raise UserError(
                f"the position in the training data of the newest checkpoint in {self._folder} "
                f"cannot be restored ({first_line(error)}): go on with the tensorflow that saved "
                f"it, this is {tf.__version__}, or begin another run with --warm_start_from"
            ) from error

    @property
    def newest_step(self) -> int:
        """Updates that the newest checkpoint was taken after; 0 if there is none."""
        return int(self._step)

    def save(self, step: int) -> None:
        """Takes a checkpoint after `step` updates, and begins to write it.

        A kill at any moment leaves the checkpoint before it.

        Raises:
            UserError: the checkpoint before it could not be written.
        """
        began = time.monotonic()
        self.wait()  # for memory: one copy of the state is enough
        self._step.assign(step)
        snapshot = take_snapshot(self._checkpoint)
        paused = time.monotonic() - began
        self._written = self._writer.submit(self._write, step, snapshot, paused)

    def wait(self) -> None:
        """Waits until the checkpoint that was taken last is on disk.

        Raises:
            UserError: it could not be written (a full disk, say).
        """
        written, self._written = self._written, None
        if written:
            written.result()

    def _write(self, step: int, snapshot: "Snapshot", paused: float) -> None:
        """Writes a checkpoint, and deletes what is then one too many; runs in a thread.

        Args:
            step: updates before it.
            snapshot: its values.
            paused: seconds for which training stood still, for the log.
        """
        began = time.monotonic()
        before = self._up_to(step - 1)
        try:
            with whole_checkpoint(str(self._folder / f"{CHECKPOINT_NAME}-{step}")) as prefix:
                snapshot.write(prefix)
            there = self._up_to(step)
            list_checkpoints(self._folder, there[-self._keep :])
            for path in there[: -self._keep]:
                delete_checkpoint(path)
        except (tf.errors.OpError, OSError) as error:
            kept = f"the last good one is {before[-1]}" if before else "there is none before it"
            raise UserError(
                f"checkpoint of step {step} not saved ({kept}): {first_line(error)}"
            ) from error
        log.info(
            "checkpoint of step %d: paused %.0f ms, written in %.0f ms",
            step,
            1000 * paused,
            1000 * (time.monotonic() - began),
        )

    def _up_to(self, step: int) -> list[str]:
        """Returns the checkpoints up to a step; one after it could not be read when we began."""
        return [
            path
            for path in checkpoint_files.checkpoints(self._folder)
            if checkpoint_files.step_of(path) <= step
        ]


def refuse_other_release(folder: pathlib.Path) -> None:
    """Makes sure that training can go on from a run's newest checkpoint that is not torn.

    To be called before versions.json, by which the message names the release, is written anew.

    Raises:
        UserError: it is of a release whose position in the data means nothing to this one.
    """
    for path in reversed(checkpoint_files.checkpoints(folder)):
        with (
            contextlib.suppress(tf.errors.OpError, IndexError, ValueError),  # it is torn
            files.plain_prefix(path) as plain,
        ):
            _read_training_files(plain, folder)
            return


def _read_training_files(path: str, folder: pathlib.Path) -> TrainingFiles:
    """Returns the training files that a checkpoint of a run folder was taken over.

    Raises:
        UserError: it is of another release.
        tf.errors.OpError, IndexError, ValueError: it is torn or corrupt.
    """
    reader = tf.train.load_checkpoint(path)
    text = reader.get_tensor(_TRAINING_DATA) if reader.has_tensor(_TRAINING_DATA) else b"{}"
    description = json.loads(text)
    if description.get("version") != _POSITION_VERSION:
        raise UserError(
            f"the newest checkpoint in {folder} was saved by another release of t2t_lite "
            f"({run_folder.release(folder)} by {run_folder.VERSIONS}), whose position in the "
            "training data this one cannot go on from. It can be decoded, averaged and exported "
            "as ever; to train on, begin another run with --warm_start_from and another "
            "--output_dir"
        )
    return TrainingFiles.from_dict(description)


class Snapshot(NamedTuple):
    """The values of a checkpoint at one moment, as arguments of TensorFlow's operation."""

    tensor_names: list[str]
    shape_and_slices: list[str]
    tensors: list[tf.Tensor]

    def write(self, prefix: str) -> None:
        """Writes the files of a checkpoint."""
        tf.raw_ops.SaveV2(prefix=prefix, **self._asdict())


class _CalledOffError(Exception):
    """TensorFlow is not to write a checkpoint itself."""


class _Collector(tf.train.experimental.ShardingCallback):
    """Keeps what TensorFlow is about to write."""

    description = "keep all values, write none"

    def __init__(self) -> None:
        self.snapshot = Snapshot([], [], [])

    def __call__(self, shardable_tensors: Sequence[tf.train.experimental.ShardableTensor]) -> None:
        for value in shardable_tensors:
            self.snapshot.tensor_names.append(value.checkpoint_key)
            self.snapshot.shape_and_slices.append(value.slice_spec)
            with tf.device("CPU:0"):
                # Some are still variables. A tensor shares their memory only until they change.
                self.snapshot.tensors.append(tf.identity(value.tensor))
        raise _CalledOffError


def take_snapshot(checkpoint: tf.train.Checkpoint) -> Snapshot:
    """Returns all that `checkpoint.write` would write, as it is now, in the host's memory."""
    collector = _Collector()
    options = tf.train.CheckpointOptions(experimental_sharding_callback=collector)
    with contextlib.suppress(_CalledOffError):
        checkpoint.write("unwritten", options)
    return collector.snapshot


@contextlib.contextmanager
def whole_checkpoint(path: str) -> Iterator[str]:
    """Yields a prefix to write a checkpoint under; gives it the prefix `path` if that succeeds.

    As `files.whole_file` does: a crash leaves the old one, none, or the new one.
    """
    folder, temporary = pathlib.Path(path).parent, pathlib.Path(path + files.INCOMPLETE)
    shutil.rmtree(temporary, ignore_errors=True)  # of a run that was killed
    temporary.mkdir(parents=True)
    try:
        prefix = str(temporary / "checkpoint")
        yield prefix
        for suffix in (_DATA, _INDEX):
            with open(prefix + suffix, "rb") as written:
                os.fsync(written.fileno())
        pathlib.Path(path + _INDEX).unlink(missing_ok=True)  # old names, new values: neither
        for suffix in (_DATA, _INDEX):
            os.replace(prefix + suffix, path + suffix)
        files.sync_folder(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def list_checkpoints(folder: pathlib.Path, paths: Sequence[str]) -> None:
    """Writes the file by which TensorFlow finds checkpoints, a CheckpointState in text."""
    names = [os.path.basename(path) for path in paths]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    files.write_text(folder / "checkpoint", "\n".join(lines) + "\n")


def delete_checkpoint(path: str) -> None:
    """Deletes the files of a checkpoint, torn or not."""
    # The index first: what is left by a kill must not look like a checkpoint.
    pathlib.Path(path + _INDEX).unlink(missing_ok=True)
    pathlib.Path(path + _DATA).unlink(missing_ok=True)
