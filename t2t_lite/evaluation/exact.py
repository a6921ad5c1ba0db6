"""Exact matches of whole outputs and of words."""

from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.evaluation.metric import OutputMetric, Segment, Statistics


@registry.register_metric
class ExactMatch(OutputMetric):
    """Share of the outputs that equal their reference."""

    title = "exact match (% of outputs)"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns 1 or 0 for a match, and 1."""
        return [(segment.output == segment.reference, 1) for segment in segments]


@registry.register_metric
class TokenAccuracy(OutputMetric):
    """Share of the words that equal the reference word at the same position.

    Words are separated by white space. Surplus and missing words count as wrong. For the accuracy
    of predictions under teacher forcing, see `accuracy`.
    """

    title = "token accuracy (% of words)"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the number of correct words and the length of the longer side."""
        pairs = [(segment.output.split(), segment.reference.split()) for segment in segments]
        return [
            (sum(map(str.__eq__, output, reference)), max(len(output), len(reference)))
            for output, reference in pairs
        ]
