"""Translation edit rate as sacreBLEU computes it (Snover et al. 2006)."""

from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.evaluation.sacrebleu_metric import SacrebleuMetric

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
