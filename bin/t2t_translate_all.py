"""t2t-translate-all: translates a file with every checkpoint of a run."""

import contextlib
import os
import pathlib
import types

from t2t_lite import files
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import WAIT_MINUTES, Flag
from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.decoding.documents.kinds import is_document
from t2t_lite.errors import UsageError, UserError

COMMAND = Command(
    "t2t-translate-all",
    "translates a file with every checkpoint of a run, in the order of their updates.\n"
    "Translations of the same file are kept. t2t-eval scores checkpoints without files.",
    [
        "t2t-translate-all --model_dir=runs/base --source=newstest2013.en",
        "t2t-bleu --translation=translations/translate_ende_wmt32k-10000 "
        "--reference=newstest2013.de",
    ],
    {
        "What to translate": (
            Flag("model_dir", pathlib.Path, "", "Run folder of t2t-trainer."),
            Flag("source", pathlib.Path, "", "Text file, one sentence per line."),
            Flag("min_steps", int, 0, "Skip checkpoints with fewer updates.", minimum=0),
            WAIT_MINUTES,
        ),
        "How": (
            Flag(
                "beam_size",
                int,
                None,
                "Beams of the search (default: the run's own, as in t2t-decoder).",
                minimum=1,
            ),
            Flag(
                "alpha",
                float,
                None,
                "Length penalty of the search (default: the run's own).",
                minimum=-10,
                maximum=10,
            ),
        ),
        "Result": (
            Flag(
                "translations_dir",
                pathlib.Path,
                "translations",
                "Folder of the translations, PROBLEM-UPDATES, and of what each was made from, "
                "PROBLEM-UPDATES.origin.json. Created if missing. A translation that exists and "
                "was made from another file, checkpoint or search is an error.",
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "model_dir", "source", "translations_dir")
    if args.source == STANDARD_INPUT:
        raise UsageError(
            "--source=- is standard input, which only one checkpoint could read: name a file"
        )
    _require_lines(args.source)
    with quiet_import():
        from t2t_lite.decoding.kept_output import run_once
        from t2t_lite.runs import checkpoint_files, followers, run_folder
    run = run_folder.RunFolder.open(args.model_dir)
    place = files.text_digest(os.path.abspath(args.translations_dir))
    given = {name: getattr(args, name) for name in ("beam_size", "alpha")}
    search = ",".join(f"{name}={value}" for name, value in given.items() if value is not None)
    checkpoint = ""
    for checkpoint in followers.checkpoints_of(
        run.folder,
        f"translate-{place}",
        lambda path: checkpoint_files.step_of(path) < args.min_steps,
        args.wait_minutes,
    ):
        name = f"{run.problem.name}-{checkpoint_files.step_of(checkpoint)}"
        config = DecoderConfig(
            output_dir=args.model_dir,
            checkpoint_path=(checkpoint,),
            decode_from_file=args.source,
            decode_to_file=os.path.join(args.translations_dir, name),
            decode_hparams=search,
        )
        run_once(config, "t2t-translate-all")
    if not checkpoint:
        raise UserError(f"{run.folder} holds no checkpoint from update {args.min_steps} on")


def _require_lines(path: str) -> None:
    with contextlib.suppress(UsageError):  # whose remedy is a flag of t2t-decoder
        if not is_document(path):
            return
    raise UsageError(
        f"--source={path} is a document, whose lines are not sentences: translate it with "
        "t2t-decoder, or name a text file with one sentence per line"
    )


if __name__ == "__main__":
    main()
