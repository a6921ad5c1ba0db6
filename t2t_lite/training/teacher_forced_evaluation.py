"""Teacher-forced evaluation: loss and accuracy given reference prefixes."""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.metrics.base import TeacherForcedTotals
from t2t_lite.metrics.by_name import teacher_forced_values
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.losses import smoothed_cross_entropy
from t2t_lite.training.train_step import Features, features_spec


class _Sums(NamedTuple):
    """`TeacherForcedTotals` as tensors."""

    loss: tf.Tensor
    tokens: tf.Tensor
    right: tf.Tensor
    sentences: tf.Tensor
    all_right: tf.Tensor


class Evaluation:
    """Computes teacher-forced metrics of a model on all devices.

    Args:
        strategy: distributes the evaluation over replicas.
        model: created in the strategy's scope.
    """

    def __init__(self, strategy: tf.distribute.Strategy, model: Seq2Seq) -> None:
        self.strategy = strategy
        self.model = model
        spec = features_spec(strategy.num_replicas_in_sync)
        self._compiled = tf.function(self._sums, input_signature=(spec,))

    def __call__(self, batches: Iterable[Features]) -> dict[str, float | int | str]:
        """Returns the registered scores of batches [R, B, L]."""
        sums = [0.0] * len(_Sums._fields)
        for batch in batches:
            more = self._compiled(batch)
            sums = [total + float(value) for total, value in zip(sums, more, strict=True)]
        totals = TeacherForcedTotals(*sums)
        return {**teacher_forced_values(totals), "target_tokens": int(totals.tokens)}

    def _sums(self, features: Features) -> _Sums:
        per_replica = self.strategy.run(self._replica_sums, (features,))
        return sum_replicas(self.strategy, per_replica)

    def _replica_sums(self, features: Features) -> _Sums:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        batch = {name: ids[replica] for name, ids in features.items()}
        targets = batch["targets"]  # [B, T]
        present = tf.not_equal(targets, 0)
        logits = tf.cast(self.model(batch, training=False), tf.float32)  # [B, T, V]
        flat = tf.reshape(logits, [-1, logits.shape[-1]])
        losses = smoothed_cross_entropy(flat, tf.reshape(targets, [-1]), 0.0)  # [B·T]
        right = tf.equal(tf.argmax(logits, axis=-1, output_type=targets.dtype), targets)
        sentence = tf.reduce_any(present, axis=1)  # the last batch is filled up with padding
        all_right = tf.reduce_all(right | ~present, axis=1) & sentence
        return _Sums(
            *(
                tf.reduce_sum(tf.cast(value, tf.float64))
                for value in (
                    tf.boolean_mask(losses, tf.reshape(present, [-1])),
                    present,
                    right & present,
                    sentence,
                    all_right,
                )
            )
        )
