"""Bracketing F1 of parse trees with EVALB's COLLINS.prm, as in published results."""

import logging
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.errors import DataError
from t2t_lite.metrics.base import MetricValue, Needs, OutputMetric, Score, Segment, Statistics
from t2t_lite.metrics.evalb_parameters import COLLINS
from t2t_lite.metrics.parseval import (
    BracketingScore,
    Sentence,
    SentenceScore,
    bracketing_f1,
    parse_sentence,
    score_sentence,
    summarize,
)

log = logging.getLogger(__name__)


@registry.register_metric("bracketing_f1")
class BracketingF1(OutputMetric):
    """EVALB's F1 of labelled brackets.

    EVALB leaves out sentences with wrongly tagged punctuation, which flatters a model that loses
    track of the words. The F1 of all sentences is therefore reported too.
    """

    title = "bracketing F1"
    needs = Needs.TREES
    extras = (
        MetricValue("bracketing_f1_of_all", "bracketing F1 of all sentences"),
        MetricValue("recall", "bracketing recall"),
        MetricValue("precision", "bracketing precision"),
        MetricValue("complete_match", "complete match"),
        MetricValue("tagging_accuracy", "tagging accuracy"),
        MetricValue("well_formed", "well-formed before repair"),
        MetricValue("unscored_sentences", "sentences that EVALB leaves out", lower_is_better=True),
        MetricValue("repairs", "repairs", lower_is_better=True),
    )

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns counts of matched brackets, reference brackets and output brackets."""
        return _rows(_scores(*_read(segments)))

    def score(self, totals: Sequence[float]) -> float:
        """Returns F1, the harmonic mean of matched / gold and matched / test."""
        matched, gold, test = map(float, totals)
        return 200.0 * matched / (gold + test or 1.0)

    def evaluate(self, segments: Sequence[Segment]) -> Score:
        """Scores trees."""
        gold, test = _read(segments)
        scores = _scores(gold, test)
        summary = summarize(scores)
        f1_of_all = summary.f1
        unscored = summary.errors + summary.skipped
        if unscored:
            f1_of_all = bracketing_f1(gold, test, skip_invalid=False).f1
            _warn(summary)
        trees = [segment for segment in segments if segment.output]
        whole = sum(tree.repairs == 0 for tree in trees)
        repairs = sum(tree.repairs for tree in trees)
        well_formed = 100.0 * whole / (len(trees) or 1)
        counts = f"{whole} of {len(trees)} outputs; {repairs} repairs"
        return Score(
            values={
                self.name: summary.f1,
                "bracketing_f1_of_all": f1_of_all,
                "recall": summary.recall,
                "precision": summary.precision,
                "complete_match": summary.complete_match,
                "tagging_accuracy": summary.tagging_accuracy,
                "unscored_sentences": unscored,
                "well_formed": well_formed,
                "repairs": repairs,
            },
            report=f"""\
Bracketing F1 = {summary.f1:6.2f}
Bracketing recall = {summary.recall:6.2f}
Bracketing precision = {summary.precision:6.2f}
Complete match = {summary.complete_match:6.2f}
Tagging accuracy = {summary.tagging_accuracy:6.2f}
scored as by EVALB with COLLINS.prm: {summary.valid} of {summary.sentences} sentences
F1 if the others count as missed: {f1_of_all:.2f}
well-formed before repair: {well_formed:.1f} % ({counts})""",
            summary=f"bracketing F1 {summary.f1:.2f} (of all sentences {f1_of_all:.2f}; "
            f"{well_formed:.1f} % well-formed)",
            statistics=_rows(scores),
        )


def _warn(summary: BracketingScore) -> None:
    log.warning(
        "bracketing F1 leaves out %d of %d sentences, as EVALB does: %d where the two trees "
        "tag different words as punctuation, %d without an output to score",
        summary.errors + summary.skipped,
        summary.sentences,
        summary.errors,
        summary.skipped,
    )


def _read(segments: Sequence[Segment]) -> tuple[list[Sentence], list[Sentence]]:
    """Returns the trees of the references and of the outputs.

    Raises:
        DataError: a text is not a bracketed tree.
    """
    gold = [_tree(segment.reference, f"reference {i}") for i, segment in enumerate(segments, 1)]
    test = [_tree(segment.output, f"output {i}") for i, segment in enumerate(segments, 1)]
    return gold, test


def _tree(text: str, name: str) -> Sentence:
    try:
        return parse_sentence(text)
    except DataError as error:
        raise DataError(f"bracketing_f1 needs bracketed trees; {name}: {error}") from None


def _scores(gold: Sequence[Sentence], test: Sequence[Sentence]) -> list[SentenceScore]:
    return [score_sentence(one, other, COLLINS) for one, other in zip(gold, test, strict=True)]


def _rows(scores: Sequence[SentenceScore]) -> Statistics:
    return [(score.matched, score.gold_brackets, score.test_brackets) for score in scores]
