"""The ids of numbers (`text/number_encoder.py`) as TensorFlow operations."""

import tensorflow as tf

from t2t_lite.text.number_encoder import NAN_BITS


def ids_of_numbers(numbers: tf.Tensor | tf.RaggedTensor) -> tf.Tensor | tf.RaggedTensor:
    """Returns the ids, int64, of numbers, float32, of any shape."""
    if isinstance(numbers, tf.RaggedTensor):
        return numbers.with_flat_values(ids_of_numbers(numbers.flat_values))
    return tf.cast(tf.bitwise.bitwise_xor(tf.bitcast(numbers, tf.int32), NAN_BITS), tf.int64)


def numbers_of_ids(ids: tf.Tensor) -> tf.Tensor:
    """Returns the numbers, float32, of ids of any shape; NaN for padding and EOS."""
    return tf.bitcast(tf.bitwise.bitwise_xor(tf.cast(ids, tf.int32), NAN_BITS), tf.float32)
