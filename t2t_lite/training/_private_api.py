"""Keras's private interface that this package uses: the same from 3.10 to 3.15, and checked."""

from typing import Any

import keras
import tensorflow as tf

_NAMES = ("_get_variable_index", "_momentums", "_velocities")


def adam_moments(optimizer: keras.optimizers.Adam, variable: tf.Variable) -> tuple[Any, Any] | None:
    """Returns the handles of Adam's first and second moments of a weight, on this device.

    None if this release of Keras keeps them under other names.
    """
    if not all(hasattr(optimizer, name) for name in _NAMES):
        return None
    index = optimizer._get_variable_index(variable)
    return optimizer._momentums[index].value.handle, optimizer._velocities[index].value.handle
