"""The mean of several checkpoints' weights, which often translates better than any one of them."""

import logging
import pathlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from t2t_lite import run_folder
from t2t_lite.errors import UserError

log = logging.getLogger(__name__)


def newest_checkpoints(folder: pathlib.Path, count: int) -> list[str]:
    """Returns the prefixes of the `count` newest checkpoints of a run folder, oldest first.

    Raises:
        UserError: there are fewer.
    """
    state = tf.train.get_checkpoint_state(str(folder))
    paths = list(state.all_model_checkpoint_paths) if state else []
    if len(paths) < count:
        raise UserError(
            f"{folder} holds {len(paths)} checkpoints, fewer than {count}: lower "
            "--num_last_checkpoints, or train with a larger --keep_checkpoint_max"
        )
    return paths[-count:]


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
        UserError: a checkpoint is missing or does not fit the run.
    """
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
    pathlib.Path(output_path).parent.mkdir(parents=True, exist_ok=True)
    saved = tf.train.Checkpoint(model=model, step=tf.Variable(step, dtype=tf.int64))
    return saved.write(output_path)
