"""Averages the weights of several checkpoints, which often translate better than any one of them.

An average has neither optimizer state nor a position in the data: it is marked as for inference
only. It records which checkpoints it was made of, so that it is never taken for another average.
"""

import contextlib
import json
import logging
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite import files
from t2t_lite.errors import UserError, first_line
from t2t_lite.kept_work import Fingerprint
from t2t_lite.lock import locked
from t2t_lite.models.finite_weights import require_finite_weights
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_files import (
    CHECKPOINT_INDEX,
    is_whole,
    whole_checkpoint,
    whole_checkpoints,
)
from t2t_lite.runs.selection import BEST_NAME

log = logging.getLogger(__name__)

_MADE_OF = "made_of"  # the variable of an average that names its checkpoints, as JSON
_MADE_OF_KEY = f"{_MADE_OF}/.ATTRIBUTES/VARIABLE_VALUE"  # its name in the checkpoint file


def newest_checkpoints(folder: pathlib.Path, count: int, minutes: float = 0.0) -> list[str]:
    """Returns the prefixes of the `count` newest checkpoints of a run folder, oldest first.

    Args:
        folder: the run folder.
        count: number of checkpoints.
        minutes: time between them, by the times of their files (paper: 10); the nearest checkpoints
            are chosen. 0: any time.

    Raises:
        UserError: the folder holds fewer.
    """
    paths = whole_checkpoints(folder)
    if len(paths) < count:
        raise UserError(
            f"{folder} holds {len(paths)} checkpoints, fewer than {count}: lower "
            "--num_last_checkpoints, or train with a larger --keep_checkpoint_max"
        )
    return _spaced(paths, count, minutes) if minutes else paths[-count:]


def _spaced(paths: Sequence[str], count: int, minutes: float) -> list[str]:
    """Returns `count` of `paths`, which are in training order, `minutes` apart.

    They stay in training order even if the clock was set back in between.
    """
    times = [os.path.getmtime(path + CHECKPOINT_INDEX) / 60 for path in paths]
    chosen = [len(paths) - 1]
    for number in range(1, count):
        wanted = times[-1] - number * minutes
        earlier = range(chosen[-1])
        nearest = min(earlier, key=lambda i: abs(times[i] - wanted), default=None)
        if nearest is None or abs(times[nearest] - wanted) > minutes / 2:
            raise UserError(
                f"no checkpoint was saved about {number * minutes:g} minutes before {paths[-1]}, "
                "by the times of the files: lower --num_last_checkpoints or "
                "--minutes_between_checkpoints, or train with --save_checkpoints_secs="
                f"{60 * minutes:.0f}"
            )
        chosen.append(nearest)
    return [paths[i] for i in reversed(chosen)]


def is_of_training(checkpoint: str) -> bool:
    """Whether a checkpoint has more than weights; False if it is unreadable or missing."""
    return bool(
        checkpoint_files.variable_names(checkpoint)
    ) and not checkpoint_files.is_inference_only(checkpoint)


def made_of(average_path: str) -> dict[str, Any] | None:
    """Returns what an average was made of; None if it has no record of it, or is unreadable.

    Returns:
        `n`, the number of checkpoints, and `checkpoints`, for each its name and the SHA-256 of its
        index file, which has a checksum of every value.
    """
    with files.plain_prefix(average_path) as plain:
        try:
            reader = tf.train.load_checkpoint(plain)
            if not reader.has_tensor(_MADE_OF_KEY):
                return None
            return json.loads(reader.get_tensor(_MADE_OF_KEY))
        # TensorFlow raises IndexError where a file of values is too short.
        except (tf.errors.OpError, ValueError, IndexError):
            return None


def recipe_of(checkpoints: Sequence[str], read: Fingerprint | None = None) -> dict[str, Any]:
    """Returns what `made_of` returns for the average of these checkpoints.

    Args:
        checkpoints: their prefixes.
        read: of their index files; None: they are read here.
    """
    indexes = [path + CHECKPOINT_INDEX for path in checkpoints]
    read = read or Fingerprint(indexes)
    names = map(os.path.basename, checkpoints)
    digests = [[name, read.digest(index)] for name, index in zip(names, indexes, strict=True)]
    return {"n": len(checkpoints), "checkpoints": digests}


def has_other_sources(average_path: str, folder: pathlib.Path) -> bool:
    """Whether a checkpoint in `folder` differs from the one of its name in an average's recipe."""
    recipe = made_of(average_path)
    return recipe is not None and any(
        files.digest(path + CHECKPOINT_INDEX) != digest
        for path, digest in sources_in(recipe, folder)
    )


def sources_in(recipe: Mapping[str, Any], folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yields the prefixes of a recipe's checkpoints that are in `folder`, and their digests."""
    for name, digest in recipe["checkpoints"]:
        if is_whole(str(folder / name)):
            yield str(folder / name), digest


def average(run: run_folder.RunFolder, checkpoints: Sequence[str], output_path: str = "") -> str:
    """Writes a checkpoint of averaged weights, for decoding.

    It is not in the run folder's list of checkpoints, so that training cannot resume from it.

    Args:
        run: the run of the checkpoints.
        checkpoints: their prefixes.
        output_path: prefix of the average; empty: `averaged.ckpt-STEP` in the run folder, with the
            last step of the `checkpoints`.

    Returns:
        The prefix of the average.
    """
    _refuse_unlike(run, checkpoints)
    if output_path:  # before the work, not after it
        _refuse_taken(output_path, run, checkpoints)
    mean = Mean(run)
    step = mean.take(checkpoints)
    if not output_path:
        output_path = str(run.folder / f"averaged.ckpt-{step}")
        _refuse_taken(output_path, run, checkpoints)
    old = made_of(output_path)
    if old and old != recipe_of(checkpoints):
        log.warning("%s was the average of %s and is replaced", output_path, names_in(old))
    with writing(pathlib.Path(output_path).parent, os.path.basename(output_path)):
        mean.write(output_path)
    return output_path


def _refuse_unlike(run: run_folder.RunFolder, checkpoints: Sequence[str]) -> None:
    """Refuses one checkpoint under two names, and those of runs with another model or vocabulary.

    Runs may have the same variables, and compute other outputs with them, of which a warning tells.

    Raises:
        UserError: there is such a checkpoint, or one is missing.
    """
    first: dict[str, str] = {}
    for path, (_, digest) in zip(checkpoints, recipe_of(checkpoints)["checkpoints"], strict=True):
        if digest in first:
            raise UserError(f"{first[digest]} and {path} are the same checkpoint: name it once")
        first[digest] = path
    for folder in dict.fromkeys(pathlib.Path(path).parent for path in checkpoints):
        if not run_folder.is_run(folder) or folder.samefile(run.folder):
            continue
        other = run_folder.RunFolder.open(str(folder))
        for what, one, another in (
            ("model", run.model_name, other.model_name),
            ("vocabulary", _vocabulary(run), _vocabulary(other)),
        ):
            if one != another:
                raise UserError(
                    f"{folder} has a different {what} from {run.folder}: average only checkpoints "
                    "of runs that differ in nothing but their training"
                )
        for name, (own, theirs) in run.hparams.computed_otherwise(other.hparams).items():
            log.warning(
                "%s was trained with %s=%s, but the average has %s, as %s: average only models "
                "that compute the same",
                *(folder, name, theirs, own, run.folder),
            )


def _vocabulary(run: run_folder.RunFolder) -> list[bytes]:
    return [path.read_bytes() for path in run.vocabulary()]


def names_in(recipe: Mapping[str, Any]) -> str:
    """Returns the names of a recipe's checkpoints, for messages."""
    return ", ".join(name for name, _ in recipe["checkpoints"])


@contextlib.contextmanager
def writing(folder: pathlib.Path, name: str) -> Iterator[None]:
    """Creates a folder, and prevents others from writing `name` there during the block.

    Raises:
        UserError: the file system refuses it.
    """
    try:
        lock = folder / f".{name}.lock"
        with (
            files.made_folder(folder),
            locked(lock, "averaging command", f"is writing {folder / name}"),
        ):
            yield
    except (tf.errors.OpError, OSError) as error:
        raise UserError(f"cannot write {folder / name}: {first_line(error)}") from error


class Mean:
    """A model with averaged weights that writes itself as a checkpoint."""

    def __init__(self, run: run_folder.RunFolder) -> None:
        self._run = run
        self._model = run.build_model()
        self._step = tf.Variable(0, dtype=tf.int64)
        with tf.device("CPU:0"):  # other devices cannot hold strings
            self._made_of = tf.Variable("")
        self._checkpoint = tf.train.Checkpoint(
            model=self._model,
            step=self._step,
            **{checkpoint_files.INFERENCE_ONLY: tf.Variable(True), _MADE_OF: self._made_of},
        )

    def take(self, checkpoints: Sequence[str]) -> int:
        """Sets the weights to the average over `checkpoints`; returns the last step.

        Raises:
            UserError: one cannot be read, or was replaced meanwhile.
        """
        read = Fingerprint(path + CHECKPOINT_INDEX for path in checkpoints)
        # Frozen ones, too: those of several runs may differ.
        variables = [v for v in self._model.variables if v.dtype.startswith(("float", "bfloat"))]
        sums = [np.zeros(variable.shape, np.float64) for variable in variables]
        steps = []
        for path in checkpoints:
            steps.append(self._run.restore_weights(self._model, path))
            read.require_unchanged(path + CHECKPOINT_INDEX)  # now: training deletes old ones
            require_finite_weights(self._model, path)
            log.info("read %s (step %d)", path, steps[-1])
            for total, variable in zip(sums, variables, strict=True):
                total += variable.numpy()
        for total, variable in zip(sums, variables, strict=True):
            variable.assign(total / len(checkpoints))
        self._step.assign(max(steps))
        self._made_of.assign(json.dumps(recipe_of(checkpoints, read)))
        return max(steps)

    def write(self, path: str) -> None:
        """Writes the current average, whole or not at all."""
        with whole_checkpoint(path) as prefix:
            self._checkpoint.write(prefix)


def _refuse_taken(output_path: str, run: run_folder.RunFolder, checkpoints: Sequence[str]) -> None:
    """Raises UserError if an average would replace a checkpoint of the run, or a source of it."""
    ending = CHECKPOINT_INDEX
    own = [path + ending for path in (*checkpoints, *whole_checkpoints(run.folder))]
    best = map(str, run.folder.glob(f"{BEST_NAME}-*{ending}"))
    is_taken = any(files.is_same(output_path + ending, path) for path in (*own, *best))
    if is_taken or is_of_training(output_path):
        raise UserError(f"{output_path} is a checkpoint of the run: choose another --output_path")
