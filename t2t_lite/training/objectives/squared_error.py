"""Regression: the mean squared error of the numbers of a text, as in T2T."""

import tensorflow as tf

from t2t_lite.data.number_ids import numbers_of_ids
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.models.transformer_regressor import numbers_in
from t2t_lite.training.features import Features
from t2t_lite.training.objectives.objective import Loss, Objective


class SquaredError(Objective):
    """The numbers of each text should be those of its target."""

    def read(self, model: Seq2Seq, part: Features) -> Features:
        """Returns the part itself."""
        return part

    def summed_loss(
        self, model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
    ) -> Loss:
        """Returns the squared errors."""
        return Loss(scale * tf.reduce_sum(squared_errors(hidden, targets)), [])


def squared_errors(hidden: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each id: the mean squared error of its text's numbers.

    So the mean over ids, EOS included, is that over numbers.

    Args:
        hidden: [B, T, V], of a model of numbers.
        targets: [B, T], ids of numbers, and EOS; 0 is padding.

    Returns:
        [B, T], float32; 0 at padding.
    """
    numbers = numbers_in(hidden)  # [B, N]
    wanted = numbers_of_ids(targets[:, : tf.shape(numbers)[1]])
    # Not after squaring: padding is NaN, whose slopes would be, too.
    errors = tf.where(tf.math.is_nan(wanted), 0.0, numbers - wanted)
    means = tf.reduce_mean(tf.square(errors), axis=1, keepdims=True)  # [B, 1]
    return tf.where(tf.not_equal(targets, 0), means, 0.0)
