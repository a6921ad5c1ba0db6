"""Metrics of numbers: one or more in each output and reference, with white space between."""

import math
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.metrics.base import OutputMetric, Segment, Statistics


@registry.register_metric("mse")
class MeanSquaredError(OutputMetric):
    """The mean squared error of all numbers."""

    title = "mean squared error"
    lower_is_better = True
    form = ".4g"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the sum of squared errors, and how many numbers there are."""
        from t2t_lite.metrics.correlation import numbers_of  # loads NumPy

        outputs, references = numbers_of(segments)
        squares = ((outputs - references) ** 2).sum(axis=1)
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
        from t2t_lite.metrics.correlation import moments, numbers_of

        rows: list[list[float]] = moments(*numbers_of(segments)).tolist()
        return rows

    def score(self, totals: Sequence[float]) -> float:
        """Returns the correlation."""
        from t2t_lite.metrics.correlation import correlation

        return correlation(totals)


@registry.register_metric("spearman")
class Spearman(Pearson):
    """Spearman's correlation: that of ranks, equal numbers having the mean of theirs."""

    title = "Spearman's r"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns one row, since ranks are of all segments together."""
        from t2t_lite.metrics.correlation import moments, numbers_of, ranks

        of_ranks = map(ranks, numbers_of(segments))
        totals: list[float] = moments(*of_ranks).sum(axis=0).tolist()
        return [totals]
