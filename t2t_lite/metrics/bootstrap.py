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
    totals = _totals_of_samples(metric, systems, seed)
    counted = np.all([_counts(metric, rows, totals[n]) for n, rows in systems.items()], axis=0)
    signature = _signature(metric, seed)
    found = {}
    first: _Resampling | None = None
    for name, rows in systems.items():
        this = _Resampling(metric, rows, totals[name][counted])
        p_value = this.p_value(first) if first else None
        first = first or this
        found[name] = BootstrapResult(
            this.score, this.mean, this.half_width, p_value, signature, metric.name
        )
    return found


def _totals_of_samples(
    metric: OutputMetric, systems: Mapping[str, Statistics], seed: int | None
) -> dict[str, np.ndarray]:
    """Returns the summed statistics [N, columns] of the same samples for each system."""
    # SacreBLEU adds up float32: the same numbers to the last digit need the same rounding.
    dtype = np.float32 if isinstance(metric, SacrebleuMetric) else np.float64
    tables = {name: np.array(rows, dtype) for name, rows in systems.items()}
    totals = {name: np.empty((_SAMPLES, table.shape[1]), dtype) for name, table in tables.items()}
    count = len(next(iter(tables.values())))
    draw = np.random.default_rng(seed)
    for number in range(_SAMPLES):
        sample = draw.choice(count, size=count, replace=True)
        for name, table in tables.items():
            totals[name][number] = table[sample].sum(0)
    return totals


def _counts(metric: OutputMetric, rows: Statistics, totals: np.ndarray) -> np.ndarray:
    """Tells which samples [N] have a score.

    A share of what counts has none in samples of segments that do not count, if others do.
    """
    has_segment = np.any(totals, axis=1)
    is_share = type(metric).score is OutputMetric.score
    return has_segment if is_share and any(add_up(rows)) else np.ones_like(has_segment)


class _Resampling:
    """The scores of a system on the test set and on samples of its segments.

    Args:
        metric: the metric of the statistics.
        rows: those of the test set.
        totals: those of each sample, added up: [N, columns].
    """

    def __init__(self, metric: OutputMetric, rows: Statistics, totals: np.ndarray) -> None:
        self.score = float(metric.score(add_up(rows)))
        self.scores = np.array([metric.score(row) for row in totals], np.float64)
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
