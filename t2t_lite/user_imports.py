"""Imports of `tensor2tensor` and TensorFlow 1 in user directories.

`names` answers those of `tensor2tensor`. Its finder comes after Python's own: an installed
tensor2tensor is not hidden. What answers is imported only when it is asked for, and this module
imports nothing of this package, so that the registry can use it.

In the modules of a user directory, in those beside it, and in others that they import and that are
not installed, `tensorflow` also has the names of TensorFlow 1 (`tensorflow1`). No other module sees
them.
"""

import builtins
import functools
import importlib
import importlib.abc
import importlib.machinery
import logging
import os
import sys
import sysconfig
import types
from collections.abc import Iterable, Sequence
from typing import Any

log = logging.getLogger(__name__)

ROOT = "tensor2tensor"
_NAMES = "t2t_lite.interop.t2t"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `tensor2tensor` and its modules in `names`.

    Attributes:
        packages: the user directories, whose copies of T2T's modules are found, too.
    """

    def __init__(self) -> None:
        self.packages: list[str] = []

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a module; None for other packages.

        Raises:
            ModuleNotFoundError: it is not there; the message says what to write instead.
        """
        if fullname.partition(".")[0] != ROOT:
            return None
        names = importlib.import_module(f"{_NAMES}.names")
        if fullname == ROOT:
            log.info(
                "tensor2tensor is not installed: t2t_lite answers its imports "
                "(docs/coming-from-t2t.md)"
            )
        spec: importlib.machinery.ModuleSpec = names.spec(fullname, self.packages)
        return spec


class _UserFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of users: of user directories, beside them, and what they import.

    Attributes:
        owned: the names of the modules found.
    """

    def __init__(self) -> None:
        self.owned: set[str] = set()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a user's module, with its loader; None for other modules."""
        parent = fullname.rpartition(".")[0]
        if (parent and parent not in self.owned) or not _FINDER.packages:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or not (parent or fullname in _FINDER.packages or _is_near(spec)):
            return None
        self.owned.add(fullname)
        if type(spec.loader) is importlib.machinery.SourceFileLoader:
            spec.loader = UserLoader(fullname, spec.loader.path)
        return spec


class UserLoader(importlib.machinery.SourceFileLoader):
    """Runs a user's module; its imports of tensorflow have the names of TensorFlow 1."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module."""
        # The import statements of the module and of its functions call this function.
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        _USER_FINDER.owned.add(module.__name__)
        _EXECUTING.append(module.__name__)
        try:
            super().exec_module(module)
        finally:
            _EXECUTING.remove(module.__name__)

    def source_to_code(self, data: Any, path: Any, **options: Any) -> types.CodeType:  # type: ignore[override]
        """Compiles a module.

        Raises:
            SyntaxError: it cannot be compiled; `filename` is always that of the module.
        """
        try:
            return super().source_to_code(data, path, **options)
        except SyntaxError as error:
            error.filename = error.filename or path
            raise
        except (ValueError, RecursionError, MemoryError) as error:  # null bytes, deep nesting
            raise SyntaxError(str(error) or type(error).__name__, (path, 1, None, None)) from error


_FINDER = _Finder()
_USER_FINDER = _UserFinder()
_EXECUTING: list[str] = []
_IMPORTING: list[str] = []  # what users' modules are importing


def install(packages: Iterable[str]) -> None:
    """Lets `tensor2tensor` be imported from here on, in this process.

    Args:
        packages: names of user directories; further calls add theirs.
    """
    _FINDER.packages += packages
    _libraries()  # not while a finder is asked: `sysconfig` imports its settings
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)
        sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), _USER_FINDER)


def uninstall() -> None:
    """Undoes every `install`."""
    for finder in (_FINDER, _USER_FINDER):
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)
    _FINDER.packages.clear()
    _USER_FINDER.owned.clear()


def packages() -> list[str]:
    """Returns the user directories for which `install` has been called in this process."""
    return list(_FINDER.packages)


def is_executing(name: str = "") -> bool:
    """Whether a user's module (the one with this name, if given) is being imported."""
    return name in _EXECUTING if name else bool(_EXECUTING)


def is_users(name: str) -> bool:
    """Whether a module is of a user directory, or beside one."""
    return name in _USER_FINDER.owned


def _is_near(spec: importlib.machinery.ModuleSpec) -> bool:
    """Whether a module lies in or beside a user directory, or a user's module imports it.

    Installed packages are never near, and this one is not.
    """
    places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    folder = os.path.dirname(next(iter(places), ""))
    if spec.name == __package__ or any(map(functools.partial(_is_in, folder), _libraries())):
        return False
    loaded = (sys.modules.get(name) for name in _FINDER.packages)
    paths = [path for module in loaded if module for path in module.__path__]
    # A directory on its own path, as of PYTHONPATH, has modules that no package names.
    inside = any(_is_in(folder, path) for path in paths)
    return inside or folder in map(os.path.dirname, paths) or bool(_IMPORTING)


@functools.cache
def _libraries() -> list[str]:
    """Returns the folders of installed packages and of Python's own."""
    return [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]


def _is_in(folder: str, other: str) -> bool:
    return f"{folder}/".startswith(f"{other}/")


def _import(
    name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
) -> Any:
    """Is `__import__` in users' modules."""
    first = name.partition(".")[0]
    if first == "tensorflow" and not level:
        tensorflow1 = importlib.import_module(f"{_NAMES}.tensorflow1")
        return tensorflow1.imported(name, bool(fromlist))
    _IMPORTING.append(name)
    try:
        return builtins.__import__(name, globals, locals, fromlist, level)
    except ModuleNotFoundError as error:
        names = importlib.import_module(f"{_NAMES}.names")
        is_missing = error.name == first and not level
        lacking = names.of_dependency(name if fromlist else first) if is_missing else None
        if lacking is None:
            raise
        return lacking
    finally:
        _IMPORTING.remove(name)
