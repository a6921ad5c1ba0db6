"""Distributions over the vocabulary, for losses that XLA compiles.

XLA makes one loop of operations by element, but is slow to sum rows that it computes in the same
loop. The forms here have few arrays and few sums, which serve several losses; automatic
differentiation gives their gradients. Without XLA, others are faster
(`losses.smoothed_cross_entropy`).
"""

import dataclasses
from collections.abc import Callable
from typing import Self

import tensorflow as tf

from t2t_lite.layers.dense import EXCLUDED, OutputProjection
from t2t_lite.training.losses import smoothed_among_possible, smoothed_labels


@dataclasses.dataclass(frozen=True)
class TokenDistributions:
    """The distribution p over the vocabulary of each of C tokens.

    Attributes:
        projection: the layer that made the logits.
        logits: [C, V], float32, or [C, V - 1] without padding. The largest of a token is 0.
        exps: as many, of the logits.
        sums: [C], of `exps`.
    """

    projection: OutputProjection
    logits: tf.Tensor
    exps: tf.Tensor
    sums: tf.Tensor

    @classmethod
    def of(cls, projection: OutputProjection, logits: tf.Tensor) -> Self:
        """Returns the distributions with `logits` [C, V], which `projection` made."""
        logits = tf.cast(logits, tf.float32)
        if not projection.has_padding:
            logits = logits[:, 1:]  # the logit of padding is EXCLUDED
        shifted = logits - tf.stop_gradient(tf.reduce_max(logits, axis=1, keepdims=True))
        if projection.excludes:
            shifted = tf.where(logits > EXCLUDED, shifted, EXCLUDED)
        exps = tf.exp(shifted)
        return cls(projection, shifted, exps, _row_sums(exps))

    @property
    def log_sums(self) -> tf.Tensor:
        """The difference of `logits` and log p, [C]."""
        return tf.math.log(self.sums)

    def mean(self, values: tf.Tensor) -> tf.Tensor:
        """Returns Σ p `values` [C], of `values` [C, V]."""
        return _row_sums(self.exps * values) / self.sums

    def cross_entropy(self, targets: tf.Tensor, label_smoothing: float) -> tf.Tensor:
        """Returns the losses [C] of `targets` [C], as `losses.cross_entropy_of` defines them."""
        if self.projection.excludes:
            return smoothed_among_possible(self.logits, targets, label_smoothing)
        if not self.projection.has_padding:
            targets = tf.maximum(targets - 1, 0)
        high, low, entropy = smoothed_labels(label_smoothing, self.logits.shape[-1])
        mean = (high - low) * _at(self.logits, targets)
        if label_smoothing:
            mean += low * _row_sums(self.logits)
        return self.log_sums - mean - entropy


@tf.custom_gradient
def _row_sums(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Returns the sums [C] of the rows of `x` [C, V], on a CPU as a product with ones.

    On a CPU, XLA would add numbers one after another, or divide rows into windows. On a GPU a
    product might round them to TF32.
    """
    if tf.config.list_logical_devices("GPU"):
        sums = tf.reduce_sum(x, axis=1)
    else:
        sums = tf.linalg.matvec(x, tf.ones([x.shape[-1]], x.dtype))
    return sums, lambda upstream: tf.broadcast_to(upstream[:, None], tf.shape(x))


@tf.custom_gradient
def _at(
    x: tf.Tensor, ids: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, None]]]:
    """Returns the value [C] of `x` [C, V] at an id [C] of each row.

    The gradient is a choice by element, part of a loop, and not a scatter into an array of its own.
    """
    rows = tf.range(tf.shape(ids)[0], dtype=ids.dtype)

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, None]:
        chosen = tf.range(x.shape[-1], dtype=ids.dtype) == ids[:, None]
        return tf.where(chosen, upstream[:, None], 0.0), None

    return tf.gather_nd(x, tf.stack([rows, ids], axis=1)), backward
