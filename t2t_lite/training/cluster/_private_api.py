"""TensorFlow's private interface that this package calls: present in TensorFlow 2.19 to 2.21.

setup.cfg pins this range; check the call before raising it.
"""

import tensorflow as tf
from tensorflow.python.eager import context


def abort_collectives(message: str) -> None:
    """Ends every collective operation of this process with `tf.errors.UnavailableError`."""
    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, message)
