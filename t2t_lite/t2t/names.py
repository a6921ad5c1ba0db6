"""Which modules of tensor2tensor are offered, and what to write instead of the others."""

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from t2t_lite.registry import snake_case
from t2t_lite.t2t.placeholders import MissingNameError, Placeholder, placeholder
from t2t_lite.t2t.user_imports import ROOT, is_executing

_PAGE = "docs/t2t-names.md"
_MODEL = "port the model: docs/extending.md#a-model"
_OWN_COPY = "copy the module into your user directory"
_OWN_NAME = "copy its definition into your user directory"

_TABLES = json.loads(pathlib.Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
# The modules that are offered, each with its module in this folder.
MODULES: Mapping[str, str] = _TABLES["modules"]
# What to write instead of a module, or of one name of a module. The modules here can be imported,
# since many files do so without using them; their names cannot.
REPLACEMENTS: Mapping[str, str] = _TABLES["replacements"]
# T2T's modules of problems that are not offered: a class that builds on one of theirs needs a copy.
PROBLEM_MODULES: Sequence[str] = _TABLES["problem_modules"]
_ABSENT = {
    **{f"data_generators.{name}": _OWN_COPY for name in PROBLEM_MODULES},
    **{name: text for name, text in REPLACEMENTS.items() if name.rpartition(".")[0] not in MODULES},
}
_PACKAGES = {"", "data_generators", "layers", "models", "models.research", "utils"}


def spec(fullname: str, packages: Iterable[str] = ()) -> importlib.machinery.ModuleSpec:
    """Returns the spec of a module of tensor2tensor.

    Args:
        fullname: its name, such as `tensor2tensor.data_generators.problem`.
        packages: user directories, which may have copies of T2T's modules of problems.

    Returns:
        The spec; a module that is not here has placeholders for names.

    Raises:
        MissingNameError: the name is a misspelt one of a module that is here.
    """
    name = fullname.removeprefix(ROOT).removeprefix(".")
    folder, _, module = name.rpartition(".")
    is_known = name in _PACKAGES or name in MODULES or name in _ABSENT
    if not is_known and (near := _near(module, _modules_in(folder))):
        raise MissingNameError(f"{fullname} does not exist; did you mean {near!r}? (see {_PAGE})")
    target = f"{__package__}.{MODULES[name]}" if name in MODULES else ""
    if not target and folder == "data_generators":
        copies = (f"{package}.{module}" for package in packages if package in sys.modules)
        # A copy that imports the module of its own name means T2T's.
        others = (copy for copy in copies if not is_executing(copy))
        target = next((copy for copy in others if importlib.util.find_spec(copy)), "")
    is_package = name in _PACKAGES or name not in MODULES
    return importlib.machinery.ModuleSpec(fullname, _Loader(target), is_package=is_package)


def missing(module: str, name: str, known: Iterable[str] = ()) -> Placeholder:
    """Returns the placeholder of a name that is not there.

    Args:
        module: the module, without the leading `tensor2tensor`.
        name: the missing name in it.
        known: the names that are there.
    """
    full = ".".join(filter(None, (module, name)))
    parents = (module.rsplit(".", n)[0] for n in range(module.count(".") + 1))
    text = REPLACEMENTS.get(full) or next((_ABSENT[p] for p in parents if p in _ABSENT), "")
    rest = _OWN_NAME if module.startswith("data_generators.") else _MODEL
    if near := _near(name, known):
        instead = f"; did you mean {near!r}?"
    else:
        instead = f"; instead: {text or rest}"
    return placeholder(
        f"{ROOT}.{full}",
        f"is not available in t2t_lite{instead}; {_PAGE} lists what is",
    )


def _modules_in(folder: str) -> list[str]:
    found = (name.rpartition(".") for name in (*MODULES, *_PACKAGES))
    return [name for parent, _, name in found if parent == folder and name]


def _near(name: str, known: Iterable[str]) -> str:
    """Returns the known name that differs by the letters of one word; "": none.

    T2T's own names of the same kind, such as those of two sets, differ by words or numbers.
    """
    words = snake_case(name).split("_")
    for entry in known:
        others = snake_case(entry).split("_")
        differing = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
        if len(words) == len(others) and len(differing) == 1:
            one, other = differing[0]
            is_spelling = [c for c in one if c.isdigit()] == [c for c in other if c.isdigit()]
            if is_spelling and SequenceMatcher(None, one, other).ratio() >= 0.8:
                return entry
    return ""


class _Loader(importlib.abc.Loader):
    """Puts another module, or an empty one, under the name that is imported.

    Args:
        target: name of the other module; empty: none.
    """

    def __init__(self, target: str) -> None:
        self._target = target

    def exec_module(self, module: types.ModuleType) -> None:
        """Fills the module."""
        fullname = module.__name__
        name = fullname.removeprefix(ROOT).removeprefix(".")
        if self._target:
            other = sys.modules[fullname] = importlib.import_module(self._target)
            look_up = functools.partial(_missing_name, name, tuple(getattr(other, "__all__", ())))
            if name in MODULES:
                vars(other).setdefault("__getattr__", look_up)
        elif name in _PACKAGES:
            vars(module)["__getattr__"] = functools.partial(_submodule, fullname)
        else:
            vars(module)["__getattr__"] = functools.partial(_missing_name, name, ())


def _missing_name(module: str, known: tuple[str, ...], name: str) -> Placeholder:
    """Is the `__getattr__` of a module."""
    if name.startswith("__"):
        raise AttributeError(name)
    return missing(module, name, known)


def _submodule(package: str, name: str) -> types.ModuleType:
    """Is the `__getattr__` of a package."""
    if name.startswith("__"):
        raise AttributeError(name)
    return importlib.import_module(f"{package}.{name}")
