"""Outputs that are right to the letter, whole or word by word."""

from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.evaluation.metric import OutputMetric, Segment, Statistics


@registry.register_metric
class ExactMatch(OutputMetric):
    """Share of the outputs that equal their reference."""

    title = "exact match (% of outputs)"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns whether it is right, and 1."""
        return [(segment.output == segment.reference, 1) for segment in segments]


@registry.register_metric
class TokenAccuracy(OutputMetric):
    """Share of the words that stand at their place in the reference.

    Words are what white space separates. Those that an output has too many or too few count as
    wrong. For predictions given right prefixes, see `accuracy`.
    """

    title = "token accuracy (% of words)"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the number of right words, and of words on the longer side."""
        pairs = [(segment.output.split(), segment.reference.split()) for segment in segments]
        return [
            (sum(map(str.__eq__, output, reference)), max(len(output), len(reference)))
            for output, reference in pairs
        ]
