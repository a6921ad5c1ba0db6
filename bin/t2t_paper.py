"""t2t-paper: the tables of "Attention Is All You Need", published, computed and measured."""

import pathlib
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.bin.command import Command, Flag, quiet_import
from t2t_lite.errors import UsageError

if TYPE_CHECKING:
    from t2t_lite.paper.table import Table

TABLES = ("table1", "table2", "table3", "table4")

COMMAND = Command(
    "t2t-paper",
    'prints a table of "Attention Is All You Need", each figure with where it comes from:\n'
    "published, computed or measured here, and the command that makes it.",
    [
        "t2t-paper table3 --params",
        "t2t-paper table1 --scale=full --output_dir=table1",
        "t2t-paper table3 --problem=translate_ende_multi30k --scale=tiny --steps=3000 \\",
        "    --data_dir=data --output_dir=table3 --rows=base,a1,c1 --seeds=2",
    ],
    {
        "Output": (
            Flag(
                "format",
                str,
                "text",
                "How the table is written.",
                choices=("text", "markdown", "json"),
            ),
            Flag("params", bool, False, "Of Table 3: the numbers of parameters."),
        ),
        "What is measured": (
            Flag(
                "scale",
                str,
                "",
                "Measure Table 1 or train Table 3, tiny (the paper's ratios at a size for two "
                "cores) or full; nothing is measured if not given.",
                choices=("", "tiny", "full"),
            ),
            Flag(
                "output_dir",
                pathlib.Path,
                "",
                "Folder for what is measured: JSON and charts; of Table 3 also a run folder for "
                "each training. Started again, Table 3 goes on with what is not done.",
            ),
        ),
        "Table 3, trained": (
            Flag("problem", str, "", "Name of the problem to train on."),
            Flag("data_dir", pathlib.Path, "", "Folder of t2t-datagen's files."),
            Flag("steps", int, 0, "Updates of each training.", minimum=0),
            Flag("rows", str, "", "Names of rows, such as base,a1,big; all if not given."),
            Flag("seeds", int, 1, "Trainings of each row.", minimum=1),
            Flag("hparams", str, "", "Changes to every row: name=value, with commas between them."),
        ),
    },
    words="|".join(TABLES),
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    if len(args.words) != 1 or args.words[0] not in TABLES:
        given = " ".join(args.words) or "nothing"
        raise UsageError(f"which table? Write one of {', '.join(TABLES)}; got {given}")
    name = args.words[0]
    if args.scale and name not in ("table1", "table3"):
        raise UsageError(f"--scale: nothing of {name} is measured here; table1 and table3 are")
    if args.scale:
        COMMAND.require(args, "output_dir")
    if args.scale and name == "table3":
        COMMAND.require(args, "problem", "data_dir", "steps")
        registry.problem(args.problem)
    table = {"table1": _table1, "table2": _table2, "table3": _table3, "table4": _table4}[name](args)
    print(table.render(args.format))


def _table1(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.paper import complexity
    if not args.scale:
        return complexity.table()
    measured = complexity.measure_all(args.scale)
    complexity.write(measured, args.output_dir)
    return complexity.table(measured)


def _table2(_: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.paper import training_cost
    return training_cost.table()


def _table3(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.paper import ablation, parameters, variations
        from t2t_lite.paper.published import TABLE_3
    if not args.scale:
        return parameters.table() if args.params else variations.table()
    rows = args.rows.split(",") if args.rows else [row.name for row in TABLE_3]
    settings = ablation.Settings(args.problem, args.scale, args.steps, args.hparams)
    results = ablation.train(rows, args.seeds, settings, args.data_dir, args.output_dir)
    return ablation.table(results)


def _table4(_: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.paper import parsing
    return parsing.table()


if __name__ == "__main__":
    main()
