"""The checkpoint of an imported run."""

import pathlib

import keras
import tensorflow as tf

from t2t_lite.runs import checkpoint_files


def save(model: keras.Model, step: int, folder: pathlib.Path) -> None:
    """Writes a model's weights as a checkpoint that training cannot resume from."""
    checkpoint = tf.train.Checkpoint(
        model=model,
        step=tf.Variable(step, dtype=tf.int64),
        **{checkpoint_files.INFERENCE_ONLY: tf.Variable(True)},
    )
    manager = tf.train.CheckpointManager(
        checkpoint, str(folder), None, checkpoint_name=checkpoint_files.CHECKPOINT_NAME
    )
    manager.save(step)
