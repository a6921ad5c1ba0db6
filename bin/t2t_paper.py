"""t2t-paper: the tables of "Attention Is All You Need", published, computed and measured."""

import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from t2t_lite import extras, registry
from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag, quiet_import
from t2t_lite.errors import UsageError

if TYPE_CHECKING:
    from t2t_lite.paper.experiments import Places
    from t2t_lite.paper.table import Table

Number = TypeVar("Number", int, float)

TABLES = ("table1", "table2", "table3", "table4", "parsing-search")

# Each use of the command: the flags that it needs, and others that it reads; --format is for all.
_TRAININGS = ("output_dir", "problem", "data_dir", "steps")
_CHANGES = ("hparams", "t2t_usr_dir")
_SEARCHED = ("dropouts", "learning_rates", "beam_sizes")
_USES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "table1": ((), ()),
    "table1 --scale": (("output_dir",), ("scale",)),
    "table2": ((), ()),
    "table3": ((), ("params",)),
    "table3 --scale": (_TRAININGS, ("scale", "rows", "seeds", *_CHANGES)),
    "table4": ((), ()),
    "parsing-search": (_TRAININGS, ("hparams_set", *_SEARCHED, *_CHANGES)),
}

COMMAND = Command(
    "t2t-paper",
    'prints a table of "Attention Is All You Need", each figure marked as published, computed\n'
    "or measured here, with the command that reproduces it.",
    [
        "t2t-paper table3 --params",
        "t2t-paper table1 --scale=full --output_dir=table1",
        "t2t-paper table3 --problem=translate_ende_multi30k --scale=tiny --steps=3000 \\",
        "    --data_dir=data --output_dir=table3 --rows=base,a1,c1 --seeds=2",
        "t2t-paper parsing-search --problem=parsing_wsj_16k --steps=100000 \\",
        "    --data_dir=data --output_dir=search",
    ],
    {
        "Output": (
            Flag(
                "format",
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
                "Measure Table 1 or train Table 3 at full size, or at the paper's ratios in a size "
                "for two cores (default: measure nothing). Charts need: pip install "
                "'t2t_lite[plots]'.",
                choices=("tiny", "full"),
            ),
            Flag(
                "output_dir",
                pathlib.Path,
                "",
                "Folder for measurements: JSON and charts, and a run folder for each training of "
                "Table 3 and parsing-search. A restart resumes with what is missing.",
            ),
        ),
        "Training, for Table 3 and parsing-search": (
            Flag("problem", str, "", "Name of the problem to train on."),
            Flag("data_dir", pathlib.Path, "", "Folder of t2t-datagen's files."),
            Flag("steps", int, None, "Updates per training.", minimum=1),
            Flag(
                "hparams",
                str,
                "",
                "Changes to the hyperparameters of each training: NAME=VALUE,...",
            ),
        ),
        "Training, for Table 3": (
            Flag("rows", str, "", "Names of rows, such as base,a1,big (default: all)."),
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
            ),
            Flag(
                "learning_rates",
                str,
                "",
                "Learning rates to try, in the unit of the set's schedule (default: the set's own "
                "and twice that).",
            ),
            Flag("beam_sizes", str, "4,10,21", "Beam sizes to try with each training."),
        ),
        "Registries": REGISTRY_FLAGS,
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
    use = f"{name} --scale" if args.scale else name
    _refuse_idle(args, use)
    COMMAND.require(args, *_USES[use][0])
    if args.scale:
        extras.require(extras.PLOTS, f"{name} --scale")  # its charts
    if args.problem:
        registry.problem(args.problem)
    makers = {
        "table1": _table1,
        "table2": _table2,
        "table3": _table3,
        "table4": _table4,
        "parsing-search": _parsing_search,
    }
    print(makers[name](args).render(args.format))


def _refuse_idle(args: types.SimpleNamespace, use: str) -> None:
    """Raises UsageError if a flag was given that this use of the command does not read."""
    for name, flag in COMMAND.flags.items():
        places = [place for place, (needed, read) in _USES.items() if name in (*needed, *read)]
        if places and use not in places and getattr(args, name) != flag.default:
            raise UsageError(f"--{name} has no effect on {use}: it goes with {', '.join(places)}")


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
    results = ablation.train(rows, args.seeds, settings, _places(args))
    return ablation.table(results)


def _table4(_: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.paper import parsing
    return parsing.table()


def _parsing_search(args: types.SimpleNamespace) -> "Table":
    with quiet_import():
        from t2t_lite.paper import parsing_search
    settings = parsing_search.Settings(args.problem, args.hparams_set, args.steps, args.hparams)
    grid = parsing_search.Grid(
        dropouts=_numbers(args, "dropouts", float),
        learning_rates=_numbers(args, "learning_rates", float),
        beam_sizes=_numbers(args, "beam_sizes", int),
    )
    results = parsing_search.search(settings, grid, _places(args))
    return parsing_search.table(results)


def _places(args: types.SimpleNamespace) -> "Places":
    from t2t_lite.paper.experiments import Places

    return Places(args.data_dir, args.output_dir, args.t2t_usr_dir)


def _numbers(args: types.SimpleNamespace, name: str, kind: Callable[[str], Number]) -> list[Number]:
    """Returns the numbers of a flag.

    Raises:
        UsageError: something in it is none.
    """
    text = getattr(args, name)
    try:
        return [kind(part) for part in text.split(",") if part.strip()]
    except ValueError:
        what = "whole numbers" if kind is int else "numbers"
        raise UsageError(f"--{name}={text}: expected {what}, with commas between them") from None


if __name__ == "__main__":
    main()
