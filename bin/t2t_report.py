"""t2t-report: writes the curves of one or more runs as an HTML page."""

import os
import pathlib
import types

from t2t_lite.bin.command import Command
from t2t_lite.bin.flag import Flag

COMMAND = Command(
    "t2t-report",
    "writes one HTML page with the curves of one or more runs, their scores, costs and the\n"
    "settings in which they differ, or with the trials of a search for hyperparameters.\n"
    "The page needs no network and no scripts.\n"
    "Needs: pip install '.[plots]'.",
    [
        "t2t-report --output_dir=runs/base",
        "t2t-report --output_dir=runs/search",
        "t2t-report --output_dir=runs/base,runs/big --output_file=base_and_big.html",
    ],
    {
        "Input": (
            Flag(
                "output_dir",
                pathlib.Path,
                "",
                "Run folders, separated by commas, or the folder of a search.",
                listed=True,
            ),
        ),
        "Output": (
            Flag(
                "output_file",
                pathlib.Path,
                "",
                "File to write (default: report.html in the first run folder).",
            ),
        ),
    },
    reads_with_tensorflow=False,
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "output_dir")
    from t2t_lite import files
    from t2t_lite.study.reports.report import write_report

    folders = files.split_paths(args.output_dir, os.path.isdir) or [args.output_dir]
    print(files.shown(write_report(folders, args.output_file)))


if __name__ == "__main__":
    main()
