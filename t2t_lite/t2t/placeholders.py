"""Stand-ins for names that are not there: importing them works, using them is an error.

A user directory may hold a model beside its problems. Its classes and decorators are defined on
placeholders while the directory is imported, and whatever is called later says what is missing.
"""

import abc
import inspect
from typing import Any, NoReturn

from t2t_lite.errors import UsageError
from t2t_lite.t2t import user_imports


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

    def __repr__(cls) -> str:
        return cls.full_name

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

    def __iter__(cls) -> NoReturn:
        cls.refuse()

    def _same(cls, *args: Any) -> "Placeholder":
        return cls

    __getitem__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _same
    __truediv__ = __rtruediv__ = __pow__ = __neg__ = _same


def placeholder(full_name: str, reason: str) -> Placeholder:
    """Returns the placeholder of a name.

    Args:
        full_name: with its module.
        reason: why it is an error to use it, and what to write instead.
    """
    fields = {"reason": reason, "full_name": full_name, "__module__": __name__}
    return Placeholder(full_name.rpartition(".")[2], (), fields)


def _is_defined_here(value: Any) -> bool:
    """Whether a value is a class or function of a user's, which a decorator returns."""
    return (hasattr(value, "__qualname__") and not isinstance(value, Placeholder)) or (
        isinstance(value, Placeholder) and value.__module__ != __name__
    )
