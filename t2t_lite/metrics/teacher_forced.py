"""Metrics of predictions under teacher forcing, with T2T's names."""

import math
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.metrics.base import TeacherForcedMetric, TeacherForcedTotals

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem


@registry.register_metric
class Loss(TeacherForcedMetric):
    """Nats per token, without label smoothing; of regression, the mean squared error."""

    title = "evaluation loss"
    lower_is_better = True
    of_numbers = True

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return totals.loss / max(totals.tokens, 1.0)


@registry.register_metric
class NegLogPerplexity(Loss):
    """The negative of the loss."""

    title = "negative log perplexity"
    lower_is_better = False
    of_numbers = False
    in_report = False  # the loss with its sign changed

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return -super().score(totals)


@registry.register_metric
class Perplexity(Loss):
    """The exponential of the loss."""

    title = "perplexity"
    of_numbers = False
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


@registry.register_metric("accuracy_top5")
class AccuracyTop5(TeacherForcedMetric):
    """Share of tokens that are among the five most probable predictions."""

    title = "accuracy among five (share of tokens)"
    in_report = False  # the accuracy, less strict

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return totals.in_top5 / max(totals.tokens, 1.0)


@registry.register_metric
class PrefixAccuracy(TeacherForcedMetric):
    """Share of a sentence's tokens before its first wrong prediction, averaged over sentences."""

    title = "prefix accuracy"
    in_report = False

    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
        return totals.prefixes / max(totals.sentences, 1.0)


@registry.register_metric
class BitsPerChar(TeacherForcedMetric):
    """Bits per character of the targets' text, which do not depend on the vocabulary.

    EOS has a loss, but is not a character.
    """

    title = "bits per character"
    lower_is_better = True
    in_report = False  # the loss on another scale

    def suits(self, problem: "Problem") -> bool:
        """Whether targets are text."""
        return problem.has_text_targets

    def score(self, totals: TeacherForcedTotals) -> float | None:
        """Returns the score; None if the number of characters is unknown."""
        return totals.loss / math.log(2) / totals.characters if totals.characters else None


@registry.register_metric("roc_auc")
class RocAuc(TeacherForcedMetric):
    """Area under the ROC curve of two labels.

    This is the probability that of two texts, one with each label, the one with the second label
    gets the higher probability of that label (one half if both get the same).
    """

    title = "area under the ROC curve"
    in_report = False  # most problems have no labels

    def suits(self, problem: "Problem") -> bool:
        """Whether targets are labels, of which there are two."""
        return problem.has_labels and getattr(problem, "num_classes", 2) == 2

    def score(self, totals: TeacherForcedTotals) -> float | None:
        """Returns the score; None if not both of two labels occur."""
        if not totals.by_probability or not all(map(sum, totals.by_probability)):
            return None
        below = pairs = 0.0  # texts with the first label in lower intervals; pairs in order
        for first, second in zip(*totals.by_probability, strict=True):
            pairs += second * (below + first / 2)
            below += first
        return pairs / below / sum(totals.by_probability[1])
