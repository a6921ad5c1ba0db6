"""Which of two systems is better, and how sure that is: paired bootstrap resampling.

Koehn (2004), "Statistical Significance Tests for Machine Translation Evaluation", as sacreBLEU
does it. Its seed is in the signature; the environment variable SACREBLEU_SEED sets another.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sacrebleu.metrics.base import Metric, Score
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from t2t_lite.errors import DataError
from t2t_lite.evaluation.parseval import COLLINS, Sentence, parse_sentence, score_sentence

_SAMPLES = 1000


@dataclasses.dataclass(frozen=True)
class Resampled:
    """A system's score over resampled test sets."""

    score: float  # of the test set itself
    mean: float  # over the samples
    half_width: float  # of the interval around the mean that holds 95 % of them
    p_value: float | None  # that a difference so large comes by chance; None: of the baseline
    signature: str  # sacreBLEU's: how it was counted, how many samples, their seed


def paired_bootstrap(
    metric: str, systems: Mapping[str, Sequence[str]], references: Sequence[str]
) -> dict[str, Resampled]:
    """Compares systems with the first of them on one test set.

    Args:
        metric: "bleu" or "bracketing_f1".
        systems: outputs by the system's name; the first is the baseline.
        references: the right texts, in the same order.

    Returns:
        What each system's score is worth, by its name.

    Raises:
        DataError: there are no sentences, or not as many outputs as references.
    """
    for name, outputs in systems.items():
        if not references or len(outputs) != len(references):
            raise DataError(f"{name}: {len(outputs)} outputs but {len(references)} references")
    counted = BLEU(tokenize="13a") if metric == "bleu" else _BracketingF1()
    named: list[tuple[str, Sequence[str]]] = [
        (name, list(outputs)) for name, outputs in systems.items()
    ]
    test = PairedTest(named, {metric: counted}, [list(references)], "bs", _SAMPLES)
    signatures, scores = test()
    ((label, signature),) = signatures.items()
    results = [result for result in scores[label] if isinstance(result, Result)]
    resampled = {}
    for name, result in zip(systems, results, strict=True):
        p_value = result.p_value
        if p_value is not None and result.score == results[0].score:
            p_value = 1.0  # sacreBLEU counts samples that exceed the difference: none exceeds 0
        score, mean, half_width = np.array([result.score, result.mean, result.ci], float).tolist()
        resampled[name] = Resampled(score, mean, half_width, p_value, str(signature))
    return resampled


class _BracketingF1(Metric):
    """EVALB's F1 as a metric of sacreBLEU, which adds up the statistics of sentences."""

    def _preprocess_segment(self, sent: str) -> str:
        return sent

    def _extract_reference_info(self, refs: Sequence[str]) -> dict[str, Any]:
        return {"gold": parse_sentence(refs[0])}

    def _compute_segment_statistics(
        self, hypothesis: str, ref_kwargs: dict[str, Sentence]
    ) -> list[int]:
        score = score_sentence(ref_kwargs["gold"], parse_sentence(hypothesis), COLLINS)
        return [score.matched, score.gold_brackets, score.test_brackets]

    def _aggregate_and_compute(self, stats: list[list[int]]) -> Score:
        return self._compute_score_from_stats(np.sum(stats, axis=0))

    def _compute_score_from_stats(self, stats: Sequence[float]) -> Score:
        matched, gold, test = map(float, stats)
        # The harmonic mean of matched / gold and matched / test.
        return Score("F1", 200.0 * matched / (gold + test or 1.0))
