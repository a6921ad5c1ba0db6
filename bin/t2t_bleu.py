"""t2t-bleu: BLEU of a translated file against its reference."""

import pathlib
import types

from t2t_lite.bin.command import Command, Flag
from t2t_lite.data.problem import Output
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.by_name import check_metrics, score_by_metrics, split_metrics

COMMAND = Command(
    "t2t-bleu",
    "computes sacreBLEU's BLEU of a translation against its reference.\n"
    "Both are plain text, one sentence per line, not tokenized. Report the signature with the "
    "score.",
    [
        "t2t-bleu --translation=newstest2014.out.de --reference=newstest2014.de",
        "t2t-bleu --translation=newstest2014.out.de --reference=newstest2014.de --paper",
        "t2t-bleu --translation=newstest2014.out.de --reference=newstest2014.de --metrics=chrf,ter",
    ],
    {
        "Files": (
            Flag("translation", pathlib.Path, "", "System output, in UTF-8; may be .gz."),
            Flag("reference", pathlib.Path, "", "Reference translations, in the same order."),
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
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "translation", "reference")
    if args.paper and args.metrics:
        raise UsageError("--paper and --metrics exclude each other")
    metrics = split_metrics(args.metrics)
    check_metrics(metrics, language="")
    from t2t_lite.metrics.bleu import compound_split_bleu, corpus_bleu
    from t2t_lite.metrics.text_form import warn_of_forms
    from t2t_lite.text.text_files import read_lines

    # White space at the ends, such as the CR of CRLF, is not part of a text.
    translation, reference = (
        [line.strip() for line in read_lines(path)] for path in (args.translation, args.reference)
    )
    if len(translation) != len(reference):
        raise DataError(
            f"{args.translation} has {len(translation)} lines but {args.reference} has "
            f"{len(reference)}: they must pair line by line"
        )
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


if __name__ == "__main__":
    main()
