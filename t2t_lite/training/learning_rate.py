"""Learning-rate schedules by T2T's formula strings.

A schedule is a product of named factors, such as the default of `transformer_base`,
"constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"; "legacy" is the older form of v1 and v2.
"""

import math
from collections.abc import Callable

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError, did_you_mean
from t2t_lite.hparams.basic import BasicHParams

# T2T scales the legacy schemes by this much for every optimizer of the Adam family.
_LEGACY_ADAM_SCALE = 0.002

Factor = Callable[[BasicHParams, tf.Tensor], tf.Tensor | float]


def _warmup(hparams: BasicHParams) -> float:
    return float(max(1, hparams.learning_rate_warmup_steps))


def _constant(hparams: BasicHParams, step: tf.Tensor) -> float:
    del step
    return hparams.learning_rate_constant


def _linear_warmup(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    return tf.minimum(1.0, step / _warmup(hparams))


def _rsqrt_decay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    return tf.math.rsqrt(tf.maximum(step, _warmup(hparams)))


def _rsqrt_normalized_decay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    return _warmup(hparams) ** 0.5 * _rsqrt_decay(hparams, step)


def _rsqrt_hidden_size(hparams: BasicHParams, step: tf.Tensor) -> float:
    del step
    return hparams.hidden_size**-0.5


def _exp_decay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """learning_rate_decay_rate to the power of how many decay_steps have passed since warm-up."""
    passed = tf.maximum(0.0, _decay_steps_passed(hparams, step))
    if hparams.learning_rate_decay_staircase:
        passed = tf.floor(passed)
    return tf.pow(hparams.learning_rate_decay_rate, passed)


def _single_cycle_cos_decay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """From 1 at the end of the warm-up to 0 after `learning_rate_decay_steps` more, and 0 then."""
    passed = tf.clip_by_value(_decay_steps_passed(hparams, step), 0.0, 1.0)
    return 0.5 + 0.5 * tf.cos(math.pi * passed)


def _decay_steps_passed(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    return (step - hparams.learning_rate_warmup_steps) / hparams.learning_rate_decay_steps


def _legacy(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    warmup = _warmup(hparams)
    if hparams.learning_rate_decay_scheme == "noam":
        # Paper, equation 3, counted from 1 and times 5000.
        count = step + 1.0
        rate = (
            5000.0
            * hparams.hidden_size**-0.5
            * tf.minimum(count * warmup**-1.5, tf.math.rsqrt(count))
        )
    elif hparams.learning_rate_decay_scheme == "none":
        # Rises exponentially from 0.01 to 1, then stays.
        rate = tf.pow(0.01, tf.maximum(0.0, 1.0 - step / warmup))
    else:
        raise UsageError(
            f"hparam learning_rate_decay_scheme={hparams.learning_rate_decay_scheme!r}: "
            "expected noam or none"
        )
    return rate * (_LEGACY_ADAM_SCALE * hparams.learning_rate)


_FACTORS: dict[str, Factor] = {
    "constant": _constant,
    "linear_warmup": _linear_warmup,
    "rsqrt_decay": _rsqrt_decay,
    "rsqrt_normalized_decay": _rsqrt_normalized_decay,
    "rsqrt_hidden_size": _rsqrt_hidden_size,
    "exp_decay": _exp_decay,
    "single_cycle_cos_decay": _single_cycle_cos_decay,
    "legacy": _legacy,
}


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate as a function of the number of updates already made.

    Args:
        hparams: `learning_rate_schedule` names the factors, other fields their constants.
        ahead: fraction of a step added to the count.

    Raises:
        UsageError: an unknown factor or legacy scheme.
    """

    def __init__(self, hparams: BasicHParams, ahead: float = 0.0) -> None:
        super().__init__()
        self.hparams = hparams
        self.ahead = ahead
        names = [name.strip() for name in hparams.learning_rate_schedule.split("*")]
        for name in names:
            if name not in _FACTORS:
                raise UsageError(
                    f"hparam learning_rate_schedule={hparams.learning_rate_schedule!r}: "
                    f"unknown factor {name!r}{did_you_mean(name, _FACTORS)}"
                )
        self.factors = [_FACTORS[name] for name in names]
        self(0)  # what is wrong with an hparam shows here, not in a compiled step

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the rate of the update after `step` updates, a float32 scalar."""
        count = tf.cast(step, tf.float32) + self.ahead
        rate = tf.constant(1.0)
        for factor in self.factors:
            rate = rate * factor(self.hparams, count)
        return rate

    def get_config(self) -> dict[str, object]:
        """Keras asks for this when an optimizer is saved as a configuration."""
        return {"hparams": self.hparams.to_dict(), "ahead": self.ahead}
