"""What Optuna draws for a trial, and the hyperparameters that it stands for.

Optuna knows neither numbers with an order but no step nor reverse logarithmic scales. So it draws
the place of a discrete number among all of them, and the distance of a number on a reverse
logarithmic scale from the upper end (plus the lower end, so that it has the same bounds).
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite.hparams.ranges import Range, RangedHParams

if TYPE_CHECKING:
    import optuna

# Of a drawn number, so that people can read and write it; more make no difference.
_DIGITS = 4

Distributions = Mapping[str, "optuna.distributions.BaseDistribution"]


def distributions(ranges: Mapping[str, Range]) -> Distributions:
    """Returns what Optuna draws from, by hparam."""
    return {name: _distribution(value) for name, value in ranges.items()}


def _distribution(value: Range) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if value.kind == "categorical":
        return CategoricalDistribution(value.choices)
    if value.kind == "discrete":
        return IntDistribution(0, len(value.choices) - 1)
    is_log = value.scale != RangedHParams.LINEAR_SCALE
    if value.kind == "int":
        return IntDistribution(int(value.low), int(value.high), log=is_log)
    return FloatDistribution(value.low, value.high, log=is_log)


def hparams_of(drawn: Mapping[str, Any], ranges: Mapping[str, Range]) -> dict[str, Any]:
    """Returns the hyperparameters that drawn values stand for."""
    return {name: _value(drawn[name], ranges[name]) for name in ranges}


def _value(drawn: Any, value: Range) -> Any:
    if value.kind == "categorical":
        return drawn
    if value.kind == "discrete":
        return value.choices[drawn]
    mirrored = value.scale == RangedHParams.REVERSE_LOG_SCALE
    number = value.low + value.high - drawn if mirrored else drawn
    if value.kind == "int":
        return number
    return min(max(float(f"{number:.{_DIGITS}g}"), value.low), value.high)


def draw(
    study: "optuna.Study",
    among: Distributions,
    seed: int,
    trials: Sequence["optuna.trial.FrozenTrial"],
    is_parallel: bool,
) -> dict[str, Any]:
    """Draws the values of the next trial: a function of the arguments alone.

    A sampler of its own, for each trial, makes it independent of when the search was resumed.

    Args:
        study: what the trials belong to, for its direction.
        among: what to draw from.
        seed: that of the search.
        trials: the earlier ones, some of which may still run.
        is_parallel: whether trials run at the same time; values like theirs are then avoided.
    """
    import optuna

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=(seed + len(trials)) % 2**32, constant_liar=is_parallel
        )
    copy = optuna.create_study(direction=study.direction, sampler=sampler)
    copy.add_trials(trials)
    return copy.ask(dict(among)).params
