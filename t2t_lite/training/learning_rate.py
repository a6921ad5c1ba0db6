"""Learning-rate schedules, defined by T2T's formula strings.

A schedule is a product of named factors, such as the default of `transformer_base`,
"constant*linear_warmup*rsqrt_decay*rsqrt_hidden_size"; "legacy" is the older form of v1 and v2.

Two of T2T's factors depend on the flag `train_steps`, which may change when a run is resumed. Here
no schedule does: `single_cycle_cos_decay` ends `learning_rate_decay_steps` after the warm-up (T2T's
curve if that is train_steps - learning_rate_warmup_steps), and `linear_decay` does not exist.
"""

import math
from collections.abc import Callable, Collection

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError, did_you_mean, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.settings import settings_by_group

# T2T scales the legacy schemes by this factor for every optimizer of the Adam family.
_LEGACY_ADAM_SCALE = 0.002

Factor = Callable[[BasicHParams, tf.Tensor], tf.Tensor | float]


# ---- factors of a formula; `step` is the number of previous updates, a float32 scalar


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
    """Decays by `learning_rate_decay_rate` for every decay cycle since the warm-up."""
    passed = _decay_cycles(hparams, step)
    if hparams.learning_rate_decay_staircase:
        passed = tf.floor(passed)
    return tf.pow(hparams.learning_rate_decay_rate, passed)


def _cosdecay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """1 during the warm-up, then the cosine decay that began at step 0."""
    decay = _half_cosine(step / hparams.learning_rate_decay_steps)
    return tf.where(step <= hparams.learning_rate_warmup_steps, 1.0, decay)


def _single_cycle_cos_decay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """From 1 at the end of the warm-up to 0 after `learning_rate_decay_steps`; then stays 0."""
    return _half_cosine(tf.minimum(1.0, _decay_cycles(hparams, step)))


def _multi_cycle_cos_decay(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """The same, but then rises to 1 again, and so on."""
    return _half_cosine(_decay_cycles(hparams, step))


def _half_cosine(phase: tf.Tensor) -> tf.Tensor:
    """1 at phase 0, 0 at 1, 1 again at 2."""
    return 0.5 + 0.5 * tf.cos(math.pi * phase)


def _decay_cycles(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """Returns the number of decay cycles since the warm-up, a fraction included."""
    passed = tf.maximum(0.0, step - hparams.learning_rate_warmup_steps)
    return passed / hparams.learning_rate_decay_steps


# ---- the legacy schemes


def _legacy(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    name = hparams.learning_rate_decay_scheme or "none"  # T2T's sets have both
    rate = _SCHEMES[name](hparams, step)
    if name != "noam":
        # Rises exponentially from 0.01 to 1 before the scheme begins.
        warmup = tf.pow(0.01, 1.0 - step / _warmup(hparams))
        rate = tf.where(step < hparams.learning_rate_warmup_steps, warmup, rate)
    scale = _LEGACY_ADAM_SCALE if "adam" in hparams.optimizer else 1.0
    return rate * (scale * hparams.learning_rate)


def _noam(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """Paper, equation 3, with steps counted from 1, times 5000."""
    count = step + 1.0
    factor = 5000.0 * hparams.hidden_size**-0.5
    return factor * tf.minimum(count * _warmup(hparams) ** -1.5, tf.math.rsqrt(count))


def _none(hparams: BasicHParams, step: tf.Tensor) -> float:
    del hparams, step
    return 1.0


def _sqrt(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    passed = step - hparams.learning_rate_warmup_steps
    return 500.0 * tf.math.rsqrt(tf.maximum(1.0, passed))


def _cosine(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """From 1 at step 0 to 0 after `learning_rate_cosine_cycle_steps`, and back in the same time."""
    return _half_cosine(step / hparams.learning_rate_cosine_cycle_steps)


def _cyclelinear10x(hparams: BasicHParams, step: tf.Tensor) -> tf.Tensor:
    """From 0.3 to 3.3 and back, in `learning_rate_warmup_steps` each way."""
    warmup = _warmup(hparams)
    away_from_peak = tf.abs(tf.math.mod(step, 2.0 * warmup) / warmup - 1.0)
    return 3.0 * (1.1 - away_from_peak)


_SCHEMES: dict[str, Factor] = {
    "noam": _noam,
    "none": _none,
    "exp": _exp_decay,  # T2T's is the same, as it begins only after the warm-up
    "sqrt": _sqrt,
    "cosine": _cosine,
    "cyclelinear10x": _cyclelinear10x,
}

_FACTORS: dict[str, Factor] = {
    "constant": _constant,
    "linear_warmup": _linear_warmup,
    "rsqrt_decay": _rsqrt_decay,
    "rsqrt_normalized_decay": _rsqrt_normalized_decay,
    "rsqrt_hidden_size": _rsqrt_hidden_size,
    "exp_decay": _exp_decay,
    "cosdecay": _cosdecay,
    "single_cycle_cos_decay": _single_cycle_cos_decay,
    "multi_cycle_cos_decay": _multi_cycle_cos_decay,
    "legacy": _legacy,
}


class Schedule(keras.optimizers.schedules.LearningRateSchedule):
    """The learning rate as a function of the number of previous updates.

    Args:
        hparams: `learning_rate_schedule` names the factors, other fields set their constants;
            the rate never falls below `learning_rate_minimum`.
        ahead: fraction of a step added to the count.
    """

    def __init__(self, hparams: BasicHParams, ahead: float = 0.0) -> None:
        super().__init__()
        self.hparams = hparams
        self.ahead = ahead
        names = [name.strip() for name in hparams.learning_rate_schedule.split("*")]
        for name in names:
            if name == "linear_decay":
                raise UsageError(
                    f"hparam learning_rate_schedule={hparams.learning_rate_schedule!r}: "
                    "linear_decay ends at the flag train_steps, on which no schedule depends here; "
                    "write single_cycle_cos_decay, which falls from the end of the warm-up to 0 in "
                    "learning_rate_decay_steps"
                )
            if name not in _FACTORS:
                raise UsageError(
                    f"hparam learning_rate_schedule={hparams.learning_rate_schedule!r}: "
                    f"unknown factor {name!r}{did_you_mean(name, _FACTORS)}"
                )
        self.factors = [_FACTORS[name] for name in names]

    def __call__(self, step: tf.Tensor) -> tf.Tensor:
        """Returns the rate of the update after `step` updates, a float32 scalar."""
        count = tf.cast(step, tf.float32) + self.ahead
        rate = tf.constant(1.0)
        for factor in self.factors:
            rate = rate * factor(self.hparams, count)
        minimum = self.hparams.learning_rate_minimum
        return rate if minimum is None else tf.maximum(rate, minimum)

    def get_config(self) -> dict[str, object]:
        """Returns the configuration, which Keras writes with a model; it is not read again."""
        return {"hparams": self.hparams.to_dict(), "ahead": self.ahead}


def warn_of_unread(hparams: BasicHParams, names: Collection[str]) -> None:
    """Warns of hparams of the learning rate that were given and that the schedule does not read.

    Args:
        hparams: determine the schedule.
        names: those that were given.

    Raises:
        UsageError: the schedule has an unknown factor.
    """
    group = [setting.name for setting in settings_by_group(BasicHParams)["Learning rate"]]
    noted = hparams.copy()
    noted.note_reads()
    with tf.Graph().as_default():  # devices may yet be configured
        Schedule(noted)(tf.constant(0))
    unread = noted.unread(group)
    read = [name for name in group if name not in unread]
    for name in unread:
        if name in names:
            warn_once(
                f"hparam {name} has no effect: learning_rate_schedule="
                f"{hparams.learning_rate_schedule} reads only {', '.join(read[1:])}"
            )
