"""t2t-report: writes the curves of one or more runs as an HTML page."""

import pathlib
import types
from collections.abc import Sequence

from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag
from t2t_lite.errors import UsageError

COMMAND = Command(
    "t2t-report",
    "writes one HTML page with the curves of one or more runs, their scores, costs and the\n"
    "settings in which they differ. The page needs no network and no scripts.\n"
    "Needs: pip install 't2t_lite[plots]'.",
    [
        "t2t-report runs/base",
        "t2t-report runs/base runs/big --output=base_and_big.html",
    ],
    {
        "Output": (
            Flag("output", pathlib.Path, "", "File to write (default: OUTPUT_DIR/report.html)."),
        ),
        "Registries": REGISTRY_FLAGS,
    },
    words="OUTPUT_DIR [OTHER ...]",
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    from t2t_lite import files
    from t2t_lite.reporting.report import write_report

    if not args.words:
        raise UsageError("no run folder given: write t2t-report OUTPUT_DIR")
    print(files.shown(write_report(args.words, args.output)))


if __name__ == "__main__":
    main()
