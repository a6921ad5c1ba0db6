"""Optimizers from Keras, set up by T2T's hparams."""

import keras

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.learning_rate import Schedule


def make_optimizer(hparams: BasicHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer that `hparams.optimizer` names, with its schedule.

    `multistep_adam` is T2T's Adam of n accumulated micro-batches. It weighs them equally, which is
    the training step's business (on several replicas it weighs every part of the batch equally,
    where T2T first joins those that the replicas take together). Its schedule counts micro-batches
    in units of n: update k has the rate of step k + (n - 1) / n.

    Clipping is the training step's business: Keras would clip on each replica before the
    gradients are added.

    Raises:
        UsageError: an unknown optimizer.
    """
    if hparams.optimizer == "adam":
        ahead = 0.0
    elif hparams.optimizer == "multistep_adam":
        ahead = 1.0 - 1.0 / hparams.accumulate_steps
    else:
        raise UsageError(f"hparam optimizer={hparams.optimizer!r}: expected adam or multistep_adam")
    return keras.optimizers.Adam(
        Schedule(hparams, ahead),
        beta_1=hparams.optimizer_adam_beta1,
        beta_2=hparams.optimizer_adam_beta2,
        epsilon=hparams.optimizer_adam_epsilon,
    )
