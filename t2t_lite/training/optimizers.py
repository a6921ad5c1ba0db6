"""Optimizers from Keras, set up by T2T's hparams."""

import keras

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.learning_rate import Schedule


def make_optimizer(hparams: BasicHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer that `hparams.optimizer` names, with its schedule.

    Clipping is the training step's business: Keras would clip on each replica before the
    gradients are added.

    Raises:
        UsageError: an unknown optimizer.
    """
    if hparams.optimizer != "adam":
        raise UsageError(f"hparam optimizer={hparams.optimizer!r}: expected adam")
    return keras.optimizers.Adam(
        Schedule(hparams),
        beta_1=hparams.optimizer_adam_beta1,
        beta_2=hparams.optimizer_adam_beta2,
        epsilon=hparams.optimizer_adam_epsilon,
    )
