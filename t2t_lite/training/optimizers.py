"""Optimizers from Keras, by T2T's names and hparams.

They differ from T2T's as follows:

- `adam` and `true_adam` are the same: T2T's `adam` skips rows that a sparse gradient does not
  contain, but its gradients of embeddings are dense, as they are here.
- `multistep_adam` is T2T's Adam of n accumulated micro-batches. The training step weights them
  equally. (On several replicas it weights all parts of the batch equally; T2T first merges the
  parts that the replicas compute at the same time.) The schedule counts micro-batches in units of
  n: update k has the rate of step k + (n - 1) / n.
- `adam_w` subtracts learning rate × `weight_decay` × weight. T2T subtracts `weight_decay` × weight,
  whatever the rate, and also adds an L2 penalty to the loss. The nearest setting is T2T's value
  divided by the peak of the learning rate.
- `adafactor` follows T2T's defaults: steps relative to the parameter's scale, clipped updates,
  factored second moments, β2 = 1 - step^-0.8. But Keras limits the rate to 1/√step (T2T's usual
  schedule for it, rsqrt_decay, rarely exceeds this), has no momentum, and stores the full second
  moment beside its factors: half as much as Adam stores, where T2T stores almost nothing.
- `momentum` differs while the rate changes: Keras's velocity sums each gradient times the rate of
  its own step; T2T's sums the gradients, and multiplies the sum by the current rate.
- `yellow_fin` does not exist.

`adagrad`, `ftrl` and `rms_prop` have TensorFlow 1's constants, which no hparam of T2T's changes.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.training._private_api import adam_moments
from t2t_lite.training.learning_rate import Schedule

# The only optimizer that supports `weight_decay`.
DECAYS_WEIGHTS = "adam_w"
# The initial scale of the mean loss over tokens.
_INITIAL_SCALE = 2.0**15
# The scale is doubled after this many steps without overflow, and halved at every overflow.
_STEPS_TO_DOUBLE = 2000


class FusedAdam(keras.optimizers.Adam):
    """Keras's Adam, or AdamW with `weight_decay`, in one TensorFlow kernel per weight.

    Keras's update takes a dozen operations, most of which allocate an array, on each replica's
    copy. The variables are the same.
    """

    _shared_of: Callable[[tf.DType, str], dict[str, tf.Tensor]] | None = None

    def apply(
        self, grads: Sequence[tf.Tensor], trainable_variables: Sequence[tf.Variable] | None = None
    ) -> None:
        """Updates all weights; what their kernels share is computed once for each type."""
        self._shared_of = functools.cache(self._shared)
        try:
            super().apply(grads, trainable_variables)
        finally:
            self._shared_of = None

    def update_step(
        self, gradient: tf.Tensor, variable: tf.Variable, learning_rate: tf.Tensor
    ) -> None:
        """Updates one weight on one device; `gradient` has the shape of `variable`."""
        moments = adam_moments(self, variable)
        if moments is None:
            super().update_step(gradient, variable, learning_rate)
            return
        first_moment, second_moment = moments
        shared_of = self._shared_of or self._shared
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=first_moment,
            v=second_moment,
            lr=tf.cast(learning_rate, variable.dtype),
            grad=gradient,
            **shared_of(variable.dtype, variable.handle.device),
        )

    def _shared(self, dtype: tf.DType, device: str) -> dict[str, tf.Tensor]:
        """Returns the numbers of an update that the kernels of all weights of a type take.

        Each device computes its own, sooner than another would send them.
        """
        del device
        betas = tf.constant(self.beta_1, dtype), tf.constant(self.beta_2, dtype)
        powers = [tf.pow(beta, tf.cast(self.iterations + 1, dtype)) for beta in betas]
        names = ("beta1", "beta2", "beta1_power", "beta2_power", "epsilon")
        return dict(zip(names, (*betas, *powers, tf.constant(self.epsilon, dtype)), strict=True))


class RMSprop(keras.optimizers.RMSprop):
    """Keras's RMSprop, whose mean squares begin at 1, as TensorFlow 1's do."""

    def add_variable_from_reference(
        self, reference_variable: Any, name: str | None = None, initializer: Any = "zeros"
    ) -> Any:
        """Returns a new variable of the optimizer for a weight."""
        first = "ones" if name == "velocity" else initializer
        return super().add_variable_from_reference(reference_variable, name, first)


def make_optimizer(hparams: BasicHParams) -> keras.optimizers.Optimizer:
    """Returns the optimizer that `hparams.optimizer` names, with its schedule.

    The training step clips gradients: Keras would clip on each replica, before they are added.

    Raises:
        UsageError: the optimizer does not support a hyperparameter.
    """
    name = hparams.optimizer
    if hparams.weight_decay and name != DECAYS_WEIGHTS:
        raise UsageError(
            f"hparam weight_decay={hparams.weight_decay}: optimizer={name} does not support it; "
            f"set optimizer={DECAYS_WEIGHTS} or weight_decay=0"
        )
    ahead = 1.0 - 1.0 / hparams.accumulate_steps if hparams.parts_weigh_equally else 0.0
    rate = Schedule(hparams, ahead)
    if name == "ftrl":
        _require_positive(rate, hparams)
    common: dict[str, Any] = {
        "learning_rate": rate,
        "use_ema": hparams.ema_decay > 0,
        "ema_momentum": hparams.ema_decay,
    }
    match name:
        case "adam" | "true_adam" | "multistep_adam" | "adam_w":
            return FusedAdam(
                weight_decay=hparams.weight_decay or None,
                beta_1=hparams.optimizer_adam_beta1,
                beta_2=hparams.optimizer_adam_beta2,
                epsilon=hparams.optimizer_adam_epsilon,
                **common,
            )
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
        case "adagrad":
            return keras.optimizers.Adagrad(initial_accumulator_value=0.1, epsilon=0.0, **common)
        case "ftrl":
            return keras.optimizers.Ftrl(initial_accumulator_value=0.1, **common)
        case "rms_prop":
            return RMSprop(rho=0.9, epsilon=1e-10, **common)
    raise AssertionError(name)  # hparams refuse other names


def _require_positive(rate: Schedule, hparams: BasicHParams) -> None:
    """Refuses a schedule whose rate is 0 at its start, or where a cosine ends."""
    h = hparams
    ends = (h.learning_rate_decay_steps, h.learning_rate_cosine_cycle_steps)
    for step in sorted({0, *ends, h.learning_rate_warmup_steps + h.learning_rate_decay_steps}):
        if not rate(step):
            raise UsageError(
                f"hparam learning_rate_schedule={h.learning_rate_schedule!r}: after {step} updates "
                "the rate is 0, and optimizer=ftrl divides by it; set "
                "learning_rate_schedule=constant (with this optimizer, the weights grow and shrink "
                "in proportion to the rate)"
            )


class LossScale(tf.Module):
    """The factor of the loss in a float16 run (Micikevicius et al. 2018, section 3.2).

    Keras's `LossScaleOptimizer` checks and scales gradients on each replica, whereas the training
    step here adds them up first.

    Args:
        tokens: approximate number of tokens that the loss is a sum over; the scale is that of
            their mean.
    """

    def __init__(self, tokens: int) -> None:
        super().__init__()
        self.lowest = 1.0 / tokens
        self.value = tf.Variable(_INITIAL_SCALE / tokens, trainable=False, name="scale")
        self._steps = tf.Variable(0, trainable=False, name="steps_since_change")

    def update(self, finite: tf.Tensor) -> None:
        """Adjusts the scale after a step; `finite` says whether its gradient was finite."""
        steps = tf.where(finite, self._steps + 1, 0)
        double = tf.equal(steps, _STEPS_TO_DOUBLE)
        grown = tf.where(double, 2.0 * self.value, self.value)
        self.value.assign(tf.where(finite, grown, tf.maximum(self.value / 2.0, self.lowest)))
        self._steps.assign(tf.where(double, 0, steps))

    @property
    def at_its_lowest(self) -> bool:
        """Whether the scale can fall no further, so that overflow is not the cause."""
        return bool(self.value.numpy() <= self.lowest)


def loss_scale_of(hparams: BasicHParams) -> LossScale | None:
    """Returns the factor of the loss that some hyperparameters need."""
    if hparams.dtype != "float16":
        return None
    # Parts of equal weight contribute means over their tokens.
    return LossScale(1 if hparams.parts_weigh_equally else hparams.batch_size)
