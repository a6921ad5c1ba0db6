"""Metrics of predictions under teacher forcing, with T2T's names."""

import math

from t2t_lite import registry
from t2t_lite.metrics.base import TeacherForcedMetric, TeacherForcedTotals


@registry.register_metric
class Loss(TeacherForcedMetric):
    """Nats per token, without label smoothing."""

    title = "evaluation loss (nats per token)"
    lower_is_better = True

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return totals.loss / max(totals.tokens, 1.0)


@registry.register_metric
class NegLogPerplexity(Loss):
    """The negative of the loss."""

    title = "negative log perplexity"
    lower_is_better = False
    in_report = False  # the loss with its sign changed

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return -super().score(totals)


@registry.register_metric
class Perplexity(Loss):
    """The exponential of the loss."""

    title = "perplexity"
    in_report = False  # the loss on another scale

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        try:
            return math.exp(super().score(totals))
        except OverflowError:
            return math.inf


@registry.register_metric
class Accuracy(TeacherForcedMetric):
    """Share of tokens whose most probable prediction is correct."""

    title = "accuracy (share of tokens)"

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return totals.right / max(totals.tokens, 1.0)


@registry.register_metric
class AccuracyPerSequence(TeacherForcedMetric):
    """Share of sentences whose predictions are all correct."""

    title = "accuracy per sequence"

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return totals.all_right / max(totals.sentences, 1.0)
