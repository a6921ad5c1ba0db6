"""t2t-paper: the tables of "Attention Is All You Need", published, computed and measured."""

import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from t2t_lite import extras, registry
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import Flag
from t2t_lite.errors import UsageError

if TYPE_CHECKING:
    from t2t_lite.study.paper.experiment_queue import Folders
    from t2t_lite.study.paper.seeds import Row
    from t2t_lite.study.paper.table import Table

Number = TypeVar("Number", int, float)

TABLES = ("1", "2", "3", "4", "parsing-search")

# Each --table, without --scale and with it: required flags, and optional ones.
_TRAININGS = ("output_dir", "problem", "data_dir", "train_steps")
_CHANGES = ("hparams", "t2t_usr_dir")
_SEARCHED = ("dropouts", "learning_rates", "beam_sizes")
_USES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "--table=1": ((), ()),
    "--table=1 --scale": (("output_dir",), ("scale",)),
    "--table=2": ((), ()),
    "--table=2 --scale": (
        ("output_dir", "problem", "data_dir"),
        ("scale", "train_minutes", "train_steps", "rows", "seeds", *_CHANGES),
    ),
    "--table=3": ((), ("params",)),
    "--table=3 --scale": (_TRAININGS, ("scale", "rows", "seeds", *_CHANGES)),
    "--table=4": ((), ()),
    "--table=parsing-search": (_TRAININGS, ("hparams_set", *_SEARCHED, *_CHANGES)),
}

COMMAND = Command(
    "t2t-paper",
    'prints a table of "Attention Is All You Need", each figure marked as published, computed\n'
    "or measured here, with the command that reproduces it.",
    [
        "t2t-paper --table=3 --params",
        "t2t-paper --table=1 --scale=full --output_dir=table1",
        "t2t-paper --table=2 --problem=translate_ende_multi30k --scale=tiny --train_minutes=20 \\",
        "    --data_dir=data --output_dir=table2",
        "t2t-paper --table=3 --problem=translate_ende_multi30k --scale=tiny --train_steps=3000 \\",
        "    --data_dir=data --output_dir=table3 --rows=base,a1,c1 --seeds=2",
        "t2t-paper --table=parsing-search --problem=parsing_wsj_16k --train_steps=100000 \\",
        "    --data_dir=data --output_dir=search",
    ],
    {
        "Output": (
            Flag("table", str, "", "Table to print.", choices=TABLES),
            Flag(
                "output_format",
                str,
                "text",
                "Format of the table.",
                choices=("text", "markdown", "json"),
            ),
            Flag("params", bool, False, "Print the parameter counts of Table 3."),
        ),
        "Measurements": (
            Flag(
                "scale",
                str,
                "",
                "Measure Table 1 or train Table 3, at full size or in a tiny form with the same "
                "ratios for two cores, or train the systems of Table 2 in a tiny form (default: "
                "measure nothing). Charts need: pip install '.[plots]'.",
                choices=("tiny", "full"),
            ),
            Flag(
                "output_dir",
                pathlib.Path,
                "",
                "Folder for measurements: JSON and charts, and a run folder for each training. "
                "A restart trains what is missing; Table 1 is measured again.",
            ),
        ),
        "Training, for Tables 2 and 3 and parsing-search": (
            Flag("problem", str, "", "Name of the problem to train on."),
            Flag("data_dir", pathlib.Path, "", "Folder of t2t-datagen's files."),
            Flag("train_steps", int, None, "Updates per training.", minimum=1),
            Flag(
                "hparams",
                str,
                "",
                "Changes to the hyperparameters of each training: NAME=VALUE,...",
                listed=True,
            ),
        ),
        "Training, for Tables 2 and 3": (
            Flag(
                "train_minutes",
                float,
                0.0,
                "Minutes of training for each system of Table 2, instead of --train_steps.",
                minimum=0,
            ),
            Flag(
                "rows",
                str,
                "",
                "Names of rows, such as transformer,gnmt in Table 2 and base,a1,big in Table 3 "
                "(default: all).",
                listed=True,
            ),
            Flag("seeds", int, 1, "Trainings per row, with different seeds.", minimum=1),
        ),
        "parsing-search: choose dropout, learning rate and beam of a parser on dev": (
            Flag(
                "hparams_set", str, "transformer_paper_parsing", "Hyperparameter set to start from."
            ),
            Flag(
                "dropouts",
                str,
                "0.1,0.2,0.3",
                "Dropout rates to try, for attention weights and for residual connections.",
                listed=True,
            ),
            Flag(
                "learning_rates",
                str,
                "",
                "Learning rates to try, in the unit of the set's schedule (default: the set's own "
                "and twice that).",
                listed=True,
            ),
            Flag(
                "beam_sizes", str, "4,10,21", "Beam sizes to try with each training.", listed=True
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "table")
    use = f"--table={args.table}{' --scale' if args.scale else ''}"
    if use not in _USES:
        raise UsageError(f"--scale has no effect on --table={args.table}: it goes with 1, 2 or 3")
    if args.table == "2" and args.scale == "full":
        raise UsageError(
            "--scale=full has no effect on --table=2, whose systems are trained with --scale=tiny; "
            "train a published set with t2t-trainer"
        )
    _refuse_unused_flags(args, use)
    COMMAND.require(args, *_USES[use][0])
    if args.scale:
        extras.require(extras.PLOTS, use)  # for its charts
    if args.problem:
        registry.problem(args.problem)
    makers = {
        "1": _table1,
        "2": _table2,
        "3": _table3,
        "4": _table4,
        "parsing-search": _parsing_search,
    }
    print(makers[args.table](args).render(args.output_format))


def _refuse_unused_flags(args: types.SimpleNamespace, use: str) -> None:
    """Raises UsageError if a flag is given that has no effect on this use."""
    for name, flag in COMMAND.flags.items():
        places = [place for place, (needed, read) in _USES.items() if name in (*needed, *read)]
        if places and use not in places and getattr(args, name) != flag.default:
            raise UsageError(f"--{name} has no effect on {use}: it goes with {', '.join(places)}")


def _table1(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.study.paper import table1
    if not args.scale:
        return table1.table()
    measured = table1.measure_all(args.scale)
    table1.write(measured, args.output_dir)
    return table1.table(measured, args.scale)


def _table2(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.study.paper import table2, table2_training
    if not args.scale:
        return table2.table()
    settings = table2_training.Table2Settings(
        args.problem, args.scale, args.train_minutes, args.train_steps or 0, args.hparams
    )
    rows = _rows(args, table2_training.SYSTEMS)
    results = table2_training.train(rows, args.seeds, settings, _folders(args))
    return table2_training.table(results)


def _table3(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.study.paper import parameter_counts, table3, table3_training
        from t2t_lite.study.paper.published import TABLE_3
    if not args.scale:
        return parameter_counts.table() if args.params else table3.table()
    rows = _rows(args, TABLE_3)
    settings = table3_training.Table3Settings(
        args.problem, args.scale, args.train_steps, args.hparams
    )
    results = table3_training.train(rows, args.seeds, settings, _folders(args))
    return table3_training.table(results)


def _table4(_: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.study.paper import table4
    return table4.table()


def _parsing_search(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.study.paper import parsing_search
    settings = parsing_search.SearchSettings(
        args.problem, args.hparams_set, args.train_steps, args.hparams
    )
    grid = parsing_search.SearchGrid(
        dropouts=_numbers(args, "dropouts", float),
        learning_rates=_numbers(args, "learning_rates", float),
        beam_sizes=_numbers(args, "beam_sizes", int),
    )
    results = parsing_search.search(settings, grid, _folders(args))
    return parsing_search.table(results)


def _rows(args: types.SimpleNamespace, rows: Sequence["Row"]) -> list[str]:
    """Returns the names of the rows to train."""
    return args.rows.split(",") if args.rows else [row.name for row in rows]


def _folders(args: types.SimpleNamespace) -> "Folders":
    from t2t_lite.study.paper.experiment_queue import Folders

    return Folders(args.data_dir, args.output_dir, args.t2t_usr_dir)


def _numbers(args: types.SimpleNamespace, name: str, kind: Callable[[str], Number]) -> list[Number]:
    """Returns the numbers of a flag."""
    text = getattr(args, name)
    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise UsageError(f"--{name}={text}: expected {what} separated by commas") from None


if __name__ == "__main__":
    main()
