"""Checkpoints of a whole run: weights, optimizer, position in the data, counters."""

import pathlib

import keras
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.run_folder import CHECKPOINT_NAME
from t2t_lite.training.train_step import TrainStep


class Checkpoints:
    """Saves and restores everything that the next step depends on.

    Dropout needs nothing here: its masks are a function of seed, step and part of the batch.

    Args:
        folder: the run folder.
        model: with all its variables.
        optimizer: with all its variables.
        batches: iterator of the training data; its position is saved.
        train_step: has the sums since the last log line.
        keep: how many checkpoints stay.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        model: Seq2Seq,
        optimizer: keras.optimizers.Optimizer,
        batches: tf.data.Iterator,
        train_step: TrainStep,
        keep: int,
    ) -> None:
        self._step = tf.Variable(0, dtype=tf.int64)
        checkpoint = tf.train.Checkpoint(
            model=model,
            optimizer=optimizer,
            batches=batches,
            window=train_step.window,
            step=self._step,
        )
        self._manager = tf.train.CheckpointManager(
            checkpoint, str(folder), max_to_keep=keep, checkpoint_name=CHECKPOINT_NAME
        )

    def restore(self) -> int:
        """Restores the newest checkpoint if there is one; returns its step, else 0.

        Raises:
            UserError: the checkpoint cannot be read, or is another model's.
        """
        path = self._manager.latest_checkpoint
        if path is None:
            return 0
        try:
            self._manager.checkpoint.restore(path).assert_existing_objects_matched()
        except (ValueError, AssertionError, tf.errors.OpError) as error:
            raise UserError(
                f"checkpoint {path} cannot be restored: {str(error).strip().splitlines()[0]}"
            ) from error
        return int(self._step)

    @property
    def newest_step(self) -> int:
        """Updates that the newest checkpoint was saved after; 0 if there is none."""
        return int(self._step)

    def save(self, step: int) -> str:
        """Saves after `step` updates; a kill at any moment leaves the checkpoint before it.

        Returns:
            The checkpoint's path prefix.

        Raises:
            UserError: it could not be written (a full disk, say).
        """
        self._step.assign(step)
        try:
            return self._manager.save(checkpoint_number=step)
        except (tf.errors.OpError, OSError) as error:
            newest = self._manager.latest_checkpoint
            kept = f"the last good one is {newest}" if newest else "there is none before it"
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"checkpoint of step {step} not saved ({kept}): {reason}") from error
