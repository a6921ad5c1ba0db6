"""Keras's private interface that this package uses: present in Keras 3.15.

setup.cfg pins this range; check these names before raising it.
"""

from typing import Any

import keras
import tensorflow as tf


def adam_moments(optimizer: keras.optimizers.Adam, variable: tf.Variable) -> tuple[Any, Any]:
    """Returns the handles of Adam's first and second moments of a weight, on this device."""
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value.handle, optimizer._velocities[index].value.handle
