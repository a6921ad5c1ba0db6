"""Names: how they are spelled, and tables of what they stand for."""

import dataclasses
import importlib
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from t2t_lite.errors import UsageError, did_you_mean

Value = TypeVar("Value")

SUFFIXES = ("_rev", "_copy")  # of the names of problems that are derived from others
_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=.)(?=[A-Z][a-z0-9])")


def snake_case(name: str) -> str:
    """Returns T2T's default name of a class: `TranslateEndeWmt32k` -> `translate_ende_wmt32k`."""
    return _WORD_START.sub("_", name).lower()


@dataclasses.dataclass(frozen=True)
class ProblemName:
    """A parsed problem name: `translate_ende_x_rev` -> base `translate_ende_x`, reversed."""

    base: str
    was_reversed: bool = False
    was_copy: bool = False

    @classmethod
    def parse(cls, name: str) -> "ProblemName":
        """Splits off the suffixes `_rev` and `_copy`, in any order, at most one of each.

        Raises:
            UsageError: a suffix occurs twice.
        """
        base, found = name, set()
        while base.endswith(SUFFIXES):
            suffix = base[base.rindex("_") :]
            if suffix in found:
                raise UsageError(f"problem {name!r}: {suffix} may occur only once")
            found.add(suffix)
            base = base.removesuffix(suffix)
        return cls(base, "_rev" in found, "_copy" in found)

    def __str__(self) -> str:
        """The name as every problem spells its own."""
        return self.base + "_rev" * self.was_reversed + "_copy" * self.was_copy


class Registry(Generic[Value]):
    """Names of one kind, each registered once.

    Args:
        kind: what is registered, for messages ("problem").
        *packages: those whose import registers this package's own entries.
    """

    def __init__(self, kind: str, *packages: str) -> None:
        self.kind = kind
        self._packages = packages
        self._entries: dict[str, Value] = {}

    def add(self, name: str, value: Value) -> None:
        """Registers `value`.

        Raises:
            KeyError: the name is taken.
        """
        if name in self._entries and not _is_run_again(self._entries[name], value):
            raise KeyError(f"{self.kind} {name!r} is already registered, as {self._entries[name]}")
        self._entries[name] = value

    def release(self, name: str) -> bool:
        """Removes this package's own registration of a name; returns whether there was one."""
        own = getattr(self._entries.get(name), "__module__", "").startswith("t2t_lite.")
        if own:
            del self._entries[name]
        return own

    def names(self) -> list[str]:
        """Returns every registered name, sorted."""
        self._import()
        return sorted(self._entries)

    def items(self) -> dict[str, Value]:
        """Returns everything by its name, in the order of registration."""
        self._import()
        return dict(self._entries)

    def _import(self) -> None:
        for package in self._packages:
            importlib.import_module(package)

    def __getitem__(self, name: str) -> Value:
        known = self.names()
        if name not in self._entries:
            raise UsageError(
                f"unknown {self.kind} {name!r}{did_you_mean(name, known)} "
                f"(--registry_help lists every {self.kind})"
            )
        return self._entries[name]

    def decorator(self, name: Any, prepare: Callable[[str, Any], Any] = lambda _, v: v) -> Any:
        """Implements `@register`, `@register()` and `@register("name")`.

        Args:
            name: the name, nothing or what is registered.
            prepare: returns what to register in place of a value, from its name and itself.
        """
        if callable(name):
            return self.decorator(None, prepare)(name)

        def register(value: Any) -> Any:
            chosen = name or snake_case(value.__name__)
            prepared = prepare(chosen, value)
            self.add(chosen, prepared)
            return prepared

        return register


def _is_run_again(old: Any, new: Any) -> bool:
    """Whether a notebook cell or script defines what it has defined before."""
    modules = [getattr(value, "__module__", None) for value in (old, new)]
    return modules == ["__main__", "__main__"] and old.__qualname__ == new.__qualname__
