"""BLEU as sacreBLEU counts it (Post 2018): 13a tokenization, exponential smoothing."""

import dataclasses
from collections.abc import Sequence

from sacrebleu.metrics.bleu import BLEU

from t2t_lite.errors import DataError


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
        references: the right translations, in the same order.
        lowercase: whether case is ignored.

    Raises:
        DataError: no sentences, or not as many hypotheses as references.
    """
    if len(hypotheses) != len(references):
        raise DataError(f"BLEU: {len(hypotheses)} hypotheses but {len(references)} references")
    if not references:
        raise DataError("BLEU: there are no sentences to score")
    metric = BLEU(lowercase=lowercase, tokenize="13a")
    score = metric.corpus_score(hypotheses, [references]).score
    return BleuScore(score, str(metric.get_signature()))
