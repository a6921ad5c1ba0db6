"""Metrics of numbers: one or more in each output and reference, with white space between."""

import math
from collections.abc import Sequence

import numpy as np

from t2t_lite import registry
from t2t_lite.errors import DataError, quoted
from t2t_lite.metrics.base import OutputMetric, Segment, Statistics
from t2t_lite.text.number_encoder import parsed_numbers


def _numbers(segments: Sequence[Segment]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the numbers of outputs and references, each [segments, tasks], float64.

    Raises:
        DataError: a segment is not numbers, or has more or fewer than others.
    """
    rows = []
    for number, segment in enumerate(segments, 1):
        for side, text in (("output", segment.output), ("reference", segment.reference)):
            try:
                rows.append(parsed_numbers(text))
            except DataError as error:
                raise DataError(f"{side} {number}: {error}") from error
            if not rows[-1] or len(rows[-1]) != len(rows[0]):
                raise DataError(
                    f"{side} {number}: expected as many numbers as output 1 has, "
                    f"{len(rows[0]) or 1}, got {quoted(text)}"
                )
    found = np.array(rows, np.float64)
    return found[::2], found[1::2]


def _moments(outputs: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Returns of each segment 1 and, for each task, x, y, x², y² and xy, less the means of x and y.

    The means change no correlation, but would cost digits.
    """
    x, y = (side - side.mean(axis=0) for side in (outputs, references))
    return np.concatenate([np.ones([len(x), 1]), x, y, x * x, y * y, x * y], axis=1)


@registry.register_metric("mse")
class MeanSquaredError(OutputMetric):
    """The mean squared error of all numbers."""

    title = "mean squared error"
    lower_is_better = True
    form = ".4g"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the sum of squared errors, and how many numbers there are."""
        outputs, references = _numbers(segments)
        squares = np.square(outputs - references).sum(axis=1)
        return [(square, outputs.shape[1]) for square in squares.tolist()]

    def score(self, totals: Sequence[float]) -> float:
        """Returns the mean."""
        return totals[0] / totals[1]


@registry.register_metric("rmse")
class RootMeanSquaredError(MeanSquaredError):
    """The root of the mean squared error, in the unit of the numbers."""

    title = "root mean squared error"

    def score(self, totals: Sequence[float]) -> float:
        """Returns the root."""
        return math.sqrt(super().score(totals))


@registry.register_metric("pearson")
class Pearson(OutputMetric):
    """Pearson's correlation of outputs and references; of several numbers, the mean over them.

    Where all outputs or all references are the same, it is 0.
    """

    title = "Pearson's r"
    form = ".4f"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns what `score` needs of each segment."""
        rows: list[list[float]] = _moments(*_numbers(segments)).tolist()
        return rows

    def score(self, totals: Sequence[float]) -> float:
        """Returns the correlation."""
        count = totals[0]
        x, y, xx, yy, xy = np.array(totals[1:]).reshape(5, -1) / count
        spread = np.sqrt(np.maximum(xx - x * x, 0) * np.maximum(yy - y * y, 0))
        # What is left of equal numbers by rounding is no spread.
        has_spread = spread > 1e-12 * np.sqrt(xx * yy)
        return float(np.mean(np.where(has_spread, (xy - x * y) / np.where(spread, spread, 1), 0)))


@registry.register_metric("spearman")
class Spearman(Pearson):
    """Spearman's correlation: that of ranks, equal numbers having the mean of theirs."""

    title = "Spearman's r"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns one row, since ranks are of all segments together."""
        of_ranks = (np.apply_along_axis(ranks, 0, side) for side in _numbers(segments))
        totals: list[float] = _moments(*of_ranks).sum(axis=0).tolist()
        return [totals]


def ranks(numbers: np.ndarray) -> np.ndarray:
    """Returns the ranks of numbers [n], from 1; equal ones have the mean of their ranks."""
    _, group, sizes = np.unique(numbers, return_inverse=True, return_counts=True)
    return np.asarray(np.cumsum(sizes) - (sizes - 1) / 2)[group]
