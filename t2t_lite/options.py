"""Options: dataclass fields that carry help, choices and bounds, from which flags are made.

One declaration serves the Python argument, the flag and its `--help`:

    train_steps: int = option(250000, "Total number of updates.", minimum=1)
"""

import dataclasses
import functools
import numbers
import os
import pathlib
import types
import typing
from collections.abc import Iterator
from typing import Any, TypeVar

from t2t_lite.errors import UsageError

T = TypeVar("T")

REQUIRED: Any = dataclasses.MISSING
_KEY = "option"


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: what a flag needs to know about a field.

    Args:
        name: the field's name.
        kind: str, int, float, bool, or pathlib.Path for a str that holds a path.
        default: the value when not given; "" for a required text.
        help: what it means, with its unit, for a newcomer.
        choices: the allowed values of a str; empty: any.
        minimum: the least allowed number.
        maximum: the greatest allowed number.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    def fault(self, value: Any) -> str:
        """Returns what is wrong with a value, to be read after it; "" if nothing is."""
        if value is None or value == self.default:
            return ""
        number = {int: numbers.Integral, float: numbers.Real}.get(self.kind)
        if number and not isinstance(value, number):
            return f" is not {'a whole number' if self.kind is int else 'a number'}"
        if self.choices and value not in self.choices:
            *others, last = self.choices
            return f", expected {', '.join(others)} or {last}"
        if self.minimum is not None and not value >= self.minimum:  # NaN is not
            return f" is less than {self.minimum}"
        if self.maximum is not None and not value <= self.maximum:
            return f" is greater than {self.maximum}"
        return ""


def option(
    default: T,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    path: bool = False,
    group: str = "",
) -> T:
    """Declares a dataclass field as an option.

    Args:
        default: the field's default, or REQUIRED.
        help: what it means, with its unit, as shown by `--help`.
        choices: the allowed values of a str; empty: any.
        minimum: the least allowed number.
        maximum: the greatest allowed number.
        path: whether a str holds a path, in which the shell's `~` is the home folder.
        group: title under which `--help` shows this option and those after it; "": as before.

    Returns:
        The field, for `dataclasses.dataclass`; to type checkers, a value like the default.
    """
    told = {"help": help, "choices": choices, "minimum": minimum, "maximum": maximum}
    metadata = {_KEY: told, "path": path, "group": group}
    field: Any = dataclasses.field(default=default, metadata=metadata)
    return typing.cast(T, field)


class Config:
    """Base of configuration dataclasses, whose options are checked when one is made.

    A path may be given as any `os.PathLike`; it becomes a str.
    """

    def __post_init__(self) -> None:
        for declared in options_of(type(self)):
            value = getattr(self, declared.name)
            if declared.kind is pathlib.Path and isinstance(value, os.PathLike):
                object.__setattr__(self, declared.name, os.fspath(value))  # it is frozen
        for name, value, fault in faults(self):
            raise UsageError(f"{name}={value}{fault}")


def faults(config: Any) -> Iterator[tuple[str, Any, str]]:
    """Yields name, value and fault of each option whose value is not allowed."""
    for declared in options_of(type(config)):
        value = getattr(config, declared.name)
        if fault := declared.fault(value):
            yield declared.name, value, fault


def options_of(config_class: type) -> tuple[Option, ...]:
    """Returns the options of a dataclass, in the order of declaration."""
    return tuple(found for group in grouped(config_class).values() for found in group)


@functools.cache
def grouped(config_class: type) -> dict[str, tuple[Option, ...]]:
    """Returns the options of a dataclass by the titles of their groups."""
    hints = typing.get_type_hints(config_class)
    groups: dict[str, tuple[Option, ...]] = {}
    title = ""
    for field in dataclasses.fields(config_class):
        if _KEY not in field.metadata:
            continue
        title = field.metadata["group"] or title
        kind = pathlib.Path if field.metadata["path"] else _kind(hints[field.name])
        default = "" if field.default is REQUIRED else field.default
        found = Option(field.name, kind, default, **field.metadata[_KEY])
        groups[title] = (*groups.get(title, ()), found)
    return groups


def required_of(config_class: type) -> list[str]:
    """Returns the names of the fields of a dataclass that have no default."""
    return [f.name for f in dataclasses.fields(config_class) if f.default is REQUIRED]


def _kind(hint: Any) -> type:
    """Returns the type that an annotation such as `int | None` gives to what a user writes."""
    members = hint.__args__ if isinstance(hint, types.UnionType) else (hint,)
    return next(kind for kind in (bool, int, float, str) if kind in members)
