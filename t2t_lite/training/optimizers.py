"""Optimizers from Keras, by T2T's names and hparams.

Where they are not T2T's to the letter:

- `adam` and `true_adam` are one: T2T's `adam` leaves out what a sparse gradient does not mention,
  but its embeddings' gradients are dense, and so are ours.
- `multistep_adam` is T2T's Adam of n accumulated micro-batches. It weighs them equally, which is
  the training step's business (on several replicas it weighs every part of the batch equally,
  where T2T first joins those that the replicas take together). Its schedule counts micro-batches
  in units of n: update k has the rate of step k + (n - 1) / n.
- `adam_w` takes learning rate × `weight_decay` off every weight. T2T takes `weight_decay` itself
  off, whatever the rate, and also adds an L2 penalty to the loss. The nearest setting is T2T's
  value divided by the learning rate's peak.
- `adafactor` is T2T's by its defaults: steps relative to the parameter's scale, clipped updates,
  factored second moments, β2 = 1 - step^-0.8. But Keras keeps the rate below 1/√step (T2T's usual
  schedule for it, rsqrt_decay, is hardly ever above), has no momentum, and stores the second
  moment whole beside its factors: half of what Adam stores, where T2T stores next to nothing.
- `momentum` differs while the rate changes: Keras's velocity adds up gradients times the rate of
  their own step, T2T's the gradients alone, all times the rate of now.
"""

from typing import Any

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training.learning_rate import Schedule

_OPTIMIZERS = ("adam", "true_adam", "multistep_adam", "adam_w", "adafactor", "momentum", "sgd")


class FusedAdam(keras.optimizers.Adam):
    """Keras's Adam, and with `weight_decay` its AdamW, by one kernel of TensorFlow per weight.

    Keras's own update is a dozen operations, most of them with an array of their own, on each of
    the replicas' copies. The variables are the same.
    """

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates one weight on one device."""
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations + 1, variable.dtype)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=tf.pow(tf.constant(self.beta_1, variable.dtype), step),
            beta2_power=tf.pow(tf.constant(self.beta_2, variable.dtype), step),
            lr=tf.cast(learning_rate, variable.dtype),
            beta1=self.beta_1,
            beta2=self.beta_2,
            epsilon=self.epsilon,
            grad=gradient,
        )


def make_optimizer(hparams: BasicHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer that `hparams.optimizer` names, with its schedule.

    Clipping is the training step's business: Keras would clip on each replica before the
    gradients are added.

    Raises:
        UsageError: an unknown optimizer, or `weight_decay` for one that takes none.
    """
    name = hparams.optimizer
    if hparams.weight_decay and name != "adam_w":
        raise UsageError(
            f"hparam weight_decay={hparams.weight_decay}: optimizer={name} takes none; "
            "set optimizer=adam_w or weight_decay=0"
        )
    if not 0 <= hparams.ema_decay < 1:
        raise UsageError(f"hparam ema_decay={hparams.ema_decay} is not from 0 up to, not with, 1")
    ahead = 1.0 - 1.0 / hparams.accumulate_steps if name == "multistep_adam" else 0.0
    common: dict[str, Any] = {
        "learning_rate": Schedule(hparams, ahead),
        "use_ema": hparams.ema_decay > 0,
        "ema_momentum": hparams.ema_decay,
    }
    adam = {
        "beta_1": hparams.optimizer_adam_beta1,
        "beta_2": hparams.optimizer_adam_beta2,
        "epsilon": hparams.optimizer_adam_epsilon,
    }
    match name:
        case "adam" | "true_adam" | "multistep_adam" | "adam_w":
            return FusedAdam(weight_decay=hparams.weight_decay or None, **adam, **common)
        case "adafactor":
            return keras.optimizers.Adafactor(
                beta_2_decay=-hparams.optimizer_adafactor_memory_exponent,
                clip_threshold=hparams.optimizer_adafactor_clipping_threshold,
                **common,
            )
        case "momentum":
            return keras.optimizers.SGD(
                momentum=hparams.optimizer_momentum_momentum,
                nesterov=hparams.optimizer_momentum_nesterov,
                **common,
            )
        case "sgd":
            return keras.optimizers.SGD(**common)
    raise UsageError(
        f"hparam optimizer={name!r}: expected one of {', '.join(_OPTIMIZERS)}"
        f"{did_you_mean(name, _OPTIMIZERS)}"
    )
