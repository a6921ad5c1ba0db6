"""The sums that training computes between two log lines."""

from typing import NamedTuple

import tensorflow as tf


class Totals(NamedTuple):
    """Sums over the tokens of some batches; all float64 scalars."""

    loss: tf.Tensor  # nats, smoothed as in training
    tokens: tf.Tensor  # target tokens, padding not counted
    source_tokens: tf.Tensor  # source tokens, padding not counted
    cells: tf.Tensor  # ids of sources and targets, padding counted
    sentences: tf.Tensor
    gradient_norm: tf.Tensor  # global norm before clipping, summed over steps
    steps: tf.Tensor
    skipped: tf.Tensor  # steps whose gradient was not finite
    flops: tf.Tensor  # operations of forward and backward pass; 0 if the model does not tell
