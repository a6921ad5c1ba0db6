"""The gradients of one replica: those of the summed losses of its parts of a batch.

They are sums, not means, because sums over replicas follow before anything is divided (step.py).
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from t2t_lite.layers.auxiliary_losses import Statistics
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.auxiliary_slopes import AuxiliarySlopes
from t2t_lite.training.features import Features
from t2t_lite.training.forward import Forward, first_part, without_autograph
from t2t_lite.training.objectives.objective import Objective


class Sums(NamedTuple):
    """Sums over parts."""

    gradients: list[tf.Tensor]  # of the weighted losses
    weight: tf.Tensor  # divisor of the gradients
    tokens: tf.Tensor  # number of target tokens
    loss: tf.Tensor  # of all target tokens, including the penalties
    penalties: Sequence[tf.Tensor]  # of the objective
    statistics: list[Statistics]  # of auxiliary losses


class ReplicaGradients:
    """Computes the sums of one replica.

    Args:
        model: created in the strategy's scope.
        objective: what it is trained for.
        forward: runs it on a part of a batch.
        auxiliary: the slopes of its auxiliary losses.
        accumulate: number of parts of each replica.
    """

    def __init__(
        self,
        model: Seq2Seq,
        objective: Objective,
        forward: Forward,
        auxiliary: AuxiliarySlopes,
        accumulate: int,
    ) -> None:
        self._model = model
        self._variables = model.trainable_variables
        self._objective = objective
        self._forward = forward
        self._auxiliary = auxiliary
        self._accumulate = accumulate
        self._parts_weigh_equally = model.hparams.parts_weigh_equally

    def sums(
        self,
        features: Features,
        step: tf.Tensor,
        scale: tf.Tensor,
        slopes: list[Statistics] | None,
    ) -> Sums:
        """Adds up the parts of the replica that calls this.

        Args:
            features: the whole batch, as for `TrainStep`.
            step: number of steps before this one.
            scale: factor of the gradients, for float16.
            slopes: derivatives of the auxiliary losses by the sums over the whole batch; None:
                computed here, where each replica has only one part.
        """
        first = first_part(self._accumulate)
        if self._accumulate == 1:
            return self._of_part(features, step, first, scale, slopes)
        # Starting from zeros, the model and its gradients are traced only once, in the loop.
        zero = tf.constant(0.0)
        gradients = [tf.zeros(v.shape) for v in self._variables]
        penalties = [zero for _ in self._objective.penalties]
        sums = Sums(gradients, zero, zero, zero, penalties, self._auxiliary.no_sums())
        for part in tf.range(first, first + self._accumulate):
            more = self._of_part(features, step, part, scale, slopes)
            sums = tf.nest.map_structure(tf.add, sums, more)
        return sums

    @without_autograph
    def _of_part(
        self,
        features: Features,
        step: tf.Tensor,
        part: tf.Tensor,
        scale: tf.Tensor,
        slopes: list[Statistics] | None,
    ) -> Sums:
        """Returns the sums of part `part` alone; `sums` says what the rest is."""
        targets = features["targets"][part]  # [B, T]
        tokens = tf.cast(tf.math.count_nonzero(targets), tf.float32)
        # The sums of gradients will be divided by the weight of the whole batch.
        by_sums = scale * self._weight(features["targets"])
        if self._parts_weigh_equally:
            scale /= tf.maximum(tokens, 1.0)
        with tf.GradientTape() as tape:
            hidden, statistics = self._forward(features, step, part)
            loss, penalties = self._objective.summed_loss(self._model, hidden, targets, scale)
        self._forward.calls.require_own(tape.watched_variables())
        if slopes is None:
            slopes = self._auxiliary.of_part(statistics)
        gradients = tape.gradient(
            [loss, *tf.nest.flatten(statistics)],
            self._variables,
            output_gradients=[1.0, *(by_sums * slope for slope in tf.nest.flatten(slopes))],
        )
        self._forward.calls.require_gradients(self._variables, gradients)
        return Sums(
            # A layer of a user's own may have weights of another type.
            [tf.cast(tf.convert_to_tensor(gradient), tf.float32) for gradient in gradients],
            self._weight(targets[None]),
            tokens,
            loss / scale,
            [penalty / scale for penalty in penalties],
            statistics,
        )

    def _weight(self, targets: tf.Tensor) -> tf.Tensor:
        """Returns the divisor of summed gradients of `targets` [W, B, T]."""
        tokens = tf.cast(tf.math.count_nonzero(targets, axis=(1, 2)), tf.float32)  # [W]
        # A part of nothing but padding has weight 0.
        return tf.reduce_sum(tf.minimum(tokens, 1.0) if self._parts_weigh_equally else tokens)
