"""Edits: the insertions, deletions and substitutions that turn outputs into references."""

import abc
from collections.abc import Hashable, Sequence

from t2t_lite import registry
from t2t_lite.metrics.base import OutputMetric, Segment, Statistics


class _EditRate(OutputMetric):
    """The smallest number of edits, as a percentage of what the references have."""

    lower_is_better = True

    @abc.abstractmethod
    def units(self, text: str) -> Sequence[str]:
        """Returns what an edit changes one of."""

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the edits of each segment, and the length of its reference."""
        outputs = [self.units(segment.output) for segment in segments]
        references = [self.units(segment.reference) for segment in segments]
        return [*zip(_edits(outputs, references), map(len, references), strict=True)]

    def score(self, totals: Sequence[float]) -> float:
        """Returns the percentage; without references 100 for any output, as sacreBLEU's TER."""
        edits, length = totals
        return 100.0 * edits / length if length else 100.0 * (edits > 0)


@registry.register_metric
class EditDistance(_EditRate):
    """Edits of characters; words are separated by single spaces."""

    title = "edit distance (% of characters)"

    def units(self, text: str) -> str:
        """Returns the characters."""
        return " ".join(text.split())


@registry.register_metric
class WordErrorRate(_EditRate):
    """Edits of words, which white space separates."""

    title = "word error rate (%)"

    def units(self, text: str) -> list[str]:
        """Returns the words."""
        return text.split()


def _edits(
    outputs: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Hashable]]
) -> list[float]:
    """Returns the Levenshtein distance of each pair."""
    import tensorflow as tf

    numbers: dict[Hashable, int] = {}

    def numbered(rows: Sequence[Sequence[Hashable]]) -> tf.SparseTensor:
        ids = [numbers.setdefault(unit, len(numbers)) for row in rows for unit in row]
        values = tf.constant(ids, tf.int64)
        return tf.RaggedTensor.from_row_lengths(values, [*map(len, rows)]).to_sparse()

    with tf.device("CPU"):
        distances = tf.edit_distance(numbered(outputs), numbered(references), normalize=False)
    found: list[float] = distances.numpy().tolist()
    return found
