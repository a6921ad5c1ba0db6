"""Imports point downward only, and what `--help` loads imports neither TensorFlow nor Keras."""

import ast
import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pytest

_ROOT = pathlib.Path(__file__).parents[1]

# The rooms of the house from the bottom up, and the modules of the ground.
# A module may import from its own room and from the floors below it. What user directories need of
# T2T is on the ground: `usr_dirs` and the processes that generate data import it.
_FLOORS = (
    {"errors", "t2t_flags", "user_imports", "version"},
    {"names"},
    {
        "extras",
        "files",
        "json_files",
        "lock",
        "memory",
        "pages",
        "processor",
        "progress",
        "protocol_buffers",
        "registry",
        "settings",
        "tensor_sizes",
        "waiting",
    },
    {"hparams", "kept_work", "usr_dirs"},
    {"text"},
    {"layers", "terms"},
    {"data", "models"},
    {"problems", "systems"},
    {"metrics"},
    {"runs", "search"},
    {"decoding"},
    {"serving", "study", "training"},
    {"api"},
    {"interop"},
    {"bin"},
)
_FLOOR = {room: height for height, rooms in enumerate(_FLOORS) for room in rooms}
_HEAVY = ("tensorflow", "tensorflow_text", "keras")


def _room(name: str) -> str:
    """The room, or the module of the ground, that a dotted name belongs to."""
    return name.partition(".")[0]


def _modules() -> dict[str, pathlib.Path]:
    """Every module of the package by its dotted name without the leading `t2t_lite`."""
    found = {}
    for folder in ("t2t_lite", "problems", "hparams", "bin"):
        for path in (_ROOT / folder).rglob("*.py"):
            parts = path.relative_to(_ROOT).with_suffix("").parts
            parts = parts[1:] if folder == "t2t_lite" else parts
            found[".".join(parts).removesuffix("__init__").removesuffix(".")] = path
    found.pop("")  # t2t_lite/__init__.py has the version alone
    return found


_MODULES = _modules()


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _imports(node: ast.AST, inside_functions: bool, types: bool) -> Iterator[str]:
    """Yields the dotted names that code imports, `from a import b` as `a.b`.

    Args:
        node: the code.
        inside_functions: False leaves out what functions import when they are called.
        types: False leaves out what only type checkers read.
    """
    for child in ast.iter_child_nodes(node):
        if _is_type_checking(child) and not types:
            continue
        if isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif inside_functions or not isinstance(child, ast.FunctionDef):
            yield from _imports(child, inside_functions, types)


def _imports_of(module: str, inside_functions: bool = True, types: bool = False) -> list[str]:
    tree = ast.parse(_MODULES[module].read_text(encoding="utf-8"))
    return list(_imports(tree, inside_functions, types))


def _may_name_types_from_above(module: str) -> bool:
    """Whether it declares what it returns without importing it: the registry alone."""
    return module == "registry"


@pytest.mark.parametrize("module", _MODULES)
def test_imports_point_downward(module: str):
    """So rooms have no circle, in what type checkers alone read, too."""
    own = _room(module)
    for name in _imports_of(module, types=not _may_name_types_from_above(module)):
        if name.startswith("t2t_lite."):
            other = _room(name.removeprefix("t2t_lite."))
            assert other == own or _FLOOR[other] < _FLOOR[own], f"{module} imports {name}"


@pytest.mark.integration
def test_no_import_circles():
    """Within packages, inside functions, and in what type checkers alone read, too."""
    graph = {module: set(_modules_imported_by(module)) for module in _MODULES}
    while graph:
        leaves = {module for module, imported in graph.items() if not imported}
        assert leaves, f"each of these imports another of them: {sorted(graph)}"
        graph = {m: imported - leaves for m, imported in graph.items() if m not in leaves}


def _modules_imported_by(module: str) -> Iterator[str]:
    names = _imports_of(module, types=not _may_name_types_from_above(module))
    return filter(None, map(_module_of, names))


def _module_of(name: str) -> str | None:
    """The module that an imported name is, or is a name of; None if it is not ours."""
    if not name.startswith("t2t_lite."):
        return None
    name = name.removeprefix("t2t_lite.")
    return name if name in _MODULES else name.rpartition(".")[0] or None


def test_the_transformer_is_read_in_eight_files():
    """Those that it imports of layers/ and models/; what few users choose hangs on from outside."""
    waiting, read = ["models.transformer"], set[str]()
    while waiting:
        module = waiting.pop()
        if module not in read and _room(module) in ("layers", "models"):
            read.add(module)
            waiting += _modules_imported_by(module)
    assert len(read - {"layers", "models"}) <= 8, sorted(read)


@pytest.mark.parametrize(
    "module", [m for m in _MODULES if m.startswith(("layers", "models", "systems"))]
)
def test_models_know_keras_alone(module: str):
    imported = {name.split(".")[0] for name in _imports_of(module)}
    assert not imported & {"tensorflow", "tensorflow_text"}


@pytest.mark.parametrize(
    "module",
    [m for m in _MODULES if m.startswith(("hparams", "problems", "bin"))]
    + ["registry", "settings", "data.problem", "data.text_problems"],
)
def test_names_are_listed_without_tensorflow(module: str):
    imported = {name.split(".")[0] for name in _imports_of(module, inside_functions=False)}
    assert not imported & set(_HEAVY)


@pytest.mark.integration
def test_no_module_warns_when_imported():
    """Warnings of other packages, which are theirs to mend, do not count."""
    script = f"""
import importlib, sys, warnings
sys.modules.update(jax=None, matplotlib=None)  # which TensorFlow and Keras load, if there
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for module in {[*_MODULES]}:
        importlib.import_module("t2t_lite." + module)
ours = [str(w) for w in caught if w.filename.startswith({str(_ROOT)!r} + "/")]
assert not ours, ours
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_search_settings_load_no_vocabulary():
    script = "import sys, t2t_lite.search.decode_hparams as _; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert not {"numpy", "sentencepiece"} & {*loaded.stdout.split()}


@pytest.mark.integration
def test_help_loads_neither_tensorflow_nor_keras():
    commands = [path.stem for path in (_ROOT / "bin").glob("t2t_*.py")]
    assert len(commands) >= 6
    script = f"""
import importlib, sys
for command in {commands}:
    module = importlib.import_module("t2t_lite.bin." + command)
    main = module.main
    for flag in ("--help", "--registry_help")[: 1 + ("registry_help" in module.COMMAND.flags)]:
        try:
            main([flag])
        except SystemExit as end:
            assert end.code == 0, (command, flag)
assert not set({_HEAVY!r}) & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    assert done.returncode == 0
