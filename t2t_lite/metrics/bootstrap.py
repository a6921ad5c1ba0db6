"""Paired bootstrap resampling: whether one system is significantly better than another.

Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation"; the numbers equal
those of sacreBLEU's test. The signature contains the seed; the environment variable SACREBLEU_SEED
changes it.
"""

import dataclasses
import os
from collections.abc import Mapping

import numpy as np

from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import OutputMetric, Statistics, add_up
from t2t_lite.metrics.sacrebleu_metric import SacrebleuMetric

_SAMPLES = 1000
_SEED = "SACREBLEU_SEED"


@dataclasses.dataclass(frozen=True)
class BootstrapResult:
    """A system's score over resampled test sets."""

    score: float  # of the test set itself
    mean: float  # over the samples
    half_width: float  # of the 95 % confidence interval around the mean
    p_value: float | None  # of the difference from the baseline; None for the baseline itself
    signature: str  # the metric's, with the number of samples and the seed
    metric: str  # its name


def resample(metric: OutputMetric, systems: Mapping[str, Statistics]) -> dict[str, BootstrapResult]:
    """Compares systems with the first of them.

    Args:
        metric: the metric that the statistics belong to.
        systems: statistics by system name, one row per segment of the test set.
    """
    seed = _seed()
    baseline = next(iter(systems.values()))
    count = len(baseline)
    samples = np.random.default_rng(seed).choice(count, size=(_SAMPLES, count), replace=True)
    first = _Resampling(metric, baseline, samples)
    signature = _signature(metric, seed)
    found = {}
    for name, rows in systems.items():
        this = first if rows is baseline else _Resampling(metric, rows, samples)
        p_value = None if rows is baseline else this.p_value(first)
        found[name] = BootstrapResult(
            this.score, this.mean, this.half_width, p_value, signature, metric.name
        )
    return found


class _Resampling:
    """The scores of a system on the test set and on samples [N, segments] of its segments."""

    def __init__(self, metric: OutputMetric, rows: Statistics, samples: np.ndarray) -> None:
        self.score = float(metric.score(add_up(rows)))
        # SacreBLEU adds up float32: the same numbers to the last digit need the same rounding.
        number = np.float32 if isinstance(metric, SacrebleuMetric) else np.float64
        table = np.array(rows, number)
        scores = [metric.score(table[sample].sum(0)) for sample in samples]
        self.scores = np.array(scores, np.float64)
        ordered = np.sort(self.scores)
        cut = len(ordered) // 40  # 2.5 % on either side
        self.mean = float(ordered.mean())
        self.half_width = float(0.5 * (ordered[-cut - 1] - ordered[cut]))

    def p_value(self, baseline: "_Resampling") -> float:
        """Returns the probability of such a difference between equally good systems."""
        if self.score == baseline.score:
            return 1.0  # identical systems: no sample would exceed the difference of 0
        differences = np.abs(self.scores - baseline.scores)
        chance = differences - differences.mean()
        exceeding = int(np.sum(chance > abs(self.score - baseline.score)))
        return (exceeding + 1) / (len(differences) + 1)


def _seed() -> int | None:
    """Returns the seed of the samples; None for a different one every time."""
    text = os.environ.get(_SEED, "12345")
    if text.lower() == "none":
        return None
    if not text.isdecimal():
        raise UsageError(f"{_SEED}={text!r}: expected a whole number, 0 or more, or none")
    return int(text)


def _signature(metric: OutputMetric, seed: int | None) -> str:
    references, _, rest = metric.signature.partition("|")
    return f"{references}|bs:{_SAMPLES}|seed:{str(seed).lower()}|{rest}"
