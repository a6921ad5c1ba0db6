"""Which modules of tensor2tensor are offered, and what to write instead of the others.

Importing a name that is not there works; using it is an error. A user directory may hold a model
beside its problems: its classes and decorators are defined on placeholders while the directory is
imported, and whatever is called later says what is missing.
"""

import abc
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import json
import pathlib
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NoReturn

from t2t_lite import user_imports
from t2t_lite.errors import UsageError
from t2t_lite.names import snake_case
from t2t_lite.user_imports import ROOT, is_executing

_PAGE = "docs/t2t-names.md"
_MODEL = "port the model: docs/extending.md#a-model"
_OWN_COPY = "copy the module into your user directory"
_OWN_NAME = "copy its definition into your user directory"

TABLES: Mapping[str, Any] = json.loads(
    pathlib.Path(__file__).with_name("names.json").read_text(encoding="utf-8")
)
# The modules that are offered, each with its module in this folder.
MODULES: Mapping[str, str] = TABLES["modules"]
# What to write instead of a module, or of one name of a module. The modules here can be imported,
# since many files do so without using them; their names cannot.
REPLACEMENTS: Mapping[str, str] = TABLES["replacements"]
# T2T's modules of problems that are not offered: a class that builds on one of theirs needs a copy.
PROBLEM_MODULES: Sequence[str] = TABLES["problem_modules"]
_ABSENT = {
    **{f"data_generators.{name}": _OWN_COPY for name in PROBLEM_MODULES},
    **{name: text for name, text in REPLACEMENTS.items() if name.rpartition(".")[0] not in MODULES},
}
_PACKAGES = {"", "data_generators", "layers", "models", "models.research", "utils"}


def constants(name: str, table: str, about: str) -> Any:
    """Returns a class of T2T's constants.

    Args:
        name: of the class.
        table: the key of names.json.
        about: its docstring.
    """
    return type(name, (), {"__doc__": about, **TABLES[table]})


# ---- names that are not there


class MissingNameError(UsageError, ImportError):
    """A name that is not offered was used; the message has its replacement.

    Not an AttributeError: Python would replace the message of one in `from module import name`.
    """


class Placeholder(abc.ABCMeta):
    """The class of placeholders, which are classes, so that others can derive from them.

    ABCMeta, so that a class may derive from an abstract class as well.
    """

    full_name: str
    reason: str

    @property
    def message(cls) -> str:
        """What is missing, and what to write instead."""
        return f"{cls.full_name} {cls.reason}"

    def __getattr__(cls, name: str) -> "Placeholder":
        if name.startswith(("__", "_t2t_lite")):
            raise AttributeError(name)
        return placeholder(f"{cls.full_name}.{name}", cls.reason)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Stands for a decorator, or for one that is called, while a user's module is imported.

        Raises:
            MissingNameError: any other call.
        """
        if not user_imports.is_executing():
            cls.refuse()
        if len(args) == 1 and not kwargs and _is_defined_here(args[0]):
            return args[0]
        return placeholder(cls.full_name, cls.reason)

    def register(cls, *args: Any, **kwargs: Any) -> Any:
        """Is T2T's method of its registries, not that of abstract classes."""
        return cls.__getattr__("register")(*args, **kwargs)

    def refuse(cls) -> NoReturn:
        """Raises MissingNameError, with the user's line that used the name, if there is one."""
        frame = inspect.currentframe()
        while frame is not None and not user_imports.is_users(frame.f_globals["__name__"]):
            frame = frame.f_back
        line = f" (used in {frame.f_code.co_filename}, line {frame.f_lineno})" if frame else ""
        raise MissingNameError(f"{cls.message}{line}", name=cls.full_name)

    def __instancecheck__(cls, instance: Any) -> bool:
        return False

    def __eq__(cls, other: object) -> bool:
        if not isinstance(other, type) and not user_imports.is_executing():
            cls.refuse()
        return cls is other

    __hash__ = abc.ABCMeta.__hash__

    def __repr__(cls) -> str:
        return cls.full_name

    # Other code than a user's asks for these three, too, such as that which reports an error.

    def __str__(cls) -> str:
        cls._refuse_to_user()
        return cls.full_name

    def __format__(cls, spec: str) -> str:
        cls._refuse_to_user()
        return format(cls.full_name, spec)

    def __bool__(cls) -> bool:
        cls._refuse_to_user()
        return True

    def _refuse_to_user(cls) -> None:
        """Refuses if a user's function has called the caller."""
        caller = sys._getframe(2)
        if user_imports.is_users(caller.f_globals["__name__"]) and not user_imports.is_executing():
            cls.refuse()

    def _while_importing(cls, *args: Any) -> "Placeholder":
        """Is an operator: constants of a user's module may be made of constants of T2T's."""
        return cls if user_imports.is_executing() else cls.refuse()

    def _refused(cls, *args: Any) -> NoReturn:
        """Is an operator whose result cannot be a placeholder."""
        cls.refuse()

    def __iter__(cls) -> Iterator[Any]:
        """Returns no item while a module is imported, such as one that goes through a table."""
        return iter(()) if user_imports.is_executing() else cls.refuse()

    def __contains__(cls, item: object) -> bool:
        return False if user_imports.is_executing() else cls.refuse()

    # Python looks all of them up in the class of a placeholder, not in the placeholder.
    __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _while_importing
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = (
        _while_importing
    )
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __invert__ = _while_importing
    __and__ = __rand__ = __xor__ = __rxor__ = _while_importing
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = __matmul__ = __rmatmul__ = (
        _while_importing
    )
    __lt__ = __le__ = __gt__ = __ge__ = __setitem__ = __delitem__ = _while_importing
    __len__ = __reversed__ = _refused
    __fspath__ = __index__ = __int__ = __float__ = __bytes__ = __round__ = _refused
    __next__ = __enter__ = __exit__ = _refused


def placeholder(full_name: str, reason: str) -> Placeholder:
    """Returns the placeholder of a name.

    Args:
        full_name: with its module.
        reason: why it is an error to use it, and what to write instead.
    """
    fields = {"reason": reason, "full_name": full_name, "__module__": __name__, "__all__": ()}
    return Placeholder(full_name.rpartition(".")[2], (), fields)


def _is_defined_here(value: Any) -> bool:
    """Whether a value is a class or function of a user's, which a decorator returns."""
    return (hasattr(value, "__qualname__") and not isinstance(value, Placeholder)) or (
        isinstance(value, Placeholder) and value.__module__ != __name__
    )


# ---- modules


def spec(fullname: str, packages: Iterable[str] = ()) -> importlib.machinery.ModuleSpec:
    """Returns the spec of a module of tensor2tensor.

    Args:
        fullname: its name, such as `tensor2tensor.data_generators.problem`.
        packages: user directories, which may have copies of T2T's modules of problems.

    Returns:
        The spec; a module that is not here has placeholders for names.
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


def of_dependency(module: str) -> Placeholder | None:
    """Returns the placeholder of a module of a package that T2T installs; None: T2T does not."""
    package = TABLES["dependencies"].get(module.partition(".")[0])
    if package is None:
        return None
    install = f"is of a package that T2T installs, but t2t_lite does not: pip install {package}"
    return placeholder(module, install)


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
            other = importlib.import_module(self._target)
            if list(MODULES.values()).count(MODULES.get(name, "")) > 1:
                # Several modules of T2T's in one file: each says under its own name what it lacks.
                vars(module).update(
                    (key, value)
                    for key, value in vars(other).items()
                    if key in ("__all__", "__getattr__") or not key.startswith("__")
                )
            else:
                module = sys.modules[fullname] = other
            if name in MODULES:
                known = tuple(getattr(module, "__all__", ()))
                look_up = functools.partial(_missing_name, name, known)
                vars(module).setdefault("__getattr__", look_up)
        elif name in _PACKAGES:
            vars(module)["__getattr__"] = functools.partial(_submodule, fullname)
        else:
            vars(module)["__getattr__"] = functools.partial(_missing_name, name, ())


def _missing_name(module: str, known: tuple[str, ...], name: str) -> types.ModuleType | Placeholder:
    """Is the `__getattr__` of a module."""
    if name.startswith("__"):
        raise AttributeError(name)
    for folder in ("data_generators", "layers", "models", "utils"):  # T2T's modules import others
        if f"{folder}.{name}" in MODULES:
            return importlib.import_module(f"{ROOT}.{folder}.{name}")
    return missing(module, name, known)


def _submodule(package: str, name: str) -> types.ModuleType:
    """Is the `__getattr__` of a package."""
    if name.startswith("__"):
        raise AttributeError(name)
    return importlib.import_module(f"{package}.{name}")
