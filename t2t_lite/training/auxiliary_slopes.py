"""The gradients of auxiliary losses, which are functions of sums over the whole batch.

An auxiliary loss is a function L of such sums (layers/auxiliary_losses.py). The sums s of all parts
are added before L is taken. By the chain rule, the gradient of L(Σ s_i) is Σ ∂L/∂s · ∂s_i: each
part contributes its own ∂s_i, times a slope ∂L/∂s that is the same for all. A replica with several
micro-batches needs Σ s_i before the first gradient, from a forward pass of its own, with the same
dropout masks.
"""

from collections.abc import Callable

import tensorflow as tf

from t2t_lite.layers.auxiliary_losses import Statistics
from t2t_lite.models.auxiliary_losses import auxiliary_losses
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training import xla
from t2t_lite.training.devices import sum_replicas
from t2t_lite.training.features import Features
from t2t_lite.training.forward import Forward, first_part


class AuxiliarySlopes:
    """The derivatives of a model's auxiliary losses by the sums that they are functions of.

    Args:
        strategy: distributes a step.
        model: may have no such losses; nothing is computed then.
        forward: runs the model on a part of a batch.
        accumulate: the parts of each replica.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: Seq2Seq,
        forward: Forward,
        accumulate: int,
    ) -> None:
        self._strategy = strategy
        self._model = model
        self._forward = forward
        self._accumulate = accumulate
        self.names = list(auxiliary_losses(model, self.no_sums()))
        replicas = strategy.num_replicas_in_sync
        # Replicas cannot exchange their sums inside a program of XLA, nor inside a loop.
        self._are_first = bool(self.names) and (
            accumulate > 1 or (model.hparams.xla_compile and replicas > 1)
        )
        self._count: Callable[..., list[Statistics]] = xla.compiled(model, self._sums_of_replica)

    def no_sums(self) -> list[Statistics]:
        """Returns sums over nothing."""
        return [layer.no_statistics() for layer in self._model.auxiliary_layers]

    def before(self, features: Features, step: tf.Tensor) -> list[Statistics] | None:
        """Returns the slopes for all parts of a batch, where they are needed before the first.

        Returns:
            None where each replica finds them with its only part, by `of_part`.
        """
        if not self._are_first:
            return None
        per_replica = self._strategy.run(self._count, (features, step))
        return self._slopes(sum_replicas(self._strategy, per_replica))

    def of_part(self, sums: list[Statistics]) -> list[Statistics]:
        """Returns the slopes, given the sums of the only part of each replica; called in one."""
        if sums and self._strategy.num_replicas_in_sync > 1:
            # Not `all_reduce`: its collective operations have the same keys in every strategy of a
            # process, so that a second training would meet those of the first.
            sums = tf.distribute.get_replica_context().merge_call(sum_replicas, args=(sums,))
        return self._slopes(sums)

    def _sums_of_replica(self, features: Features, step: tf.Tensor) -> list[Statistics]:
        """Adds up the sums of one replica's parts."""
        first = first_part(self._accumulate)
        sums = self.no_sums()
        for part in tf.range(first, first + self._accumulate):
            _, more = self._forward(features, step, part)
            sums = tf.nest.map_structure(tf.add, sums, more)
        return sums

    def _slopes(self, sums: list[Statistics]) -> list[Statistics]:
        if not sums:
            return []
        with tf.GradientTape() as tape:
            tape.watch(sums)
            loss = tf.add_n(list(auxiliary_losses(self._model, sums).values()))
        return tape.gradient(loss, sums, unconnected_gradients="zero")
