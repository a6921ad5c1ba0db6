"""Sizes of tensors and of their parts, for layers, which know Keras alone.

For what TensorFlow does not know while it traces, Keras lets it compute each size by operations of
its own: a third of all in the trace of a Transformer. Here are fewer, and the results the same.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops


def shape_of(x: keras.KerasTensor) -> tuple[Any, ...]:
    """Returns the sizes of `x` as `keras.ops.shape` does, but all unknown ones by one operation."""
    if not _is_tensorflows(x) or None not in x.shape:
        return tuple(ops.shape(x))
    import tensorflow as tf

    pairs = zip(x.shape, tf.unstack(tf.shape(x)), strict=True)
    return tuple(computed if known is None else known for known, computed in pairs)


def split(x: keras.KerasTensor, sizes: Sequence[int]) -> list[keras.KerasTensor]:
    """Splits `x` [..., F] into parts of `sizes` features, as `keras.ops.split` does at borders."""
    if _is_tensorflows(x):
        import tensorflow as tf

        return tf.split(x, sizes, axis=-1)
    return ops.split(x, list(itertools.accumulate(sizes[:-1])), axis=-1)


def _is_tensorflows(x: keras.KerasTensor) -> bool:
    """Whether TensorFlow's own operations take `x`, which in a functional model they do not."""
    return keras.backend.backend() == "tensorflow" and not keras.backend.is_keras_tensor(x)
