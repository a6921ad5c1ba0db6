"""Exact matches of whole outputs, of words and of numbers."""

import itertools
from collections import Counter
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.metrics.base import OutputMetric, Segment, Statistics


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


@registry.register_metric
class NumbersExact(OutputMetric):
    """Share of the outputs with exactly the numbers of their reference, in any order.

    A number is a word with a digit, as it stands, with the word that follows it, which is a month,
    a currency or what is counted: "3. Mai", "12,50 €", "5 Kilometer". Segments without numbers on
    either side do not count.
    """

    title = "numbers exact (% of outputs with numbers)"

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns 1 or 0 for the right numbers, and 1; two zeros where there are none."""
        pairs = [(_numbers(segment.output), _numbers(segment.reference)) for segment in segments]
        return [
            (output == reference, 1) if output or reference else (0, 0)
            for output, reference in pairs
        ]

    def caution(self, segments: Sequence[Segment]) -> str:
        """Returns that there are no numbers."""
        texts = (text for segment in segments for text in (segment.output, segment.reference))
        if any(map(_numbers, texts)):
            return ""
        return "no segment has a number, so that the score says nothing; leave it out"


def _numbers(text: str) -> Counter[tuple[str, str]]:
    """Counts the words with a digit, each with the word that follows it ("" at the end)."""
    words = [*text.split(), ""]
    return Counter(pair for pair in itertools.pairwise(words) if any(map(str.isdigit, pair[0])))
