"""All uses of sacreBLEU's private interface: the same from 2.4 to 2.6, checked before each use.

BLEU and TER do not need it. ChrF does: sacreBLEU gives its counts away nowhere else.
"""

from collections.abc import Callable, Sequence
from typing import Any

import sacrebleu
from sacrebleu.metrics.base import Metric
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from t2t_lite.errors import UserError

_CACHES = (Tokenizer13a, TokenizerRegexp, TercomTokenizer, TokenizerZh)


def segment_statistics(
    counter: Metric, outputs: Sequence[str], references: Sequence[str]
) -> list[list[float]]:
    """Returns a metric's counts for each segment.

    Raises:
        UserError: this release of sacreBLEU does not tell them.
    """
    return _method(counter, "_extract_corpus_statistics")(outputs, [references])


def score_of(counter: Metric, totals: Sequence[float]) -> float:
    """Returns a metric's score for summed counts.

    Raises:
        UserError: this release of sacreBLEU does not compute it.
    """
    return _method(counter, "_compute_score_from_stats")(totals).score


def forget_lines() -> None:
    """Empties the tokenizers' caches, where there are any.

    They keep the last 65,536 lines, which no later call needs; a training run with a thousand
    evaluations would hold them all in memory.
    """
    for tokenizer in _CACHES:
        if hasattr(tokenizer.__call__, "cache_clear"):
            tokenizer.__call__.cache_clear()


def _method(counter: Metric, name: str) -> Callable[..., Any]:
    method = getattr(counter, name, None)
    if method is None:
        raise UserError(
            f"sacrebleu {sacrebleu.__version__} does not tell the counts of "
            f"{type(counter).__name__}: pip install 'sacrebleu<2.7'"
        )
    return method
