"""Processor seconds of `import t2t_lite`, and of each command's `--help`.

    python benchmarks/start_up.py
    python benchmarks/start_up.py --other=ANOTHER_CLONE

Each is the least of several processes in turn, less that of `python -c pass` for the import. The
second command measures another clone between them.
"""

import argparse
import pathlib
import resource
import subprocess
import sys
from collections.abc import Sequence

HERE = pathlib.Path(__file__).parents[1]


def seconds(arguments: Sequence[str], clone: pathlib.Path) -> float:
    """Returns the processor seconds of one process in a clone, its children's included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], cwd=clone, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def least(arguments: Sequence[str], clones: Sequence[pathlib.Path], rounds: int) -> list[float]:
    """Returns the least seconds in each clone; the clones take turns."""
    turns = [[seconds(arguments, clone) for clone in clones] for _ in range(rounds)]
    return [min(found) for found in zip(*turns, strict=True)]


def main() -> None:
    """Measures, and prints a line each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", type=pathlib.Path, help="another clone, for comparison")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each kind")
    args = parser.parse_args()
    clones = [HERE, *([args.other] if args.other else [])]

    def show(name: str, found: Sequence[float]) -> None:
        print(name.ljust(20), *(f"{value * 1000:6.0f} ms" for value in found))

    bare = least(["-c", "pass"], clones, args.rounds)
    imported = least(["-c", "import t2t_lite"], clones, args.rounds)
    show("import t2t_lite", [a - b for a, b in zip(imported, bare, strict=True)])
    for path in sorted((HERE / "bin").glob("t2t_*.py")):
        command = ["-m", f"t2t_lite.bin.{path.stem}", "--help"]
        show(path.stem.replace("_", "-"), least(command, clones, args.rounds))


if __name__ == "__main__":
    main()
