"""SARI of simplified or rewritten text (Xu et al. 2016), with one reference."""

from collections.abc import Sequence, Set
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.metrics.base import Needs, OutputMetric, Segment, Statistics

_ORDERS = range(1, 5)  # lengths of n-grams

_NGrams = Set[tuple[str, ...]]


@registry.register_metric
class Sari(OutputMetric):
    """How well an output adds, keeps and deletes n-grams of the source's words.

    As in T2T, it is the mean of three scores, each averaged over n-grams of one to four words: F1
    of those added, F1 of those kept, and precision of those deleted.
    """

    title = "SARI"
    needs: ClassVar[Needs] = Needs.SOURCES

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the score of each segment, and 1."""
        return [(_sari(segment), 1) for segment in segments]


def _sari(segment: Segment) -> float:
    texts = segment.source, segment.output, segment.reference
    scores = []
    for order in _ORDERS:
        source, output, reference = (_ngrams(text.split(), order) for text in texts)
        scores += [
            _f1(output - source, reference - source),
            _f1(output & source, reference & source),
            _share(source - output, source - reference),
        ]
    return sum(scores) / len(scores)


def _ngrams(words: Sequence[str], order: int) -> _NGrams:
    return {tuple(words[i : i + order]) for i in range(len(words) - order + 1)}


def _share(part: _NGrams, whole: _NGrams) -> float:
    """Returns the share of a set that is in another; of an empty set, 1."""
    return len(part & whole) / len(part) if part else 1.0


def _f1(found: _NGrams, wanted: _NGrams) -> float:
    precision, recall = _share(found, wanted), _share(wanted, found)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0
