"""t2t-bleu: BLEU of a translated file against its reference."""

import dataclasses
import logging
import os
import pathlib
import types
from collections.abc import Sequence

from t2t_lite.bin.command import Command
from t2t_lite.bin.flag import WAIT_MINUTES, Flag
from t2t_lite.data.problem import Output
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.metrics.by_name import check_metrics, score_by_metrics, split_metrics

log = logging.getLogger(__name__)

COMMAND = Command(
    "t2t-bleu",
    "computes sacreBLEU's BLEU of a translation against its reference.\n"
    "Both are plain text, one sentence per line, not tokenized. Report the signature with the "
    "score.",
    [
        "t2t-bleu --translation=newstest2014.out.de --reference=newstest2014.de",
        "t2t-bleu --translation=newstest2014.out.de --reference=newstest2014.de --paper",
        "t2t-bleu --translation=newstest2014.out.de --reference=newstest2014.de --metrics=chrf,ter",
        "t2t-bleu --translations_dir=translations --reference=newstest2013.de --event_dir=events",
    ],
    {
        "Files": (
            Flag("translation", pathlib.Path, "", "System output, in UTF-8; may be .gz."),
            Flag("reference", pathlib.Path, "", "Reference translations, in the same order."),
        ),
        "Translations of several checkpoints": (
            Flag(
                "translations_dir",
                pathlib.Path,
                "",
                "Folder of translations, PROBLEM-UPDATES, of t2t-translate-all, each of which is "
                "scored, in the order of updates.",
            ),
            Flag(
                "event_dir",
                pathlib.Path,
                "",
                "Folder for TensorBoard's curves of the scores, and for last_evaluated_step.txt, "
                "which lets the next call go on where this one ends. Created if missing.",
                needs="translations_dir",
            ),
            Flag(
                "tag_suffix",
                str,
                "",
                "Ending of the curves' names, BLEU_cased, BLEU_uncased.",
                needs="event_dir",
            ),
            Flag(
                "min_steps",
                int,
                -1,
                "Skip translations of checkpoints with fewer updates. -1 skips those that an "
                "earlier call has scored, by --event_dir.",
                minimum=-1,
                needs="translations_dir",
            ),
            dataclasses.replace(WAIT_MINUTES, needs="translations_dir"),
        ),
        "How": (
            Flag(
                "paper",
                bool,
                False,
                'Print two scores to compare with "Attention Is All You Need": one with compounds '
                "split at hyphens, as the paper counts EN-DE, and sacreBLEU's 13a.",
            ),
            Flag(
                "metrics",
                str,
                "",
                "Other scores to print, separated by commas, such as chrf,chrf_plus_plus,ter "
                "(default: BLEU with and without case).",
                listed=True,
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "reference")
    if args.translations_dir:
        _score_all(args)
        return
    COMMAND.require(args, "translation")
    if args.paper and args.metrics:
        raise UsageError("--paper and --metrics exclude each other")
    metrics = split_metrics(args.metrics)
    check_metrics(metrics, language="")
    from t2t_lite.metrics.bleu import compound_split_bleu, corpus_bleu
    from t2t_lite.metrics.text_form import warn_of_forms

    translation, reference = _lines(args.translation), _lines(args.reference)
    _require_pairs(args.translation, translation, args.reference, reference)
    warn_of_forms(translation, reference)
    if metrics:
        outputs = [Output(line) for line in translation]
        for score in score_by_metrics(metrics, outputs, reference).values():
            print(score.report)
        return
    if args.paper:
        scores = {
            "BLEU_compound_split": compound_split_bleu(translation, reference),
            "BLEU_sacrebleu_13a": corpus_bleu(translation, reference),
        }
    else:
        scores = {
            "BLEU_uncased": corpus_bleu(translation, reference, lowercase=True),
            "BLEU_cased": corpus_bleu(translation, reference),
        }
    for name, bleu in scores.items():
        print(f"{name} = {bleu.score:6.2f}")
    for name, bleu in scores.items():
        print(f"{name} signature: {bleu.signature}")


def _lines(path: str) -> list[str]:
    """Returns the lines of a file.

    White space at the ends of a line, such as the CR of CRLF, is not part of a text.
    """
    from t2t_lite.text.text_files import read_lines

    return [line.strip() for line in read_lines(path)]


def _require_pairs(
    path: str, translation: Sequence[str], reference_path: str, reference: Sequence[str]
) -> None:
    """Raises DataError if a translation and its reference have not equally many lines."""
    if len(translation) != len(reference):
        raise DataError(
            f"{path} has {len(translation)} lines but {reference_path} has {len(reference)}: they "
            "must pair line by line"
        )


def _score_all(args: types.SimpleNamespace) -> None:
    """Scores the translations in a folder, and those that come while it waits for them."""
    for name in ("translation", "paper", "metrics"):
        if getattr(args, name):
            raise UsageError(f"--translations_dir and --{name} exclude each other")
    from t2t_lite.metrics.bleu import corpus_bleu
    from t2t_lite.metrics.step_files import ScoredSteps

    reference = _lines(args.reference)  # a missing one is named before the wait
    if not args.wait_minutes and not os.path.isdir(args.translations_dir):
        raise UserError(f"--translations_dir={args.translations_dir}: no such folder")
    scored = ScoredSteps(args.translations_dir, args.event_dir, args.tag_suffix, args.min_steps)
    has_scored = False
    for step, path in scored.files(args.wait_minutes):
        translation = _lines(path)
        _require_pairs(path, translation, args.reference, reference)
        scores = {
            "BLEU_uncased": corpus_bleu(translation, reference, lowercase=True).score,
            "BLEU_cased": corpus_bleu(translation, reference).score,
        }
        for name, score in scores.items():
            print(f"{path}: {name} = {score:6.2f}", flush=True)
        scored.write(step, scores)
        has_scored = True
    if not has_scored:
        log.info("%s has no translations to score%s", args.translations_dir, scored.left_out)


if __name__ == "__main__":
    main()
