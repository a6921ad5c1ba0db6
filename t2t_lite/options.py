"""Options: dataclass fields with help, choices and bounds, from which flags are derived.

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

# For each kind of option, the values that it takes, and what a message calls them.
_TYPES: dict[type, tuple[type, str]] = {
    bool: (bool, "True or False"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a text"),
    pathlib.Path: (str, "a path"),
}


@dataclasses.dataclass(frozen=True)
class Option:
    """One option: everything that a flag needs to know about a field.

    Args:
        name: the field's name.
        kind: its type: str, int, float, bool, or pathlib.Path for a str that holds a path.
        default: the default value; "" for a required str.
        help: its meaning and unit, as shown by `--help`.
        choices: the allowed values of a str; empty: any value.
        minimum: the smallest allowed number.
        maximum: the largest allowed number.
        below: the number that all allowed ones are smaller than.
        others: further types of values that Python code may give.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    below: float | None = None
    others: tuple[type, ...] = ()

    def violation(self, value: Any) -> str:
        """Returns an error text to append to the value; "" if the value is allowed."""
        if value is None and self.default is None:
            return ""
        wanted, noun = _TYPES[self.kind]
        is_allowed = isinstance(value, (wanted, *self.others))
        if not is_allowed or (isinstance(value, bool) and self.kind is not bool):
            return f" is not {noun}"  # True is not the number 1
        if value == self.default:
            return ""
        if self.choices and value not in self.choices:
            *others, last = self.choices
            return f", expected {', '.join(others)} or {last}"
        if self.minimum is not None and not value >= self.minimum:  # also catches NaN
            return f" is less than {self.minimum}"
        if self.maximum is not None and not value <= self.maximum:
            return f" is greater than {self.maximum}"
        if self.below is not None and not value < self.below:
            return f" is not less than {self.below}"
        return ""


def option(
    default: T,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    below: float | None = None,
    path: bool = False,
    group: str = "",
) -> T:
    """Declares a dataclass field as an option.

    Args:
        default: the field's default, or REQUIRED.
        help: its meaning and unit, as shown by `--help`.
        choices: the allowed values of a str; empty: any value.
        minimum: the smallest allowed number.
        maximum: the largest allowed number.
        below: the number that all allowed ones are smaller than.
        path: whether a str holds a path, in which `~` is the home folder.
        group: title under which `--help` lists this option and the following ones; "": unchanged.

    Returns:
        The field for `dataclasses.dataclass`; type checkers see a value of the default's type.
    """
    told = {
        "help": help,
        "choices": choices,
        "minimum": minimum,
        "maximum": maximum,
        "below": below,
    }
    metadata = {_KEY: told, "path": path, "group": group}
    field: Any = dataclasses.field(default=default, metadata=metadata)
    return typing.cast(T, field)


class Config:
    """Base of configuration dataclasses; checks the options of a new object.

    Paths may be any `os.PathLike`; they become a str, in which `~` is the home folder. Numbers may
    be NumPy's; they become Python's.
    """

    def __post_init__(self) -> None:
        for declared in options_of(type(self)):
            value = getattr(self, declared.name)
            if declared.kind is pathlib.Path and isinstance(value, str | os.PathLike):
                # The dataclass is frozen.
                object.__setattr__(self, declared.name, os.path.expanduser(value))
        for name, value, violation in violations(self):
            raise UsageError(f"{name}={value}{violation}")
        for declared in options_of(type(self)):
            value = getattr(self, declared.name)
            if isinstance(value, numbers.Real) and not isinstance(value, int | float):
                object.__setattr__(self, declared.name, declared.kind(value))


def violations(config: Any) -> Iterator[tuple[str, Any, str]]:
    """Yields name, value and error text of each option with a value that is not allowed."""
    for declared in options_of(type(config)):
        value = getattr(config, declared.name)
        if violation := declared.violation(value):
            yield declared.name, value, violation


def options_of(config_class: type) -> tuple[Option, ...]:
    """Returns the options of a dataclass in declaration order."""
    return tuple(found for group in options_by_group(config_class).values() for found in group)


@functools.cache
def options_by_group(config_class: type) -> dict[str, tuple[Option, ...]]:
    """Returns the options of a dataclass by group title."""
    hints = typing.get_type_hints(config_class)
    groups: dict[str, tuple[Option, ...]] = {}
    title = ""
    for field in dataclasses.fields(config_class):
        if _KEY not in field.metadata:
            continue
        title = field.metadata["group"] or title
        kind = pathlib.Path if field.metadata["path"] else _value_type(hints[field.name])
        default = "" if field.default is REQUIRED else field.default
        others = (tuple,) if tuple in _members(hints[field.name]) else ()
        found = Option(field.name, kind, default, **field.metadata[_KEY], others=others)
        groups[title] = (*groups.get(title, ()), found)
    return groups


def required_options(config_class: type) -> list[str]:
    """Returns the names of the fields of a dataclass that have no default."""
    return [f.name for f in dataclasses.fields(config_class) if f.default is REQUIRED]


def _value_type(hint: Any) -> type:
    """Returns the type of a flag's value for an annotation such as `int | None`."""
    return next(kind for kind in (bool, int, float, str) if kind in _members(hint))


def _members(hint: Any) -> list[Any]:
    """Returns the types of which an annotation is the union, `tuple` for every kind of tuple."""
    members = hint.__args__ if isinstance(hint, types.UnionType) else (hint,)
    return [typing.get_origin(member) or member for member in members]
