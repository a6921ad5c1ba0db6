"""ROUGE of summaries (Lin 2004) as rouge-score counts it, words reduced to their stems."""

import functools
import importlib.metadata
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from t2t_lite import extras, registry
from t2t_lite.metrics.base import OutputMetric, Segment, Statistics

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer

_WORD = re.compile("[A-Za-z0-9]+")  # as rouge-score splits a text


class Rouge(OutputMetric):
    """Mean F-score of the segments, in per cent."""

    kind: ClassVar[str]  # rouge-score's name
    fewest_words: ClassVar[int] = 1  # of a text that does not score 0 against itself

    def check(self) -> None:
        """Raises UserError if rouge-score is not installed."""
        extras.require(extras.ROUGE, f"metric {self.name!r}")

    @functools.cached_property
    def _scorer(self) -> "RougeScorer":
        self.check()
        from rouge_score.rouge_scorer import RougeScorer

        return RougeScorer([self.kind], use_stemmer=True)

    @property
    def signature(self) -> str:
        """The settings that change the score, and rouge-score's version."""
        version = importlib.metadata.version("rouge-score")
        return f"nrefs:1|{self.kind}|stem:porter|version:rouge-score-{version}"

    @property
    def signature_values(self) -> dict[str, str]:
        """The signature as evaluations record it."""
        return {f"{self.name}_signature": self.signature}

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns the F-score of each segment, and 1."""
        return [
            (self._scorer.score(segment.reference, segment.output)[self.kind].fmeasure, 1)
            for segment in segments
        ]

    def caution(self, segments: Sequence[Segment]) -> str:
        """Returns that references have too few words that count, or other than Latin letters."""
        counted = [_is_counted(segment.reference) for segment in segments]
        if not all(counted):
            return (
                f"{counted.count(False)} of {len(counted)} references are mostly in other letters "
                "than a to z, which rouge-score passes over; use chrf"
            )
        texts = [segment.reference for segment in segments if segment.reference.strip()]
        short = sum(len(_WORD.findall(text)) < self.fewest_words for text in texts)
        if not short:
            return ""
        return (
            f"{short} of {len(texts)} references have too few words of a to z and digits, so that "
            "even equal outputs score 0; use chrf or exact_match"
        )


def _is_counted(text: str) -> bool:
    """Whether rouge-score counts at least half of the letters and digits."""
    ours = [character.isascii() for character in text if character.isalnum()]
    return 2 * sum(ours) >= len(ours)


@registry.register_metric("rouge_1")
class Rouge1(Rouge):
    """Words that output and reference share."""

    title = "ROUGE-1"
    kind = "rouge1"


@registry.register_metric("rouge_2")
class Rouge2(Rouge):
    """Pairs of words that output and reference share."""

    title = "ROUGE-2"
    kind = "rouge2"
    fewest_words = 2


@registry.register_metric("rouge_l")
class RougeL(Rouge):
    """The longest sequence of words, with gaps, that output and reference share."""

    title = "ROUGE-L"
    kind = "rougeL"
