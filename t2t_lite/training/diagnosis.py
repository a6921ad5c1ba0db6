"""Which sentences a step failed for."""

from collections.abc import Callable

import tensorflow as tf

from t2t_lite.training.features import Features, features_spec
from t2t_lite.training.forward import part_of
from t2t_lite.training.step import TrainStep


class Diagnosis:
    """Recomputes the losses of a step for each sentence.

    It runs on one device, sentence by sentence to save memory.

    Args:
        step: the step.
    """

    def __init__(self, step: TrainStep) -> None:
        self._step = step
        spec = features_spec(is_guided=step.hparams.is_guided)
        self._compiled: Callable[..., tf.Tensor] = tf.function(
            self._of_part,
            input_signature=(spec, tf.TensorSpec([], tf.int64)),
            autograph=False,
        )

    def sentence_losses(self, features: Features, step: int) -> tf.Tensor:
        """Returns the losses of a step, with the dropout masks that it had.

        Args:
            features: as for the step.
            step: number of steps before it.

        Returns:
            [W, B] in nats; 0 for rows of padding.
        """
        features = self._step.shapes.pad(features)  # masks depend on the shape
        numbers = self._step.forward.number(step, tf.range(self._step.parts))
        return tf.stack(
            [self._compiled(part_of(features, part), number) for part, number in enumerate(numbers)]
        )

    def _of_part(self, features: Features, number: tf.Tensor) -> tf.Tensor:
        """Returns the losses [B] of part `number`, counted over all steps."""
        objective, model = self._step.objective, self._step.model
        hidden, _ = self._step.forward.of_part(features, number)
        hidden = tf.split(hidden, objective.passes)
        return tf.map_fn(
            lambda sentence: objective.summed_loss(model, *sentence).total,
            (
                tf.stack(hidden, axis=1),
                features["targets"][:, None],
            ),  # [B, P, T, D], [B, 1, T]
            fn_output_signature=tf.float32,
        )
