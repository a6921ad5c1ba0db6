"""t2t-datagen: from raw text to the vocabulary and TFRecord files that training reads."""

import importlib
import logging
import pathlib
import random
import types
from collections.abc import Iterable, Sequence

import numpy as np

from t2t_lite import registry
from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag, quiet_import
from t2t_lite.data.problem import RANDOM_SEED
from t2t_lite.errors import UsageError

log = logging.getLogger("t2t_lite.bin")

COMMAND = Command(
    "t2t-datagen",
    "turns raw text into a vocabulary and TFRecord files for t2t-trainer.\n"
    "Files that are there already are kept, so an interrupted run can be started again.",
    [
        "t2t-datagen --registry_help",
        "t2t-datagen --problem=translate_ende_wmt32k --data_dir=data --tmp_dir=raw",
    ],
    {
        "What to generate": (
            Flag("problem", str, "", "A problem's name, several with commas, or prefix*."),
            Flag(
                "exclude_problems",
                str,
                "",
                "Texts, with commas between them; problems that contain one are left out.",
            ),
            Flag("only_list", bool, False, "List the chosen problems, and stop."),
            *REGISTRY_FLAGS,
        ),
        "Where": (
            Flag("data_dir", pathlib.Path, "", "Folder for the results. Made if missing."),
            Flag(
                "tmp_dir",
                pathlib.Path,
                "/tmp/t2t_datagen",
                "Folder of the raw files: downloads go there, your own text is looked for there.",
            ),
        ),
        "How": (
            Flag(
                "random_seed",
                int,
                RANDOM_SEED,
                "Decides the order of the examples; also seeds Python's and numpy's random numbers "
                "before each problem.",
            ),
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    COMMAND.require(args, "problem")
    names = select_problems(args.problem, args.exclude_problems)
    if args.only_list:
        print("\n".join(names))
        return
    COMMAND.require(args, "data_dir", "tmp_dir")
    generate(names, args.data_dir, args.tmp_dir, args.random_seed)


def select_problems(wanted: str, exclude: str = "") -> list[str]:
    """Returns the registered base names that `--problem` and `--exclude_problems` choose.

    Args:
        wanted: a name, names with commas, or `prefix*`; `_rev` and `_copy` stand for their base,
            whose files they share.
        exclude: texts with commas; names that contain one are left out.

    Raises:
        UsageError: an unknown name, or nothing is left.
    """
    if wanted.endswith("*"):
        names = [name for name in registry.list_problems() if name.startswith(wanted[:-1])]
    else:
        names = [_base_name(name.strip()) for name in wanted.split(",")]
    unwanted = [text for text in exclude.split(",") if text]
    chosen = [name for name in names if not any(text in name for text in unwanted)]
    if not chosen:
        raise UsageError(
            f"--problem={wanted} --exclude_problems={exclude} chooses no problem "
            "(--registry_help lists all)"
        )
    return list(dict.fromkeys(chosen))


def generate(
    names: Iterable[str], data_dir: str, tmp_dir: str, random_seed: int = RANDOM_SEED
) -> None:
    """Generates the data of problems, given by their base names.

    Args:
        names: registered names.
        data_dir: folder of the results; made if missing.
        tmp_dir: folder of the raw files; made if missing.
        random_seed: set before each problem, so that none depends on those before it.
    """
    with quiet_import():
        importlib.import_module("t2t_lite.data.generator")  # the slow part of what follows
    for folder in (data_dir, tmp_dir):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        log.info("generating %s into %s", name, data_dir)
        random.seed(random_seed)
        np.random.seed(random_seed % 2**32)
        registry.problem(name).generate_data(data_dir, tmp_dir, seed=random_seed)


def _base_name(name: str) -> str:
    base = registry.problem(name).base_name
    if base != name:
        log.info("%s is read from the files of %s: generating those", name, base)
    return base


if __name__ == "__main__":
    main()
