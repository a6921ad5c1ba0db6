"""Checkpoints of a whole run: weights, optimizer, position in the data, counters.

A checkpoint is copied in memory between two steps, and written while training continues. Its files
appear whole or not at all. Checkpoints are found by their files; the file `checkpoint` lists them
only for TensorFlow's tools.
"""

import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import logging
import pathlib
import shutil
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_lite import files
from t2t_lite.data.generation import fingerprint
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.errors import UserError, describe_os_error, first_line
from t2t_lite.models.known_weights import KnownWeights
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, followers, run_folder
from t2t_lite.runs.checkpoint_files import CHECKPOINT_NAME

log = logging.getLogger(__name__)

# Version of the position in the data; checkpoints of the first release have none, and contain
# paths. Raise it when the stages of the input pipeline change.
_POSITION_VERSION = 1
_TRAINING_DATA = "training_data/.ATTRIBUTES/VARIABLE_VALUE"
_MAX_CHANGES = 3  # of the training files, listed in a message


@dataclasses.dataclass(frozen=True)
class TrainingFiles:
    """The training files of a problem at one moment.

    Attributes:
        sizes: size of each file in bytes, by its name in the data folder.
        fingerprint: digest of what they were generated from; "" if there is no fingerprint.
    """

    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)
    fingerprint: str = ""

    @classmethod
    def of(cls, problem: Problem, data_dir: str) -> "TrainingFiles":
        """Returns the current training files in a folder."""
        paths = map(pathlib.Path, problem.existing_filepaths(data_dir, DatasetSplit.TRAIN))
        return cls(
            sizes={path.name: path.stat().st_size for path in paths},
            fingerprint=fingerprint.training_digest(problem, data_dir),
        )

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> "TrainingFiles":
        """Returns the inverse of `dataclasses.asdict`; further fields are ignored."""
        return cls(sizes=fields["sizes"], fingerprint=fields["fingerprint"])

    @property
    def digest(self) -> str:
        """A SHA-256, equal for equal files in any folder on any machine."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self)).encode()).hexdigest()

    def changes(self, now: "TrainingFiles") -> str:
        """Returns the differences of the files `now`; "" if there are none.

        A missing fingerprint does not count: a user who deletes it, or copies the files without it,
        vouches for them.
        """
        found = [
            f"{name}: {_size(self.sizes.get(name))} -> {_size(now.sizes.get(name))}"
            for name in {**self.sizes, **now.sizes}
            if self.sizes.get(name) != now.sizes.get(name)
        ]
        if now.fingerprint not in ("", self.fingerprint):
            what = "made from something else" if self.fingerprint else "of unknown origin before"
            found.append(f"{what}, according to the fingerprint")
        more = len(found) - _MAX_CHANGES
        return "; ".join(found[:_MAX_CHANGES]) + (f"; and {more} more" if more > 0 else "")


def _size(size: int | None) -> str:
    return "none" if size is None else f"{size:,} bytes"


class Checkpoints(contextlib.AbstractContextManager["Checkpoints"]):
    """Saves and restores everything that the next step depends on.

    The end of its block waits for the last checkpoint to be written. Dropout has no state: its
    masks are a function of seed, step and part of the batch.

    Args:
        folder: the run folder, in which no other process writes checkpoints.
        model: with all its variables created.
        optimizer: with all its variables created.
        batches: iterator over the training data, whose position is saved.
        training_files: the files that `batches` reads, for which alone its position is valid.
        train_state: `TrainStep.state`: the totals since the last log line, and the loss scale of a
            float16 run.
        keep: number of checkpoints to keep, beside those that a follower has yet to read.

    Raises:
        UsageError: a checkpoint would lack a weight of the model.
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
        self._weights = KnownWeights(model)
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
        tf.train.TrackableView(model).descendants()  # raises, if a weight has no name, before work
        self._writer = concurrent.futures.ThreadPoolExecutor(1, "checkpoint")
        self._written: concurrent.futures.Future[None] | None = None
        for leftover in folder.glob(f"{CHECKPOINT_NAME}-*{files.INCOMPLETE}"):
            shutil.rmtree(leftover)

    def __exit__(self, *error: object) -> None:
        self.wait()

    def restore(self, accept_changed_data: bool = False) -> int:
        """Restores the newest readable checkpoint, if there is any.

        Args:
            accept_changed_data: if the training files have changed since, restore everything else,
                and start the data from the beginning.

        Returns:
            Its step; 0 if there is none.
        """

        def read(path: str) -> None:
            has_same_data = self._has_same_data(path, accept_changed_data)
            self._learned.read(path).expect_partial().assert_existing_objects_matched()
            if has_same_data:
                self._restore_position(path)

        checkpoint_files.read_newest(self._folder, read)
        return self.newest_step

    def _has_same_data(self, path: str, accept_changed_data: bool) -> bool:
        """Whether a checkpoint is of the current training files, or, if accepted, of others."""
        then = _read_training_files(path, self._folder)
        changes = then.changes(self._training_files)
        if changes and not accept_changed_data:
            raise UserError(
                "the training data has changed since the newest checkpoint in "
                f"{self._folder} was saved (then -> now): {changes}. Restore the data, or start "
                "another run in another --output_dir, or resume with --accept_changed_data, which "
                "starts the data from the beginning"
            )
        if changes:
            log.warning("the training data has changed and starts from the beginning: %s", changes)
        return not changes

    def _restore_position(self, path: str) -> None:
        """Restores the position in the data, after everything else."""
        try:
            self._position.read(path).expect_partial().assert_existing_objects_matched()
        except (tf.errors.OpError, IndexError, ValueError, AssertionError) as error:
            if checkpoint_files.damage(path):
                raise
            raise UserError(
                f"the position in the training data of the newest checkpoint in {self._folder} "
                f"cannot be restored ({first_line(error)}): resume with the release of TensorFlow "
                f"that saved it (this is {tf.__version__}), or start another run with "
                "--warm_start_from"
            ) from error

    @property
    def newest_step(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return int(self._step)

    def save(self, step: int) -> None:
        """Copies the state after `step` updates, and starts writing it.

        If the process is killed at any moment, the previous checkpoint remains.

        Raises:
            UsageError: an evaluation has given the model other weights.
        """
        self._weights.require_no_others()
        began = time.monotonic()
        self.wait()  # for memory: one copy of the state is enough
        self._step.assign(step)
        snapshot = take_snapshot(self._checkpoint)
        paused = time.monotonic() - began
        self._written = self._writer.submit(self._write, step, snapshot, paused)

    def wait(self) -> None:
        """Waits until the last checkpoint is on disk, or raises the error that prevents it."""
        written, self._written = self._written, None
        if written:
            written.result()

    def check(self) -> None:
        """Raises the error of the last checkpoint, if its writing has already failed."""
        if self._written and self._written.done():
            self.wait()

    def _write(self, step: int, snapshot: "Snapshot", paused: float) -> None:
        """Writes a checkpoint, and deletes the oldest beyond `keep`; runs in a thread.

        Args:
            step: number of updates before it.
            snapshot: its values.
            paused: seconds for which training was paused, for the log.
        """
        began = time.monotonic()
        before = self._up_to(step - 1)
        try:
            with checkpoint_files.whole_checkpoint(
                str(self._folder / f"{CHECKPOINT_NAME}-{step}")
            ) as prefix:
                snapshot.write(prefix)
            followers.delete_old(self._folder, self._up_to(step), self._keep)
        except OSError as error:
            kept = f"the last good one is {before[-1]}" if before else "there is no earlier one"
            raise UserError(
                f"checkpoint of step {step} not saved ({kept}): {describe_os_error(error)}"
            ) from error
        log.info(
            "checkpoint of step %d written in %.0f ms; training paused for %.0f ms",
            step,
            1000 * (time.monotonic() - began),
            1000 * paused,
        )

    def _up_to(self, step: int) -> list[str]:
        """Returns the checkpoints up to a step; later ones were unreadable when the run resumed."""
        return [
            path
            for path in checkpoint_files.checkpoints(self._folder)
            if checkpoint_files.step_of(path) <= step
        ]


def refuse_other_release(folder: pathlib.Path) -> None:
    """Makes sure that training can resume from a run's newest intact checkpoint.

    Must run before versions.json, from which the message takes the release, is overwritten.
    """
    for path in reversed(checkpoint_files.checkpoints(folder)):
        with (
            contextlib.suppress(tf.errors.OpError, IndexError, ValueError),  # it is torn
            files.plain_prefix(path) as plain,
        ):
            _read_training_files(plain, folder)
            return


def _read_training_files(path: str, folder: pathlib.Path) -> TrainingFiles:
    """Returns the training files with which a checkpoint was saved.

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
            "training data this one cannot read. It can still be decoded, averaged and exported; "
            "to continue training, start another run with --warm_start_from and another "
            "--output_dir"
        )
    return TrainingFiles.from_dict(description)


class Snapshot(NamedTuple):
    """The values of a checkpoint at one moment, as arguments of TensorFlow's `SaveV2`."""

    tensor_names: list[str]
    shape_and_slices: list[str]
    tensors: list[tf.Tensor]

    def write(self, prefix: str) -> None:
        """Writes the files of a checkpoint."""
        tf.raw_ops.SaveV2(prefix=prefix, **self._asdict())


class _CalledOffError(Exception):
    """Keeps TensorFlow from writing a checkpoint itself."""


class _Collector(tf.train.experimental.ShardingCallback):
    """Collects the values that TensorFlow is about to write."""

    description = "collect all values, write none"

    def __init__(self) -> None:
        self.snapshot = Snapshot([], [], [])

    def __call__(self, shardable_tensors: Sequence[tf.train.experimental.ShardableTensor]) -> None:
        for value in shardable_tensors:
            self.snapshot.tensor_names.append(value.checkpoint_key)
            self.snapshot.shape_and_slices.append(value.slice_spec)
            with tf.device("CPU:0"):
                # Some are variables; a tensor shares a variable's memory only until it changes.
                self.snapshot.tensors.append(tf.identity(value.tensor))
        raise _CalledOffError


def take_snapshot(checkpoint: tf.train.Checkpoint) -> Snapshot:
    """Returns a copy in host memory of all that `checkpoint.write` would write."""
    collector = _Collector()
    options = tf.train.CheckpointOptions(experimental_sharding_callback=collector)
    with contextlib.suppress(_CalledOffError):
        checkpoint.write("unwritten", options)
    return collector.snapshot
