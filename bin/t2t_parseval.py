"""t2t-parseval: bracketing precision, recall and F1 of a file of parse trees."""

import pathlib
import sys
import types
from typing import TYPE_CHECKING

from t2t_lite.bin.command import Command
from t2t_lite.bin.flag import Flag
from t2t_lite.errors import DataError

if TYPE_CHECKING:
    from t2t_lite.metrics.parseval import BracketingScore, Sentence, SentenceScore

COMMAND = Command(
    "t2t-parseval",
    "prints bracketing recall, precision and F1 of parse trees, as EVALB counts them.\n"
    "Both files hold one bracketed tree per line; an empty line of the test file is skipped.",
    [
        "t2t-parseval --gold=wsj_23.trees --test=wsj_23.out --param=COLLINS.prm",
    ],
    {
        "Files": (
            Flag("gold", pathlib.Path, "", "Gold trees, in UTF-8; may be .gz."),
            Flag("test", pathlib.Path, "", "Trees to score, in the same order."),
            Flag(
                "param",
                pathlib.Path,
                "",
                "EVALB's parameter file; published WSJ scores use COLLINS.prm (default: labeled "
                "brackets, with nothing left out).",
            ),
        )
    },
)

_RULE = "=" * 76
_HEADER = f"""\
  Sent.                        Matched  Bracket   Cross        Correct Tag
 ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy
{_RULE}"""


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "gold", "test")
    from t2t_lite.metrics.evalb_parameters import EvalbParameters
    from t2t_lite.metrics.parseval import score_sentence, summarize

    parameters = EvalbParameters.read(args.param) if args.param else EvalbParameters()
    gold, test = _read(args.gold), _read(args.test)
    if len(gold) != len(test):
        raise DataError(
            f"{args.test} has {len(test)} lines but {args.gold} has {len(gold)}: they must pair "
            "line by line"
        )
    if not gold:
        raise DataError(f"{args.gold}: there are no trees to score")
    print(_HEADER)
    scores: list[SentenceScore] = []
    errors = 0
    for number, (right, tree) in enumerate(zip(gold, test, strict=True), 1):
        score = score_sentence(right, tree, parameters)
        if score.error:
            print(f"{number} : {score.error}", file=sys.stderr)
            # EVALB compares the number of errors before this one.
            if errors > parameters.max_error:
                raise DataError(
                    f"{args.test}, line {number}: {errors + 1} sentences differ from {args.gold} "
                    "in their words, or in those that DELETE_LABEL leaves out; fix them, or raise "
                    "MAX_ERROR in --param"
                )
            errors += 1
        print(_row(number, score))
        scores.append(score)
    summary = summarize(scores)
    short = summarize([score for score in scores if score.length <= parameters.cutoff_length])
    print(_RULE)
    print(_totals(summary))
    print("=== Summary ===")
    print(f"\n-- All --\n{_report(summary)}")
    print(f"\n-- len<={parameters.cutoff_length} --\n{_report(short)}")


def _read(path: str) -> list["Sentence"]:
    from t2t_lite.metrics.parseval import parse_sentence
    from t2t_lite.text.text_files import iterate_lines

    sentences = []
    for number, line in enumerate(iterate_lines(path), 1):
        try:
            sentences.append(parse_sentence(line))
        except DataError as error:
            raise DataError(f"{path}, line {number}: {error}") from None
    return sentences


def _row(number: int, score: "SentenceScore") -> str:
    return (
        f"{number:4}  {score.length:3}    {score.status:d}  {score.recall:6.2f} "
        f"{score.precision:6.2f}   {score.matched:3}    {score.gold_brackets:3}  "
        f"{score.test_brackets:3}    {score.crossing:3}   {score.words:4}  "
        f"{score.correct_tags:4}   {score.tagging_accuracy:6.2f}"
    )


def _totals(summary: "BracketingScore") -> str:
    return (
        f"{'':16}{summary.recall:6.2f} {summary.precision:6.2f} {summary.matched:6} "
        f"{summary.gold_brackets:5} {summary.test_brackets:5}  {summary.crossing:5}  "
        f"{summary.words:5} {summary.correct_tags:5}   {summary.tagging_accuracy:6.2f}"
    )


def _report(summary: "BracketingScore") -> str:
    counts = {
        "Number of sentence": summary.sentences,
        "Number of Error sentence": summary.errors,
        "Number of Skip  sentence": summary.skipped,
        "Number of Valid sentence": summary.valid,
    }
    scores = {
        "Bracketing Recall": summary.recall,
        "Bracketing Precision": summary.precision,
        "Bracketing FMeasure": summary.f1,
        "Complete match": summary.complete_match,
        "Average crossing": summary.average_crossing,
        "No crossing": summary.no_crossing,
        "2 or less crossing": summary.two_or_less_crossing,
        "Tagging accuracy": summary.tagging_accuracy,
    }
    lines = [f"{name:25} = {count:6}" for name, count in counts.items()]
    lines += [f"{name:25} = {score:6.2f}" for name, score in scores.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
