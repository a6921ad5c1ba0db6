"""Mutations of the source at random: which of them do the tests notice?

    python benchmarks/mutations.py [--count=40] [--seed=0] [--jobs=2] [--only=0,7] [--near]

changes one operator, number, condition, argument or statement at a time in a copy of the working
tree, drawn over all folders alike, and runs in turn, until a test fails:

1. the tests that `.ci/run` takes, of the mutated file, its folder and those that import it;
2. all tests that `.ci/run` takes;
3. the integration tests that `.ci/run all` takes, in the same two steps.

With `--near`, whole selections are left out, which take long.

For each mutation it prints the change and the test that noticed it, then the counts of each step.
The same seed draws the same mutations of the same source. Survivors of all steps deserve a look:
many of them change nothing that can be seen.
"""

import argparse
import ast
import copy
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
# How long a mutated run may take: a mutation may make a loop endless, which the tests notice.
MOST_SECONDS = 1800
_OPPOSITES = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutation(NamedTuple):
    """A change of one piece of source.

    Attributes:
        path: the file, relative to the root.
        line: where the piece begins, from 1.
        before: the piece.
        after: what stands there instead.
        source: the whole file with the change.
    """

    path: pathlib.Path
    line: int
    before: str
    after: str
    source: str


class Outcome(NamedTuple):
    """What became of a mutation.

    Attributes:
        noticed_by: the step that noticed it; "": none.
        test: the first test that failed; "": the run ended otherwise.
    """

    noticed_by: str
    test: str


# ---- mutations


def mutants(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that may stand for this one, each unlike it."""
    match node:
        case ast.Compare(ops=[operator, *_]) if type(operator) in _OPPOSITES:
            changed = copy.deepcopy(node)
            changed.ops[0] = _OPPOSITES[type(operator)]()
            yield changed
        case ast.BinOp() | ast.BoolOp() if type(node.op) in _OPPOSITES:
            changed = copy.deepcopy(node)
            changed.op = _OPPOSITES[type(node.op)]()
            yield changed
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int() | float()):
            yield ast.Constant(node.value + 1)
        case ast.If() | ast.IfExp() | ast.While():
            changed = copy.deepcopy(node)
            changed.test = ast.UnaryOp(ast.Not(), node.test)
            yield changed
        case ast.Return(value=ast.Constant(value=None)):
            pass  # it is what others become
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield ast.Pass()
        case ast.Call(keywords=[_, *_]):
            changed = copy.deepcopy(node)
            changed.keywords.pop()
            yield changed


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that run: no annotations, and nothing that only type checkers see."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _code(child)


def _offset(lines: Sequence[bytes], line: int, column: int) -> int:
    return sum(map(len, lines[: line - 1])) + column


def draw_mutation(folder: str, draw: random.Random) -> Mutation:
    """Returns a mutation of one of a folder's files, larger ones more often."""
    paths = sorted(
        path for path in (ROOT / folder).glob("*.py") if path.stat().st_size > 200
    )  # not those that only say what a folder is
    while True:
        (path,) = draw.choices(paths, [path.stat().st_size for path in paths])
        source = path.read_bytes()
        choices = [(node, new) for node in _code(ast.parse(source)) for new in mutants(node)]
        if not choices:
            continue
        node, new = draw.choice(choices)
        lines = source.splitlines(keepends=True)
        start = _offset(lines, node.lineno, node.col_offset)
        end = _offset(lines, node.end_lineno, node.end_col_offset)
        text = ast.unparse(ast.fix_missing_locations(new))
        if isinstance(node, ast.expr):
            text = f"({text})"
        text = text.replace("\n", "\n" + " " * node.col_offset)
        changed = (source[:start] + text.encode() + source[end:]).decode()
        try:
            ast.parse(changed)
        except SyntaxError:  # in the middle of an f-string, say
            continue
        before = source[start:end].decode()
        return Mutation(path.relative_to(ROOT), node.lineno, before, text, changed)


def source_folders() -> list[str]:
    """Returns the folders with source, relative to the root."""
    outer = ("t2t_lite", "problems", "hparams", "bin")
    paths = (path for name in outer for path in (ROOT / name).rglob("[!_]*.py"))
    return sorted({str(path.parent.relative_to(ROOT)) for path in paths})


# ---- tests


def _imported_folders(folder: str) -> set[str]:
    """Returns what a folder imports of the package, modules or folders, as paths in it."""
    found = set()
    for path in (ROOT / folder).glob("*.py"):
        for match in re.finditer(
            r"^\s*(?:from|import) t2t_lite((?:\.\w+)*)", path.read_text(), re.M
        ):
            found.add(match[1].removeprefix(".").replace(".", "/"))
    return found


def _importing_tests(path: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files of tests that import a source file by its name."""
    folder = f"t2t_lite/{path.parent.as_posix().removeprefix('t2t_lite')}".replace("//", "/")
    package = folder.rstrip("/").replace("/", r"\.")
    names = (
        rf"^\s*(from|import) {package}\.{path.stem}\b|^\s*from {package} import .*\b{path.stem}\b"
    )
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return [test for test in tests if re.search(names, test.read_text(encoding="utf-8"), re.M)]


def tests_of(path: pathlib.Path) -> list[str]:
    """Returns the tests of a source file, those first that are likely to notice a change.

    They are the tests with its name, those that import it, those of its folder (or of the one
    around it, where its folder has none), and those of the folders that import its folder.
    """
    folder = path.parent.as_posix()
    name = folder.removeprefix("t2t_lite").removeprefix("/")
    inside = ROOT / "tests" / name
    around = [inside, *inside.parents]
    around = around[: around.index(ROOT / "tests") + (not name)]
    own = [test for one in around for test in sorted(one.glob(f"test_{path.stem}*.py"))]
    own += _importing_tests(path)
    importing = [
        ROOT / "tests" / other.removeprefix("t2t_lite/")
        for other in source_folders()
        if name and any(f"{one}/".startswith(f"{name}/") for one in _imported_folders(other))
    ]
    nearest = next(one for one in around if one.is_dir())
    of_folder = [nearest] if name else sorted(nearest.glob("test_*.py"))
    places = [*own, *of_folder, *(one for one in importing if one.is_dir())]
    return [one.relative_to(ROOT).as_posix() for one in dict.fromkeys(places)]


def selections() -> dict[str, list[str]]:
    """Returns the options of pytest by the command that takes them, in the order of trying."""
    counted = subprocess.run(
        ["git", "rev-list", "--count", "HEAD"], cwd=ROOT, check=True, capture_output=True
    )
    part = ["-m", "not slow", "--as-traced", f"--part={int(counted.stdout) % 3}"]
    # What `.ci/run` takes has passed; a third of these has, too.
    return {".ci/run": part, ".ci/run all": ["-m", "integration and not slow", "--as-traced"]}


def first_failure(tree: pathlib.Path, tests: Sequence[str], selection: Sequence[str]) -> str | None:
    """Runs tests in a tree until one fails.

    Returns:
        The name of the test; "": the run ended otherwise; None: all passed.
    """
    command = [sys.executable, "-m", "pytest", "--exitfirst", "--no-header", "-q", "-rfE"]
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    try:
        done = subprocess.run(
            [*command, *selection, *tests],
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=MOST_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return ""
    if done.returncode in (0, 5):  # 5: the selection has no test there
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return failed[1] if failed else ""


def judge(mutation: Mutation, tree: pathlib.Path, near_only: bool = False) -> Outcome:
    """Runs the tests on a mutated copy of the tree."""
    (tree / mutation.path).write_text(mutation.source, encoding="utf-8")
    try:
        for name, selection in selections().items():
            for which, tests in (("near", tests_of(mutation.path)), ("whole", ["tests"])):
                if near_only and which == "whole":
                    continue
                test = first_failure(tree, tests, selection)
                if test is not None:
                    return Outcome(f"{name}, {which}", test)
        return Outcome("", "")
    finally:
        shutil.copy(ROOT / mutation.path, tree / mutation.path)


def copy_tree(folder: pathlib.Path) -> pathlib.Path:
    """Copies the tracked files of the working tree, as they are, with their history."""
    tree = folder / "tree"
    shared = ROOT.parent / "shared"
    if shared.exists():  # the real corpora, which tests read beside the tree
        (folder / "shared").parent.mkdir(parents=True, exist_ok=True)
        (folder / "shared").symlink_to(shared)
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(tree)], check=True)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    return tree


# ---- the command


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=40, help="mutations")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=2, help="mutations that are judged at a time")
    parser.add_argument("--only", default="", help="numbers of mutations, separated by commas")
    parser.add_argument(
        "--near", action="store_true", help="run the near tests alone: whole selections take long"
    )
    flags = parser.parse_args()

    draw = random.Random(flags.seed)
    folders = source_folders()
    draw.shuffle(folders)
    drawn = [draw_mutation(folders[i % len(folders)], draw) for i in range(flags.count)]
    numbers = [int(number) for number in flags.only.split(",") if number] or range(flags.count)
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor(flags.jobs) as pool:
        free = [copy_tree(pathlib.Path(temporary, str(job))) for job in range(flags.jobs)]

        def judged(number: int) -> Outcome:
            tree = free.pop()
            try:
                return judge(drawn[number], tree, flags.near)
            finally:
                free.append(tree)

        futures = {pool.submit(judged, number): number for number in numbers}
        for future in as_completed(futures):
            number, outcome = futures[future], future.result()
            one = drawn[number]
            outcomes.append(outcome)
            print(f"{number:3d} {one.path}:{one.line}: {_short(one.before)} -> {_short(one.after)}")
            print(f"    {outcome.noticed_by or 'NOT NOTICED'} {outcome.test}", flush=True)
    for step in dict.fromkeys(outcome.noticed_by for outcome in outcomes):
        count = sum(outcome.noticed_by == step for outcome in outcomes)
        print(f"{count:3d} {step or 'not noticed'}")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:50]} … {line[-25:]}"


if __name__ == "__main__":
    main()
