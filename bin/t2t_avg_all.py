"""t2t-avg-all: averages every checkpoint of a run with the ones before it."""

import pathlib
import types

from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import WAIT_MINUTES, Flag

COMMAND = Command(
    "t2t-avg-all",
    "averages every checkpoint of a run with the ones before it.\n"
    "The new folder is for decoding and t2t-eval; training cannot resume from it.",
    [
        "t2t-avg-all --model_dir=runs/base --output_dir=runs/base_averaged --n=5",
        "t2t-decoder --output_dir=runs/base_averaged --decode_from_file=newstest2014.en",
    ],
    {
        "What to average": (
            Flag("model_dir", pathlib.Path, "", "Run folder of t2t-trainer."),
            Flag("n", int, 8, "Checkpoints in each average.", minimum=1),
            Flag("min_steps", int, 0, "Skip checkpoints with fewer updates.", minimum=0),
            WAIT_MINUTES,
        ),
        "Result": (
            Flag(
                "output_dir",
                pathlib.Path,
                "avg/",
                "Folder to write to. Averages of the same checkpoints are kept; others, such as "
                "those of another --n, are replaced.",
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "model_dir", "output_dir")
    with quiet_import():
        from t2t_lite.runs import run_folder, sliding_averages
    run = run_folder.RunFolder.open(args.model_dir)
    given = run, args.output_dir, args.n, args.min_steps
    made = (
        sliding_averages.average_arriving(*given, args.wait_minutes)
        if args.wait_minutes
        else (sliding_averages.average_all(*given))
    )
    for path in made:
        print(path, flush=True)


if __name__ == "__main__":
    main()
