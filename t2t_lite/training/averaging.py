"""The mean of several checkpoints' weights, which often translates better than any one of them."""

import logging
import os
import pathlib
import tempfile
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite import files, run_folder
from t2t_lite.errors import UserError

log = logging.getLogger(__name__)

# A checkpoint's files: the values, and the names that make them a checkpoint.
_DATA, _INDEX = ".data-00000-of-00001", ".index"


def newest_checkpoints(folder: pathlib.Path, count: int) -> list[str]:
    """Returns the prefixes of the `count` newest checkpoints of a run folder, oldest first.

    Raises:
        UserError: there are fewer.
    """
    paths = [path for path in _listed(folder) if pathlib.Path(path + _INDEX).is_file()]
    if len(paths) < count:
        raise UserError(
            f"{folder} holds {len(paths)} checkpoints, fewer than {count}: lower "
            "--num_last_checkpoints, or train with a larger --keep_checkpoint_max"
        )
    return paths[-count:]


def _listed(folder: pathlib.Path) -> list[str]:
    """Returns the prefixes of the checkpoints that training may go on from."""
    state = tf.train.get_checkpoint_state(str(folder))
    return list(state.all_model_checkpoint_paths) if state else []


def average(run: run_folder.Run, checkpoints: Sequence[str], output_path: str = "") -> str:
    """Writes a checkpoint of averaged weights, for decoding.

    It has no optimizer and no place in the data, and the run folder's list of checkpoints does
    not name it, so that training can never go on from it by accident.

    Args:
        run: the run that the checkpoints are of.
        checkpoints: their prefixes.
        output_path: prefix of the new one; empty: `averaged.ckpt-STEP` in the run folder, by the
            last of the `checkpoints`.

    Returns:
        The new prefix.

    Raises:
        UserError: a checkpoint is missing or does not fit the run; `output_path` is one of the
            run's own checkpoints; the new one cannot be written.
    """
    own = {os.path.abspath(path) for path in (*checkpoints, *_listed(run.folder))}
    if output_path and os.path.abspath(output_path) in own:
        raise UserError(f"{output_path} is a checkpoint of the run: name another --output_path")
    model = run.build_model()
    sums = [np.zeros(variable.shape, np.float64) for variable in model.trainable_variables]
    for path in checkpoints:
        step = run.restore_weights(model, path)
        log.info("read %s, of step %d", path, step)
        for total, variable in zip(sums, model.trainable_variables, strict=True):
            total += variable.numpy()
    for total, variable in zip(sums, model.trainable_variables, strict=True):
        variable.assign(total / len(checkpoints))
    output_path = output_path or str(run.folder / f"averaged.ckpt-{step}")
    saved = tf.train.Checkpoint(model=model, step=tf.Variable(step, dtype=tf.int64))
    try:
        _write_whole(saved, output_path)
    except (tf.errors.OpError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise UserError(f"cannot write {output_path}: {reason}") from error
    return output_path


def _write_whole(checkpoint: tf.train.Checkpoint, path: str) -> None:
    """Writes a checkpoint; a kill at any moment leaves the old one, none, or the new one."""
    folder = pathlib.Path(path).parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, suffix=files.INCOMPLETE) as temporary:
        written = checkpoint.write(os.path.join(temporary, "checkpoint"))
        pathlib.Path(path + _INDEX).unlink(missing_ok=True)  # old names, new values: neither
        os.replace(written + _DATA, path + _DATA)
        os.replace(written + _INDEX, path + _INDEX)
