"""The paper's objective: cross entropy with label smoothing (section 5.4)."""

import tensorflow as tf

from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.training.features import Features
from t2t_lite.training.losses import summed_loss
from t2t_lite.training.objectives.objective import Loss, Objective


class Plain(Objective):
    """Each target should have the label's subwords."""

    def read(self, model: Seq2Seq, part: Features) -> Features:
        """Returns the part itself."""
        return part

    def summed_loss(
        self, model: Seq2Seq, hidden: tf.Tensor, targets: tf.Tensor, scale: tf.Tensor | float = 1.0
    ) -> Loss:
        """Returns the smoothed cross entropy."""
        return Loss(summed_loss(model, hidden, targets, scale), [])
