"""The mean of several checkpoints' weights, which often translates better than any one of them.

It has no optimizer and no place in the data: it is marked as being for inference only.
"""

import logging
import os
import pathlib
import shutil
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite import files, run_folder
from t2t_lite.errors import UserError, first_line
from t2t_lite.training.checkpoints import whole_checkpoint

log = logging.getLogger(__name__)


def newest_checkpoints(folder: pathlib.Path, count: int, minutes: float = 0.0) -> list[str]:
    """Returns the prefixes of the `count` newest checkpoints of a run folder, oldest first.

    Args:
        folder: the run folder.
        count: how many.
        minutes: from one to the next, by the times of their files (paper: 10); those nearest to
            these times are taken. 0: whatever lies between them.

    Raises:
        UserError: there are fewer.
    """
    paths = _whole(folder)
    if len(paths) < count:
        raise UserError(
            f"{folder} holds {len(paths)} checkpoints, fewer than {count}: lower "
            "--num_last_checkpoints, or train with a larger --keep_checkpoint_max"
        )
    return _spaced(paths, count, minutes) if minutes else paths[-count:]


def _spaced(paths: Sequence[str], count: int, minutes: float) -> list[str]:
    """Returns `count` of `paths`, which are in the order of training, `minutes` apart.

    Every one is of an earlier step than the next, even if the clock was set back between them.
    """
    times = [os.path.getmtime(path + run_folder.CHECKPOINT_INDEX) / 60 for path in paths]
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


def _whole(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of a run's checkpoints but those without an index, oldest first."""
    return [path for path in run_folder.checkpoints(folder) if run_folder.is_whole(path)]


def refuse_average(folder: pathlib.Path) -> None:
    """Makes sure that training would not go on from averaged or imported weights.

    Raises:
        UserError: the newest checkpoint of the folder has them.
    """
    path = next(reversed(run_folder.checkpoints(folder)), "")
    if path and is_inference_only(path):
        raise UserError(
            f"checkpoint {path} is an average or imported, for inference only: it has no optimizer "
            "to go on with. Put the run's own checkpoint back, or begin another run with "
            "--warm_start_from and another --output_dir"
        )


def is_inference_only(checkpoint: str) -> bool:
    """Whether a checkpoint has weights alone: a mean of others, say; False if it is unreadable."""
    try:
        names = [name for name, _ in tf.train.list_variables(checkpoint)]
    except (tf.errors.OpError, ValueError):
        return False
    return any(name.startswith(run_folder.INFERENCE_ONLY) for name in names)


def average(run: run_folder.Run, checkpoints: Sequence[str], output_path: str = "") -> str:
    """Writes a checkpoint of averaged weights, for decoding.

    The run folder's list of checkpoints does not name it, so that training can never go on from it
    by accident.

    Args:
        run: the run that the checkpoints are of.
        checkpoints: their prefixes.
        output_path: prefix of the new one; empty: `averaged.ckpt-STEP` in the run folder, by the
            last step of the `checkpoints`.

    Returns:
        The new prefix.

    Raises:
        UserError: a checkpoint is missing or does not fit the run; `output_path` is one of the
            run's own checkpoints; the new one cannot be written.
    """
    own = {os.path.abspath(path) for path in (*checkpoints, *_whole(run.folder))}
    if output_path and os.path.abspath(output_path) in own:
        raise UserError(f"{output_path} is a checkpoint of the run: name another --output_path")
    mean = _Mean(run)
    step = mean.take(checkpoints)
    output_path = output_path or str(run.folder / f"averaged.ckpt-{step}")
    try:
        with whole_checkpoint(output_path) as prefix:
            mean.checkpoint.write(prefix)
    except (tf.errors.OpError, OSError) as error:
        raise _not_written(output_path, error) from error
    return output_path


def average_all(run: run_folder.Run, output_dir: str, count: int, min_steps: int) -> list[str]:
    """Writes, for every checkpoint of a run, the mean of it and of the `count - 1` before it.

    Args:
        run: the run.
        output_dir: the folder to write to: a run folder for decoding, with checkpoints of the
            names of those that each mean ends with. Those that are there are not made again.
        count: checkpoints in a mean.
        min_steps: earlier checkpoints are passed over.

    Returns:
        The new prefixes.

    Raises:
        UserError: there are not enough checkpoints, or one does not fit the run; `output_dir`
            holds a run that can be trained; a mean cannot be written.
    """
    if not all(map(is_inference_only, run_folder.checkpoints(pathlib.Path(output_dir)))):
        raise UserError(f"{output_dir} holds checkpoints of a run: name another --output_dir")
    paths = [path for path in _whole(run.folder) if run_folder.step_of(path) >= min_steps]
    if len(paths) < count:
        raise UserError(
            f"{run.folder} holds {len(paths)} checkpoints from step {min_steps} on, fewer than "
            f"{count}: lower --n, or train with a larger --keep_checkpoint_max"
        )
    mean = _Mean(run)
    try:
        _copy_run(run, pathlib.Path(output_dir))
        manager = tf.train.CheckpointManager(
            mean.checkpoint, output_dir, None, checkpoint_name=run_folder.CHECKPOINT_NAME
        )
        there = {os.path.basename(path) for path in manager.checkpoints}
        return [
            manager.save(mean.take(paths[end - count : end]))
            for end in range(count, len(paths) + 1)
            if os.path.basename(paths[end - 1]) not in there
        ]
    except (tf.errors.OpError, OSError) as error:
        raise _not_written(output_dir, error) from error


class _Mean:
    """A model whose weights are means, and the checkpoint to write it by."""

    def __init__(self, run: run_folder.Run) -> None:
        self._run = run
        self._model = run.build_model()
        self._step = tf.Variable(0, dtype=tf.int64)
        self.checkpoint = tf.train.Checkpoint(
            model=self._model, step=self._step, **{run_folder.INFERENCE_ONLY: tf.Variable(True)}
        )

    def take(self, checkpoints: Sequence[str]) -> int:
        """Sets the weights to the mean of those of `checkpoints`; returns their last step."""
        variables = self._model.trainable_variables
        sums = [np.zeros(variable.shape, np.float64) for variable in variables]
        steps = []
        for path in checkpoints:
            steps.append(self._run.restore_weights(self._model, path))
            log.info("read %s, of step %d", path, steps[-1])
            for total, variable in zip(sums, variables, strict=True):
                total += variable.numpy()
        for total, variable in zip(sums, variables, strict=True):
            variable.assign(total / len(checkpoints))
        self._step.assign(max(steps))
        return max(steps)


def _copy_run(run: run_folder.Run, folder: pathlib.Path) -> None:
    """Copies what decoding needs beside a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = (run_folder.HPARAMS, run_folder.VERSIONS, run_folder.FLAGS)
    for name in (*run.problem.vocab_files(), *settings):
        with files.whole_file(folder / name) as temporary:
            shutil.copyfile(run.folder / name, temporary)


def _not_written(path: str, error: Exception) -> UserError:
    return UserError(f"cannot write {path}: {first_line(error)}")
