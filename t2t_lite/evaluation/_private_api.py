"""What this package calls of sacreBLEU's private interface; setup.cfg pins the versions it has."""

from collections.abc import Sequence
from typing import Any, cast

from sacrebleu.metrics.base import Metric
from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a
from sacrebleu.tokenizers.tokenizer_re import TokenizerRegexp
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer

_CACHES = (Tokenizer13a, TokenizerRegexp, TercomTokenizer)


def segment_statistics(
    counter: Metric, outputs: Sequence[str], references: Sequence[str]
) -> list[list[float]]:
    """Returns what a metric counts of each segment."""
    return counter._extract_corpus_statistics(outputs, [references])


def score_of(counter: Metric, totals: Sequence[float]) -> float:
    """Returns a metric's score of segments whose counts add up to `totals`."""
    return counter._compute_score_from_stats(cast(list[Any], totals)).score  # any sequence will do


def forget_lines() -> None:
    """Empties the tokenizers' caches.

    They keep the last 65,536 lines, which no later call asks for: a training that evaluates itself
    a thousand times would hold them all.
    """
    for tokenizer in _CACHES:
        tokenizer.__call__.cache_clear()
