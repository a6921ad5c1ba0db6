"""Averages the weights of several checkpoints, which often translate better than any one of them.

An average has neither optimizer state nor a position in the data: it is marked as for inference
only. It records which checkpoints it was made of, so that it is never taken for another average.
"""

import contextlib
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from t2t_lite import files
from t2t_lite.errors import UserError, first_line
from t2t_lite.kept_work import Fingerprint
from t2t_lite.lock import locked
from t2t_lite.models.finite_weights import require_finite_weights
from t2t_lite.runs import checkpoint_files, followers, metrics_jsonl, run_folder
from t2t_lite.runs.checkpoint_files import (
    CHECKPOINT_INDEX,
    delete_checkpoint,
    is_whole,
    list_checkpoints,
    step_of,
    whole_checkpoint,
    whole_checkpoints,
)
from t2t_lite.runs.opening import refuse_another_run
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


def _is_of_training(checkpoint: str) -> bool:
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


def _recipe(checkpoints: Sequence[str], read: Fingerprint | None = None) -> dict[str, Any]:
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
        files.digest(path + CHECKPOINT_INDEX) != digest for path, digest in _sources(recipe, folder)
    )


def _has_sources(average_path: str, folder: pathlib.Path) -> bool:
    """Whether `folder` has a checkpoint named in an average's recipe."""
    recipe = made_of(average_path)
    return recipe is not None and any(_sources(recipe, folder))


def _sources(recipe: Mapping[str, Any], folder: pathlib.Path) -> Iterator[tuple[str, str]]:
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
    if output_path:  # before the work, not after it
        _refuse_taken(output_path, run, checkpoints)
    mean = _Mean(run)
    step = mean.take(checkpoints)
    if not output_path:
        output_path = str(run.folder / f"averaged.ckpt-{step}")
        _refuse_taken(output_path, run, checkpoints)
    old = made_of(output_path)
    if old and old != _recipe(checkpoints):
        log.warning("%s was the average of %s and is replaced", output_path, _names(old))
    with _writing(pathlib.Path(output_path).parent, os.path.basename(output_path)):
        mean.write(output_path)
    return output_path


def average_all(
    run: run_folder.RunFolder, output_dir: str, count: int, min_steps: int
) -> list[str]:
    """Writes, for every checkpoint of a run, the average of it and the `count - 1` before it.

    Args:
        run: the run.
        output_dir: the folder to write to, a run folder for decoding. Each average is named after
            its last checkpoint. Existing averages of the same checkpoints are kept, those of other
            checkpoints are replaced or deleted.
        count: number of checkpoints per average.
        min_steps: earlier checkpoints are ignored.

    Returns:
        The prefixes of the new averages.
    """
    folder = pathlib.Path(output_dir)
    _refuse_other_folder(run, folder)
    paths = _from_step(run, min_steps)
    if len(paths) < count:
        raise UserError(
            f"{run.folder} holds {len(paths)} checkpoints from step {min_steps} on, fewer than "
            f"{count}: lower --n, or train with a larger --keep_checkpoint_max"
        )
    wanted = {
        str(folder / os.path.basename(paths[end - 1])): paths[end - count : end]
        for end in range(count, len(paths) + 1)
    }
    mean = _Mean(run)
    with _writing(folder, "averages"):
        _copy_run(run, folder)
        _delete_others(run, folder, wanted, count)
        missing = [path for path in wanted if not is_whole(path)]
        for path in missing:
            mean.take(wanted[path])
            mean.write(path)
        list_checkpoints(folder, whole_checkpoints(folder))
    return missing


def average_arriving(
    run: run_folder.RunFolder, output_dir: str, count: int, min_steps: int, minutes: float
) -> Iterator[str]:
    """Does what `average_all` does, also with the checkpoints that a training has yet to save.

    Args:
        run: the run.
        output_dir: as in `average_all`.
        count: as in `average_all`.
        min_steps: as in `average_all`.
        minutes: how long to wait for the next checkpoint; -1: for ever.

    Yields:
        The prefix of each new average, once it is written.
    """
    folder = pathlib.Path(output_dir)

    def is_done(path: str) -> bool:
        return step_of(path) < min_steps or is_whole(str(folder / os.path.basename(path)))

    name = f"average-{files.text_digest(str(folder.absolute()))}"
    for _ in followers.checkpoints_of(run.folder, name, is_done, minutes, before=count - 1):
        if len(_from_step(run, min_steps)) >= count:
            yield from average_all(run, output_dir, count, min_steps)


def _from_step(run: run_folder.RunFolder, step: int) -> list[str]:
    """Returns the prefixes of the checkpoints of a run from a step on."""
    return [path for path in whole_checkpoints(run.folder) if step_of(path) >= step]


def _refuse_other_folder(run: run_folder.RunFolder, folder: pathlib.Path) -> None:
    """Makes sure that a folder holds averages of this run, or no run."""
    there = checkpoint_files.checkpoints(folder)
    if (
        any(map(_is_of_training, there))
        or (folder / metrics_jsonl.METRICS).is_file()
        or os.path.realpath(folder) == os.path.realpath(run.folder)
    ):
        raise UserError(f"{folder} holds checkpoints of a run: choose another --output_dir")
    if there and run_folder.is_run(folder):
        old = run_folder.RunFolder.open(str(folder))
        refuse_another_run(old, run.flags, run.hparams)
        run.refuse_other_vocabulary(str(folder))


def _delete_others(
    run: run_folder.RunFolder, folder: pathlib.Path, wanted: Mapping[str, Sequence[str]], count: int
) -> None:
    """Deletes the averages of other checkpoints in a folder, with a warning.

    Args:
        run: the run that the averages should be of.
        folder: the folder of the averages.
        wanted: the checkpoints of each desired average, by its prefix.
        count: number of checkpoints per average.
    """
    there = checkpoint_files.checkpoints(folder)
    is_of_several_runs = any(has_other_sources(path, run.folder) for path in there)
    unknown = 0
    for path in there:
        fault = _fault(path, run, wanted.get(path), count)
        is_known = path in wanted or _has_sources(path, run.folder)
        if is_of_several_runs and not is_known:
            fault = fault or "was made of checkpoints that are not here"
        if fault:
            action = "replaced" if path in wanted else "deleted"
            log.warning("%s %s: it is %s", path, fault, action)
            delete_checkpoint(path)
        elif not is_known:
            unknown += 1
    if unknown:
        log.info("kept %d averages of checkpoints that are no longer in %s", unknown, run.folder)


def _fault(path: str, run: run_folder.RunFolder, wanted: Sequence[str] | None, count: int) -> str:
    """Returns why an average is not the desired one; "" if it is, or if that is unknown.

    Args:
        path: its prefix.
        run: the run that it should be of.
        wanted: the checkpoints that it should be of; None: any of the run.
        count: the number of checkpoints that it should be of.
    """
    if reason := checkpoint_files.damage(path):
        return f"cannot be read ({reason})"
    recipe = made_of(path)
    if recipe is None:
        return "has no record of what it was made of" if wanted else ""
    if wanted:
        matches = recipe == _recipe(wanted)
    else:
        matches = recipe["n"] == count and not has_other_sources(path, run.folder)
    return "" if matches else f"was made of other checkpoints ({_names(recipe)})"


def _names(recipe: Mapping[str, Any]) -> str:
    return ", ".join(name for name, _ in recipe["checkpoints"])


@contextlib.contextmanager
def _writing(folder: pathlib.Path, name: str) -> Iterator[None]:
    """Creates a folder, and prevents others from writing `name` there during the block."""
    try:
        lock = folder / f".{name}.lock"
        with (
            files.made_folder(folder),
            locked(lock, "averaging command", f"is writing {folder / name}"),
        ):
            yield
    except (tf.errors.OpError, OSError) as error:
        raise UserError(f"cannot write {folder / name}: {first_line(error)}") from error


class _Mean:
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
        variables = self._model.trainable_variables
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
        self._made_of.assign(json.dumps(_recipe(checkpoints, read)))
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
    if is_taken or _is_of_training(output_path):
        raise UserError(f"{output_path} is a checkpoint of the run: choose another --output_path")


def _copy_run(run: run_folder.RunFolder, folder: pathlib.Path) -> None:
    """Copies the files that decoding needs beside a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = (run_folder.HPARAMS, run_folder.VERSIONS, run_folder.FLAGS)
    for name in (*run.problem.vocab_files(), *settings):
        with files.whole_file(folder / name) as temporary:
            shutil.copyfile(run.folder / name, temporary)
