"""t2t-translate-all: translates a file with every checkpoint of a run."""

import logging
import os
import pathlib
import types

from t2t_lite.bin.command import Command, Flag
from t2t_lite.bin.console import quiet_import
from t2t_lite.decoding.config import DecoderConfig

COMMAND = Command(
    "t2t-translate-all",
    "translates a file with every checkpoint of a run, in the order of their updates.\n"
    "Translations that exist are kept. t2t-eval scores checkpoints without files.",
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
        ),
        "How": (
            Flag("beam_size", int, 4, "Beams of the search.", minimum=1),
            Flag("alpha", float, 0.6, "Length penalty of the search.", minimum=-10, maximum=10),
        ),
        "Result": (
            Flag(
                "translations_dir",
                pathlib.Path,
                "translations",
                "Folder of the translations, PROBLEM-UPDATES. Created if missing.",
            ),
        ),
    },
)

log = logging.getLogger("t2t_lite.bin")


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "model_dir", "source", "translations_dir")
    with quiet_import():
        from t2t_lite.decoding import jobs
        from t2t_lite.runs import checkpoint_files, run_folder
    run = run_folder.RunFolder.open(args.model_dir)
    os.makedirs(args.translations_dir, exist_ok=True)
    for checkpoint in checkpoint_files.whole_checkpoints(run.folder):
        step = checkpoint_files.step_of(checkpoint)
        output = os.path.join(args.translations_dir, f"{run.flags['problem']}-{step}")
        if step < args.min_steps:
            continue
        if os.path.exists(output):
            log.info("%s exists: it is kept", output)
            continue
        jobs.run(
            DecoderConfig(
                output_dir=args.model_dir,
                checkpoint_path=(checkpoint,),
                decode_from_file=args.source,
                decode_to_file=output,
                decode_hparams=f"beam_size={args.beam_size},alpha={args.alpha}",
            )
        )


if __name__ == "__main__":
    main()
