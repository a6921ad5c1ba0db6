"""Translation edit rate as sacreBLEU computes it (Snover et al. 2006)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.metrics.base import Segment, Statistics
from t2t_lite.metrics.sacrebleu_metric import SacrebleuMetric

if TYPE_CHECKING:
    from sacrebleu.metrics.ter import TER


@registry.register_metric("ter")
class TranslationEditRate(SacrebleuMetric):
    """Edits that turn outputs into references, as a percentage of reference words."""

    title = "TER"
    lower_is_better = True

    def make_counter(self) -> "TER":
        """Returns sacreBLEU's TER."""
        from sacrebleu.metrics.ter import TER

        return TER()

    def count(self, segments: Sequence[Segment]) -> Statistics:
        """Returns edits and reference words of each segment."""
        return [[score.num_edits, score.ref_length] for score in self.segment_scores(segments)]

    def score(self, totals: Sequence[float]) -> float:
        """Returns the TER of summed counts; 100 for words where nothing is to be said."""
        edits, words = totals
        return 100.0 * (edits / words if words else float(edits > 0))
