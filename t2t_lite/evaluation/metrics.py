"""The scores of outputs, by the names that problems give them (`Problem.metric`)."""

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence

from t2t_lite.data.problem import Output
from t2t_lite.errors import UserError, did_you_mean
from t2t_lite.evaluation.bleu import corpus_bleu
from t2t_lite.evaluation.parseval import bracketing_f1, parse_sentence

log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Score:
    """What a metric says of some outputs.

    Attributes:
        values: by name, as they stand in metrics.jsonl.
        report: lines for people, as `t2t-decoder` prints them.
        summary: the least of it, for a line of the trainer's log.
    """

    values: dict[str, float | int | str]
    report: str
    summary: str


def score_outputs(metric: str, outputs: Sequence[Output], references: Sequence[str]) -> Score:
    """Scores outputs against one reference each.

    Args:
        metric: a name in `METRICS`.
        outputs: as `Problem.show` makes them; empty text: there is none.
        references: the right texts, in the same order.

    Raises:
        UserError: there is no such metric.
        DataError: there is nothing to score, or not as many outputs as references.
    """
    if metric not in METRICS:
        raise UserError(
            f"unknown metric {metric!r}{did_you_mean(metric, METRICS)}; known are "
            f"{', '.join(METRICS)}"
        )
    return METRICS[metric](outputs, references)


def _bleu(outputs: Sequence[Output], references: Sequence[str]) -> Score:
    bleu = corpus_bleu([output.text for output in outputs], references)
    return Score(
        values={"bleu": bleu.score, "bleu_signature": bleu.signature},
        report=f"BLEU_cased = {bleu.score:6.2f}\nBLEU_cased signature: {bleu.signature}",
        summary=f"BLEU {bleu.score:.2f} ({bleu.signature})",
    )


def _bracketing_f1(outputs: Sequence[Output], references: Sequence[str]) -> Score:
    """Scores bracketed trees as published results are, with EVALB's COLLINS.prm.

    EVALB leaves out a sentence whose punctuation is tagged amiss, which flatters a model that gets
    out of step with the words; hence an F1 of all sentences, too.
    """
    gold = [parse_sentence(text) for text in references]
    test = [parse_sentence(output.text) for output in outputs]
    summary = bracketing_f1(gold, test)
    f1_of_all = summary.f1
    unscored = summary.errors + summary.skipped
    if unscored:
        f1_of_all = bracketing_f1(gold, test, leave_out=False).f1
        log.warning(
            "bracketing F1 leaves out %d of %d sentences, as EVALB does: %d where the two trees "
            "tag different words as punctuation, %d without an output to score",
            unscored,
            summary.sentences,
            summary.errors,
            summary.skipped,
        )
    trees = [output for output in outputs if output.text]
    whole = sum(tree.repairs == 0 for tree in trees)
    repairs = sum(tree.repairs for tree in trees)
    well_formed = 100.0 * whole / (len(trees) or 1)
    counts = f"{whole} of {len(trees)} outputs; {repairs} repairs"
    return Score(
        values={
            "bracketing_f1": summary.f1,
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
    )


METRICS: Mapping[str, Callable[[Sequence[Output], Sequence[str]], Score]] = {
    "bleu": _bleu,
    "bracketing_f1": _bracketing_f1,
}
