"""t2t-avg-checkpoints: averages the weights of a run's checkpoints."""

import pathlib
import types

from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import Flag
from t2t_lite.errors import UsageError

COMMAND = Command(
    "t2t-avg-checkpoints",
    "averages the weights of several checkpoints into a new one.\n"
    "The average often translates better than each of them; training cannot resume from it.",
    [
        "t2t-avg-checkpoints --output_dir=runs/base --num_last_checkpoints=5",
        "t2t-avg-checkpoints --output_dir=runs/big --num_last_checkpoints=20 \\",
        "    --minutes_between_checkpoints=10",
        "t2t-decoder --checkpoint_path=runs/base/averaged.ckpt-100000 "
        "--decode_from_file=newstest2014.en",
    ],
    {
        "What to average": (
            Flag("output_dir", pathlib.Path, "", "Run folder of t2t-trainer."),
            Flag(
                "num_last_checkpoints",
                int,
                0,
                "Average this many newest checkpoints (the paper: 5 for base, 20 for big).",
                minimum=0,
            ),
            Flag(
                "minutes_between_checkpoints",
                float,
                0.0,
                "Choose checkpoints about this many minutes apart, by the times of their files "
                "(the paper: 10); 0 takes the newest.",
                minimum=0,
            ),
            Flag(
                "num_best_checkpoints",
                int,
                0,
                "Alternatively, average this many best checkpoints, by the run's --best_metric.",
                minimum=0,
            ),
            Flag(
                "checkpoints",
                str,
                "",
                "Alternatively, average these checkpoints of the run folder, given by number or "
                "name (best, newest) and separated by commas: 90000,100000.",
                listed=True,
            ),
        ),
        "Result": (
            Flag(
                "output_path",
                pathlib.Path,
                "",
                "Checkpoint to write (default: averaged.ckpt-STEP in the run folder).",
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "output_dir")
    ways = (args.num_last_checkpoints, args.num_best_checkpoints, args.checkpoints)
    if sum(map(bool, ways)) != 1:
        raise UsageError(
            "choose what to average: either --num_last_checkpoints=N, --num_best_checkpoints=N or "
            "--checkpoints=A,B"
        )
    if args.minutes_between_checkpoints and not args.num_last_checkpoints:
        raise UsageError("--minutes_between_checkpoints needs --num_last_checkpoints")
    with quiet_import():
        from t2t_lite.runs import averaging, checkpoint_files, run_folder, selection
        from t2t_lite.runs.checkpoint_names import named_checkpoint
        from t2t_lite.runs.search_folder import criterion_of
    run = run_folder.RunFolder.open(args.output_dir)
    if args.checkpoints:
        names = checkpoint_files.split_checkpoints(args.checkpoints, args.output_dir)
        paths = [named_checkpoint(name, args.output_dir) for name in names]
        if twice := next((path for path in paths if paths.count(path) > 1), ""):
            raise UsageError(f"--checkpoints={args.checkpoints}: {twice} is named twice")
    elif args.num_best_checkpoints:
        best = args.num_best_checkpoints
        paths = selection.best_checkpoints(run.folder, criterion_of(run), best)
    else:
        paths = averaging.newest_checkpoints(
            run.folder, args.num_last_checkpoints, args.minutes_between_checkpoints
        )
    print(averaging.average(run, paths, args.output_path))


if __name__ == "__main__":
    main()
