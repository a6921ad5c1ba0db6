"""TensorFlow as the modules of user directories see it: with the names of TensorFlow 1."""

import builtins
import contextlib
import functools
import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any

from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.names import placeholder

_ROOT = "tensorflow"
_V1 = "compat.v1"
_PAGE = "docs/coming-from-t2t.md"
_BUILTINS = frozenset(dir(builtins))
# How TensorFlow 2 works, for the whole process: training here needs what TensorFlow 2 begins with.
_SWITCHES = frozenset(
    f"{change}_{what}"
    for change in ("disable", "enable")
    for what in (
        *("control_flow_v2", "eager_execution", "resource_variables", "tensor_equality"),
        *("v2_behavior", "v2_tensorshape"),
    )
)


def _leave(*_args: Any, **_kwargs: Any) -> None:
    """Does nothing, in the place of a switch."""


class ModeKeys:
    """T2T's names of what a model is built for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


class _Module(types.ModuleType):
    """A module of TensorFlow; what it lacks comes from compat.v1, and then from `NAMES`."""

    def __getattr__(self, name: str) -> Any:
        path = self.__name__.removeprefix(_ROOT).removeprefix(".")
        if name == "__all__":
            return _public_names(path)
        if name in _SWITCHES:
            return _leave
        full = f"{path}.{name}" if path else name
        for place in _places(full):
            # An attribute may be there and fail, such as one of an old Keras.
            with contextlib.suppress(AttributeError, ImportError, NotImplementedError):
                found = _real(place)
                return _module(full) if isinstance(found, types.ModuleType) else found
        if name.startswith("__"):
            raise AttributeError(name)
        if (made := NAMES.get(full.removeprefix(f"{_V1}."))) is not None:
            return made()
        return placeholder(
            f"{_ROOT}.{full}",
            "is TensorFlow 1's and has no counterpart: write it with TensorFlow 2 "
            f"or Keras, and models as in docs/extending.md ({_PAGE})",
        )


@functools.cache
def _module(path: str) -> _Module:
    return _Module(f"{_ROOT}.{path}".rstrip("."))


# Names that TensorFlow 2 lacks, even in compat.v1.
NAMES: Mapping[str, Callable[[], Any]] = {
    "app.flags": lambda: _module("flags"),
    "contrib": lambda: _module("contrib"),
    "contrib.framework": lambda: _module("contrib.framework"),
    "contrib.framework.nest": lambda: _module("nest"),
    "contrib.training": lambda: _module("contrib.training"),
    "contrib.training.HParams": lambda: HParams,
    "estimator": lambda: _module("estimator"),
    "estimator.ModeKeys": lambda: ModeKeys,
}


def _places(path: str) -> tuple[str, str]:
    """Returns the paths in TensorFlow 2 that stand for one in TensorFlow 1."""
    return path, f"{_V1}.{path}".rstrip(".")


def _public_names(path: str) -> list[str]:
    """Returns what `from tensorflow.X import *` brings.

    Python's own names, such as `range`, are left out: code that makes samples means Python's.
    """
    names = set()
    for module in _places(path):
        with contextlib.suppress(AttributeError, ImportError):
            names |= set(dir(_real(module)))
    start = f"{path}." if path else ""
    names |= {name.removeprefix(start) for name in NAMES if name.startswith(start)}
    return sorted(
        name for name in names if name.isidentifier() and name[0] != "_" and name not in _BUILTINS
    )


@functools.cache
def _real(path: str) -> Any:
    """Returns TensorFlow's object at a path.

    Raises:
        AttributeError: there is none.
        ImportError: the same.
    """
    above, _, name = path.rpartition(".")
    if not name:
        return importlib.import_module(_ROOT)
    found = _real(above)
    if hasattr(found, name) or not isinstance(found, types.ModuleType):
        return getattr(found, name)
    return importlib.import_module(f"{_ROOT}.{path}")  # `tensorflow.python` is not an attribute


def imported(name: str, has_names: bool) -> Any:
    """Returns what `import` yields.

    Args:
        name: a module, from `tensorflow` on.
        has_names: for `from name import ...`, which yields the module itself; otherwise, the first.
    """
    with contextlib.suppress(ImportError):  # the attributes are placeholders
        importlib.import_module(name)
    root = _module("")
    if not has_names:
        return root
    found: Any = root
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found
