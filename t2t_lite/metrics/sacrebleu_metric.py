"""The base class of the metrics that sacreBLEU computes."""

import abc
import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from t2t_lite.metrics.base import OutputMetric, Segment, Statistics

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric as Counter


class SacrebleuMetric(OutputMetric):
    """A sacreBLEU metric with its signature."""

    @abc.abstractmethod
    def make_counter(self) -> "Counter":
        """Returns sacreBLEU's metric; imports sacreBLEU only here, because that is slow."""

    @functools.cached_property
    def _counter(self) -> "Counter":
        return self.make_counter()

    @functools.cached_property
    def signature(self) -> str:
        """SacreBLEU's signature."""
        from t2t_lite.metrics import _private_api

        counter = self.make_counter()
        counter.corpus_score([""], [[""]])  # the signature is incomplete before the first reference
        _private_api.forget_lines()
        return str(counter.get_signature())

    @property
    def signature_values(self) -> dict[str, str]:
        """The signature as evaluations record it."""
        return {f"{self.name}_signature": self.signature}

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns sacreBLEU's counts for each segment."""
        from t2t_lite.metrics import _private_api

        rows = self.count(segments)
        _private_api.forget_lines()
        return rows

    def count(self, segments: Sequence[Segment]) -> Statistics:
        """Returns sacreBLEU's counts for each segment; a subclass may take them from a score."""
        from t2t_lite.metrics import _private_api

        outputs = [segment.output for segment in segments]
        references = [segment.reference for segment in segments]
        return _private_api.segment_statistics(self._counter, outputs, references)

    def segment_scores(self, segments: Sequence[Segment]) -> Iterator[Any]:
        """Yields sacreBLEU's score of each segment, with what it is computed from."""
        for segment in segments:
            yield self._counter.corpus_score([segment.output], [[segment.reference]])

    def score(self, totals: Sequence[float]) -> float:
        """Returns sacreBLEU's score for summed counts."""
        from t2t_lite.metrics import _private_api

        return _private_api.score_of(self._counter, totals)
