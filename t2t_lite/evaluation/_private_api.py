"""All uses of sacreBLEU's private interface, for the versions pinned in setup.cfg."""

from collections.abc import Sequence
from typing import Any, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

_CACHES = (Tokenizer13a, TokenizerRegexp, TercomTokenizer, TokenizerZh)


def segment_statistics(
    counter: Metric, outputs: Sequence[str], references: Sequence[str]
) -> list[list[float]]:
    """Returns a metric's counts for each segment."""
    return counter._extract_corpus_statistics(outputs, [references])


def score_of(counter: Metric, totals: Sequence[float]) -> float:
    """Returns a metric's score for summed counts."""
    return counter._compute_score_from_stats(cast(list[Any], totals)).score  # any sequence will do


def forget_lines() -> None:
    """Empties the tokenizers' caches.

    They keep the last 65,536 lines, which no later call needs; a training run with a thousand
    evaluations would hold them all in memory.
    """
    for tokenizer in _CACHES:
        tokenizer.__call__.cache_clear()
