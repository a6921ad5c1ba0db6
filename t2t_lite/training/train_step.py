"""One update of the weights, the same on any number of replicas.

Every replica adds up the gradients of the *sum* of its token losses; the sums and the token
counts are added over replicas, and only then divided. Hence N replicas ≡ 1 replica ≡ N
micro-batches, to rounding. (A mean of replica means would weigh tokens of short batches more:
what T2T's `multistep_adam` does with its micro-batches, and this step does for that optimizer.)
"""

from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.losses import smoothed_cross_entropy

Features = dict[str, tf.Tensor]


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


class _Sums(NamedTuple):
    """What micro-batches add up to."""

    gradients: list[tf.Tensor]  # of the weighed losses
    weight: tf.Tensor  # what to divide the gradients by
    loss: tf.Tensor  # of all target tokens
    tokens: tf.Tensor  # target tokens


class TrainStep:
    """Computes and applies one update.

    Args:
        strategy: where the replicas are.
        model: made under the strategy's scope.
        optimizer: likewise.
        parts: W = replicas × accumulation steps, the parts of every batch.
        seed: of the dropout masks.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2Seq,
        optimizer: keras.optimizers.Optimizer,
        parts: int,
        seed: int,
    ) -> None:
        self.strategy = strategy
        self.model = model
        self.optimizer = optimizer
        self.parts = parts
        self.accumulate = parts // strategy.num_replicas_in_sync
        self.seed = seed
        self.hparams = model.hparams
        self.parts_weigh_equally = self.hparams.optimizer == "multistep_adam"
        self.variables = model.trainable_variables
        # What has happened since the last log line; in the checkpoint, so that a resumed run
        # writes the very lines of an undisturbed one.
        self.window = tf.Variable(tf.zeros(len(Totals._fields), tf.float64), name="window")
        self._compiled: Callable[..., None] = tf.function(self._step, reduce_retracing=True)

    def __call__(self, features: Features, step: int, learn: bool = True) -> None:
        """Takes one step and adds what it did to `window`.

        Args:
            features: `inputs` [W, B, S] and `targets` [W, B, T]; each replica takes its W / R
                parts one after the other.
            step: number of steps taken before; selects the dropout masks.
            learn: False computes everything and changes nothing.
        """
        self._compiled(features, tf.constant(step, tf.int64), tf.constant(learn))

    def totals(self) -> Totals:
        """Returns the window's sums as floats, and starts another window."""
        sums = Totals(*map(float, self.window.numpy()))
        self.window.assign(tf.zeros_like(self.window))
        return sums

    def _step(self, features: Features, step: tf.Tensor, learn: tf.Tensor) -> None:
        per_replica = self.strategy.run(self._replica_sums, (features, step))
        gradients, weight, loss, tokens = self.strategy.reduce("SUM", per_replica, axis=None)
        gradients = [gradient / tf.maximum(weight, 1.0) for gradient in gradients]
        norm = tf.linalg.global_norm(gradients)
        finite = tf.math.is_finite(norm)
        if self.hparams.clip_grad_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self.hparams.clip_grad_norm, norm)
        if finite and learn:
            self.optimizer.apply(gradients, self.variables)
        if learn:
            self.window.assign_add(self._totals(features, loss, tokens, norm, finite))

    def _replica_sums(self, features: Features, step: tf.Tensor) -> _Sums:
        """Adds up one replica's micro-batches."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        first = replica * self.accumulate
        sums = self._micro_batch(features, step, first)
        for part in tf.range(first + 1, first + self.accumulate):
            sums = tf.nest.map_structure(tf.add, sums, self._micro_batch(features, step, part))
        return sums

    def _micro_batch(self, features: Features, step: tf.Tensor, part: tf.Tensor) -> _Sums:
        """Computes part `part` of the batch."""
        batch = {name: ids[part] for name, ids in features.items()}  # [B, S], [B, T]
        self._seed_dropout(step * self.parts + tf.cast(part, tf.int64))
        with tf.GradientTape() as tape:
            loss, tokens = summed_loss(self.model, batch, self.hparams.label_smoothing)
            equal = self.parts_weigh_equally
            weighed = loss / tf.maximum(tokens, 1.0) if equal else loss
        gradients = tape.gradient(weighed, self.variables)
        weight = tf.minimum(tokens, 1.0) if equal else tokens  # nothing but padding weighs nothing
        return _Sums([tf.convert_to_tensor(g) for g in gradients], weight, loss, tokens)

    def _seed_dropout(self, number: tf.Tensor) -> None:
        """Gives every part of every step masks of its own, whichever replica computes it."""
        seeds = self.model.seeds.state
        # A stream apart: neighbouring numbers must not give neighbouring generator states.
        state = tf.random.stateless_uniform(
            [2], tf.stack([tf.constant(self.seed, tf.int64), number]), None, None, tf.uint32
        )
        seeds.assign(tf.cast(state, seeds.dtype))

    def _totals(
        self,
        features: Features,
        loss: tf.Tensor,
        tokens: tf.Tensor,
        norm: tf.Tensor,
        finite: tf.Tensor,
    ) -> tf.Tensor:
        inputs, targets = features["inputs"], features["targets"]
        counted = tf.where(finite, 1.0, 0.0)  # a skipped step must not make the means NaN
        totals = Totals(
            loss=tf.where(finite, loss, 0.0),
            tokens=tokens * counted,
            source_tokens=tf.math.count_nonzero(inputs),
            cells=tf.size(inputs) + tf.size(targets),
            sentences=tf.math.count_nonzero(targets[..., 0]),
            gradient_norm=tf.where(finite, norm, 0.0),
            steps=counted,
            skipped=1.0 - counted,
        )
        return tf.stack([tf.cast(value, tf.float64) for value in totals])


def summed_loss(
    model: Seq2Seq, batch: Features, label_smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the training loss summed over a batch's target tokens, and their number."""
    hidden = model.hidden(batch, training=True)  # [B, T, D]
    present = tf.not_equal(batch["targets"], 0)  # [B, T]
    # The logits are the largest array of a step: padding is left out of them.
    logits = model.project(tf.boolean_mask(hidden, present))  # [N, V]
    targets = tf.boolean_mask(batch["targets"], present)  # [N]
    losses = smoothed_cross_entropy(tf.cast(logits, tf.float32), targets, label_smoothing)
    return tf.reduce_sum(losses), tf.cast(tf.size(targets), tf.float32)
