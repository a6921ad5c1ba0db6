"""BLEU as sacreBLEU counts it (Post 2018): exponential smoothing, tokenization 13a, or zh."""

import dataclasses
import logging
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import regex

from t2t_lite import registry
from t2t_lite.errors import DataError
from t2t_lite.metrics.base import Segment, Statistics
from t2t_lite.metrics.sacrebleu_metric import SacrebleuMetric
from t2t_lite.text.scripts import UNSPACED

if TYPE_CHECKING:
    from sacrebleu.metrics.bleu import BLEU

log = logging.getLogger(__name__)

# 13a splits off only ASCII quotation marks.
_QUOTATION_MARKS = str.maketrans("„“”«»‚‘’", '"""""\'\'\'')
_COMPOUND = re.compile(r"(\S)-(\S)")


@registry.register_metric
class Bleu(SacrebleuMetric):
    """Case-sensitive BLEU of detokenized text."""

    title = "BLEU"
    label = "BLEU_cased"
    tokenize: ClassVar[str] = "13a"  # sacreBLEU's name of a tokenizer

    def make_counter(self) -> "BLEU":
        """Returns sacreBLEU's BLEU."""
        from sacrebleu.metrics.bleu import BLEU

        return BLEU(tokenize=self.tokenize)

    def count(self, segments: Sequence[Segment]) -> Statistics:
        """Returns lengths, matching n-grams and n-grams of each segment."""
        return [
            [score.sys_len, score.ref_len, *score.counts, *score.totals]
            for score in self.segment_scores(segments)
        ]

    def caution(self, segments: Sequence[Segment]) -> str:
        """Returns that the references have too few words, or words without spaces, if so."""
        return _caution(cast("BLEU", self._counter), [segment.reference for segment in segments])

    def score(self, totals: Sequence[float]) -> float:
        """Returns the BLEU of summed counts."""
        counter = cast("BLEU", self._counter)
        orders = counter.max_ngram_order
        counts = cast(list[int], list(totals))  # in any type of number
        return counter.compute_bleu(
            correct=counts[2 : 2 + orders],
            total=counts[2 + orders :],
            sys_len=int(counts[0]),
            ref_len=int(counts[1]),
            smooth_method=counter.smooth_method,
            smooth_value=counter.smooth_value,
            effective_order=counter.effective_order,
            max_ngram_order=orders,
        ).score


@registry.register_metric
class BleuZh(Bleu):
    """Case-sensitive BLEU of Chinese text, whose characters count as words."""

    title = "BLEU (zh)"
    label = "BLEU_zh_cased"
    tokenize = "zh"


class SentenceBleu:
    """Smoothed BLEU of single sentences: it compares hypotheses, and is not to be reported.

    N-grams longer than a sentence do not count (sacreBLEU's effective order).

    Args:
        tokenize: sacreBLEU's name of a tokenizer.
    """

    def __init__(self, tokenize: str = Bleu.tokenize) -> None:
        from sacrebleu.metrics.bleu import BLEU

        self._counter = BLEU(tokenize=tokenize, effective_order=True)

    def nearest(self, hypotheses: Sequence[str], reference: str) -> str:
        """Returns the hypothesis with the highest score, the first one of several."""
        return max(
            hypotheses, key=lambda text: self._counter.sentence_score(text, [reference]).score
        )


@dataclasses.dataclass(frozen=True)
class BleuScore:
    """A corpus score and how it was counted."""

    score: float  # 0 to 100
    signature: str  # sacreBLEU's: quote it beside the score


def corpus_bleu(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool = False
) -> BleuScore:
    """Scores translations against one reference each.

    Args:
        hypotheses: detokenized sentences.
        references: the reference translations, in the same order.
        lowercase: whether to ignore case.

    Raises:
        DataError: there are no sentences, or the numbers of hypotheses and references differ.
    """
    from sacrebleu.metrics.bleu import BLEU

    _check(hypotheses, references)
    metric = BLEU(lowercase=lowercase, tokenize="13a")
    return _score(metric, hypotheses, references)


def likeness_bleu(outputs: Sequence[str], expected: Sequence[str]) -> BleuScore:
    """Scores outputs against those of another program, in whatever script and however short.

    N-grams longer than all lines do not count. Text that is written without spaces is compared by
    characters.

    Args:
        outputs: one line each.
        expected: those of the other program, in the same order.

    Raises:
        DataError: there are no lines, or the numbers of lines differ.
    """
    from sacrebleu.metrics.bleu import BLEU

    _check(outputs, expected)
    metric = BLEU(tokenize="char" if _is_unspaced(expected) else "13a", effective_order=True)
    return _score(metric, outputs, expected)


def compound_split_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> BleuScore:
    """Scores translations by words and parts of compounds, as T2T's get_ende_bleu.sh does.

    Quotation marks become ASCII, sacreBLEU's 13a replaces Moses' tokenizer, and a hyphen inside a
    word becomes a separate token, so that "Roll-out" can match in part. These scores are not
    comparable with sacreBLEU's.

    Args:
        hypotheses: detokenized sentences.
        references: the reference translations, in the same order.

    Raises:
        DataError: there are no sentences, or the numbers of hypotheses and references differ.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    _check(hypotheses, references)
    tokenize = Tokenizer13a()

    def split(sentence: str) -> str:
        words = tokenize(sentence.translate(_QUOTATION_MARKS))
        return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", words)

    metric = BLEU(tokenize="none", force=True, smooth_method="none")
    ours, theirs = ([split(sentence) for sentence in side] for side in (hypotheses, references))
    found = _score(metric, ours, theirs)
    signature = found.signature.replace("tok:none", "tok:13a+compounds")
    return dataclasses.replace(found, signature=signature)


def _score(metric: "BLEU", hypotheses: Sequence[str], references: Sequence[str]) -> BleuScore:
    from t2t_lite.metrics import _private_api

    score = metric.corpus_score(hypotheses, [references]).score
    if caution := _caution(metric, references):
        log.warning("BLEU: %s", caution)
    _private_api.forget_lines()
    return BleuScore(score, str(metric.get_signature()))


def _caution(metric: "BLEU", references: Sequence[str]) -> str:
    order = metric.max_ngram_order
    are_short = any(references) and all(len(text.split()) < order for text in references)
    if are_short and not metric.corpus_score(references, [references]).score:
        return (
            f"no reference has {order} words as this score counts them, so that even equal outputs "
            "score 0; use chrf or exact_match, for Chinese bleu_zh"
        )
    if metric.tokenizer_signature == Bleu.tokenize and _is_unspaced(references):
        return (
            "most of the references is in a script without spaces between words, so that a "
            "sentence counts as one word, unless spaces were added; use chrf, for Chinese bleu_zh"
        )
    return ""


def _is_unspaced(texts: Sequence[str]) -> bool:
    """Whether most of the texts is in scripts without spaces between words."""
    text = "\n".join(texts)
    return len(regex.findall(f"[{UNSPACED}]", text)) > len(text.split())


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if len(hypotheses) != len(references):
        raise DataError(f"BLEU: {len(hypotheses)} hypotheses but {len(references)} references")
    if not references:
        raise DataError("BLEU: there are no sentences to score")
