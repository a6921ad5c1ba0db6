"""ChrF and chrF++ as sacreBLEU counts them (Popović 2015, 2017)."""

from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.metrics.sacrebleu_metric import SacrebleuMetric

if TYPE_CHECKING:
    from sacrebleu.metrics.chrf import CHRF


@registry.register_metric("chrf")
class Chrf(SacrebleuMetric):
    """F-score of character n-grams, with recall weighted double."""

    title = "chrF"

    def make_counter(self) -> "CHRF":
        """Returns sacreBLEU's chrF."""
        from sacrebleu.metrics.chrf import CHRF

        return CHRF()


@registry.register_metric("chrf_plus_plus")
class ChrfPlusPlus(SacrebleuMetric):
    """F-score of character n-grams, words and word pairs."""

    title = "chrF++"

    def make_counter(self) -> "CHRF":
        """Returns sacreBLEU's chrF with words."""
        from sacrebleu.metrics.chrf import CHRF

        return CHRF(word_order=2)
