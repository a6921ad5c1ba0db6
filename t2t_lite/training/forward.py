"""The parts of a batch, and a model's outputs for one of them."""

import tensorflow as tf

from t2t_lite.layers.auxiliary_losses import Statistics
from t2t_lite.models.auxiliary_losses import hidden_and_statistics
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.features import Features
from t2t_lite.training.objectives.objective import Objective
from t2t_lite.training.own_layers import TrainedCalls

# For what has no conditions or loops of TensorFlow's own: looking for them in all of a model's code
# takes a quarter of the tracing.
without_autograph = tf.autograph.experimental.do_not_convert


class Forward:
    """Runs a model on parts of batches, each with dropout masks of its own.

    The result does not depend on which replica computes it.

    Args:
        model: with all its weights.
        objective: says what the model reads of a part.
        parts: W, the parts of every batch.
        seed: of the dropout masks.

    Attributes:
        calls: refuses layers that do what training cannot do.

    Raises:
        UsageError: training cannot train the model.
    """

    def __init__(self, model: Seq2Seq, objective: Objective, parts: int, seed: int) -> None:
        self.calls = TrainedCalls(model)
        self._model = model
        self._objective = objective
        self._parts = parts
        self._seed = seed

    @without_autograph
    def __call__(
        self, features: Features, step: tf.Tensor, part: tf.Tensor
    ) -> tuple[tf.Tensor, list[Statistics]]:
        """Returns the outputs for one part, and the sums of the model's auxiliary layers.

        Args:
            features: the batch, [W, B, L].
            step: number of steps before this one, which selects the masks.
            part: number of the part.

        Returns:
            [passes · B, T, D]; and a dict of sums for each of `auxiliary_layers`.
        """
        return self.of_part(part_of(features, part), self.number(step, part))

    def number(self, step: tf.Tensor, part: tf.Tensor) -> tf.Tensor:
        """Returns the number of a part, counted over all steps."""
        return step * self._parts + tf.cast(part, tf.int64)

    def of_part(self, features: Features, number: tf.Tensor) -> tuple[tf.Tensor, list[Statistics]]:
        """As a call, for a part [B, L] with its number."""
        with self.calls.drawing_from(tf.stack([tf.constant(self._seed, tf.int64), number])):
            read = self._objective.read(self._model, features)
            return hidden_and_statistics(self._model, read, training=True)


def part_of(features: Features, part: tf.Tensor | int) -> Features:
    """Returns a part of a batch: `inputs` [B, S], `targets` [B, T]."""
    return {name: ids[part] for name, ids in features.items()}


def first_part(accumulate: int) -> tf.Tensor:
    """Returns the number of the first part of this replica, which has `accumulate` of them."""
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    return replica * accumulate
