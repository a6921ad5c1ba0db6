"""Settings: dataclass fields that say what they mean and which values they take.

One declaration serves the Python argument, the flag, the hparam, its help and its check:

    train_steps: int = setting(250000, "Total number of updates.", minimum=1)

A `Config` is a frozen dataclass. Hyperparameters (`HParams`) can be changed until they are frozen,
by `"name=value,..."` strings, too, and are saved as JSON.
"""

import copy
import dataclasses
import functools
import json
import math
import numbers
import os
import pathlib
import re
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from t2t_lite.errors import UsageError, did_you_mean, quoted

T = TypeVar("T")

REQUIRED: Any = dataclasses.MISSING
_KEY = "setting"
_BOOLS = {"true": True, "1": True, "false": False, "0": False}

# For each kind of setting, the types of its values, and what a message calls them.
_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((numbers.Integral,), "a whole number"),
    float: ((numbers.Real,), "a number"),
    str: ((str,), "a text"),
    pathlib.Path: ((str, os.PathLike), "a path"),
    list: ((list,), "a list in brackets, such as [1,2]"),
}
# Commas separate assignments, but for those in a list.
_ASSIGNMENT = re.compile(r"(?:\[[^\]]*\]|[^,])+")
# Attributes of an object with all of its fields.
_WHOLE = {"__dict__", "__getstate__"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """One setting: everything that its check, its flag and its help need to know.

    Args:
        name: the field's name.
        kind: its type: str, int, float, bool, a list of one of them, or pathlib.Path for a str that
            holds a path.
        default: the default value, which is always allowed; "" for a required str.
        help: its meaning and unit.
        choices: the allowed values of a str; empty: any value.
        remedies: what to do in place of giving some other values, such as T2T's.
        minimum: the smallest allowed number.
        maximum: the largest allowed number.
        above: the number that all allowed ones are greater than.
        below: the number that all allowed ones are smaller than.
        others: further types of values that Python code may give.
        item: the type of the items of a list, as declared; None: that of the default's items.
        group: title under which `--help` lists it.
        reads: whether it is the path of a file that is read; "-" is standard input.
        writes: whether it is the path of a file to write.
        listed: whether a str holds several values, with commas between them.
        needs: the setting without which another value than the default has no effect; "": none.
    """

    name: str
    kind: type
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    remedies: Mapping[str, str] | None = None
    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None
    others: tuple[type, ...] = ()
    item: type | None = None
    group: str = ""
    reads: bool = False
    writes: bool = False
    listed: bool = False
    needs: str = ""

    @property
    def bounds(self) -> str:
        """The choices, or the bounds of a number, such as "at least 0 and below 1"."""
        if self.choices:
            *others, last = filter(None, self.choices)
            return f"{', '.join(others)} or {last}" if others else last
        words = {
            "at least": self.minimum,
            "above": self.above,
            "at most": self.maximum,
            "below": self.below,
        }
        return " and ".join(f"{word} {bound}" for word, bound in words.items() if bound is not None)

    @property
    def meaning(self) -> str:
        """The help with the bounds."""
        bounds = f"One of {self.bounds}" if self.choices else self.bounds.capitalize()
        return f"{self.help} {bounds}." if bounds else self.help

    def checked(self, value: Any, label: str = "") -> Any:
        """Returns a value as Python's own type, and a path with `~` as the home folder.

        Args:
            value: from Python code, a command line or a file.
            label: what a message calls the setting; "": its name.

        Raises:
            UsageError: the value is not allowed; the message has its bounds and its meaning.
        """
        if self.remedies and isinstance(value, str) and value in self.remedies:
            raise UsageError(f"{label or self.name}={value}: {self.remedies[value]}")
        if not self._allows(value):
            kind = _KINDS[self.kind][1] if self.kind in _KINDS else f"a {self.kind.__name__}"
            expected = self.bounds if self.choices else ", ".join(filter(None, [kind, self.bounds]))
            shown = quoted(value) if self.kind in (bool, int, float) else value
            near = did_you_mean(str(value), self.choices)
            meaning = f" ({self.help})" if self.help else ""
            raise UsageError(f"{label or self.name}={shown}: expected {expected}{near}{meaning}")
        if self.kind is pathlib.Path and isinstance(value, str | os.PathLike):
            return os.path.expanduser(value)
        return self.kind(value) if self.kind in (int, float) and value is not None else value

    def parsed(self, text: str) -> Any:
        """Returns the value that a text stands for; the text itself if it stands for none."""
        if self.default is None and text.lower() == "none":
            return None
        try:
            if self.kind is list and text[:1] + text[-1:] == "[]":
                return [self._item(item) for item in _items(text)]
            if self.kind is bool:
                return _BOOLS[text.lower()]
            return self.kind(text) if self.kind in (int, float) else text
        except (KeyError, ValueError):
            return text

    def _item(self, text: str) -> Any:
        """Returns the item of a list that a text stands for.

        Raises:
            KeyError: it is neither true nor false.
            ValueError: it is not a number.
        """
        kind = self.item or (type(self.default[0]) if self.default else str)
        return _BOOLS[text.lower()] if kind is bool else kind(text)

    def _allows(self, value: Any) -> bool:
        if value is None:
            return self.default is None
        wanted, _ = _KINDS.get(self.kind, ((self.kind,), ""))
        is_of_kind = isinstance(value, (*wanted, *self.others))
        if not is_of_kind or (isinstance(value, bool) and self.kind is not bool):
            return False  # True is not the number 1
        if self.kind in (int, float) and not _is_finite(value):
            return False
        return value == self.default or (
            (not self.choices or value in self.choices)
            and (self.minimum is None or value >= self.minimum)
            and (self.maximum is None or value <= self.maximum)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


def setting(
    default: T,
    help: str,
    *,
    choices: Iterable[str] = (),
    remedies: Mapping[str, str] | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    path: bool = False,
    reads: bool = False,
    writes: bool = False,
    listed: bool = False,
    needs: str = "",
    group: str = "",
) -> T:
    """Declares a dataclass field as a setting.

    Args:
        default: the field's default, or REQUIRED.
        help: its meaning and unit.
        choices: the allowed values of a str; empty: any value.
        remedies: what to do in place of giving some other values; the error says it.
        minimum: the smallest allowed number.
        maximum: the largest allowed number.
        above: the number that all allowed ones are greater than.
        below: the number that all allowed ones are smaller than.
        path: whether a str holds a path, in which `~` is the home folder.
        reads: whether it is that of a file that is read; commands check that it is there.
        writes: whether it is that of a file to write; commands check that it can be written.
        listed: whether a str holds several values, with commas between them; a command takes such a
            flag once, so that none of them is lost.
        needs: the setting without which another value than the default has no effect; "": none.
        group: title under which `--help` lists this field and the following ones; "": unchanged.

    Returns:
        The field for `dataclasses.dataclass`; type checkers see a value of the default's type.
    """
    bounds = {"minimum": minimum, "maximum": maximum, "above": above, "below": below}
    told: dict[str, Any] = {"help": help, "choices": tuple(choices), **bounds}
    told |= {"remedies": remedies, "reads": reads, "writes": writes, "listed": listed}
    told["needs"] = needs
    metadata = {_KEY: told, "path": path or reads or writes, "group": group}
    field: Any = dataclasses.field(default=default, metadata=metadata)
    return typing.cast(T, field)


class Config:
    """Base of configuration dataclasses: checks the values of a new object.

    Paths may be any `os.PathLike`; they become a str. Numbers may be NumPy's; they become Python's.
    """

    def __post_init__(self) -> None:
        settings = settings_of(type(self))
        for name, field in settings.items():
            value = field.checked(getattr(self, name))
            object.__setattr__(self, name, value)  # the dataclass is frozen
        require_needed(settings.values(), vars(self))


def require_needed(settings: Iterable[Setting], values: Mapping[str, Any]) -> None:
    """Raises UsageError if a setting is given, and the one that it needs is not.

    Args:
        settings: some settings.
        values: at least theirs, by name.
    """
    for one in settings:
        if one.needs and not values[one.needs] and values[one.name] != one.default:
            raise UsageError(f"--{one.name} needs --{one.needs}: give both or neither")


def settings_of(config_class: type) -> dict[str, Setting]:
    """Returns the settings of a dataclass by name, in declaration order."""
    return _collected(config_class)


@functools.cache
def _collected(config_class: type) -> dict[str, Setting]:
    hints = typing.get_type_hints(config_class)
    settings: dict[str, Setting] = {}
    group = ""
    for field in dataclasses.fields(config_class):
        hint = hints[field.name]
        is_union = typing.get_origin(hint) in (types.UnionType, typing.Union)
        members = typing.get_args(hint) if is_union else (hint,)
        kinds = [typing.get_origin(member) or member for member in members]
        others = (tuple,) if tuple in kinds else ()
        kinds = [kind for kind in kinds if isinstance(kind, type)] or [object]
        kind = next(kind for kind in (bool, int, float, str, *kinds) if kind in kinds)
        if field.metadata.get("path"):
            kind = pathlib.Path
        group = field.metadata.get("group") or group
        default = "" if field.default is REQUIRED else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        told = field.metadata.get(_KEY, {"help": ""})
        listed = (typing.get_args(member) for member in members if kind is list)
        item = next((items[0] for items in listed if items), None)
        settings[field.name] = Setting(
            field.name, kind, default, **told, others=others, item=item, group=group
        )
    return settings


def settings_by_group(config_class: type) -> dict[str, tuple[Setting, ...]]:
    """Returns the settings of a dataclass by group title."""
    groups: dict[str, tuple[Setting, ...]] = {}
    for field in settings_of(config_class).values():
        groups[field.group] = (*groups.get(field.group, ()), field)
    return groups


def required_settings(config_class: type) -> list[str]:
    """Returns the names of the fields of a dataclass that have no default."""
    return [f.name for f in dataclasses.fields(config_class) if f.default is REQUIRED]


@dataclasses.dataclass
class HParams(Config):
    """Base of all hyperparameter sets: checks each value that a field is given.

    A registered set is a function that returns such an object.
    """

    noun = "hparam"  # what messages call a field

    # Text fields that name a set, joined by +.
    sets: ClassVar[tuple[str, ...]] = ()

    # The names that have been read since `note_reads`; None: it was not called.
    _read: ClassVar[set[str] | None] = None

    def __post_init__(self) -> None:
        """Every field has been checked when it was set."""

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"hparams are frozen: {name} cannot become {value!r}")
        super().__setattr__(name, self._setting(name).checked(value, f"{self.noun} {name}"))

    @classmethod
    def names(cls) -> list[str]:
        """Returns the names of all fields."""
        return [*settings_of(cls)]

    def freeze(self) -> Self:
        """Forbids further changes and returns the object itself."""
        object.__setattr__(self, "_frozen", True)
        return self

    def note_reads(self) -> None:
        """Begins to note which fields are read, here or from a copy.

        Code that takes the whole object, such as `to_dict` or pickle, reads all fields.
        """
        object.__setattr__(self, "_read", set())

    def unread(self, names: Iterable[str]) -> list[str]:
        """Returns those of `names` not read since `note_reads`; none if it was not called."""
        return [] if self._read is None else [name for name in names if name not in self._read]

    if not typing.TYPE_CHECKING:  # which would allow any name

        def __getattribute__(self, name: str) -> Any:
            read = object.__getattribute__(self, "_read")
            if read is not None:
                read.update(settings_of(type(self)) if name in _WHOLE else [name])
            return super().__getattribute__(name)

    def copy(self, **changes: Any) -> Self:
        """Returns an unfrozen copy with some fields changed.

        Raises:
            UsageError: a name is unknown, or a value is not allowed.
        """
        copied = self.from_dict({**self._values(), **changes})
        object.__setattr__(copied, "_read", self._read)
        return copied

    def _values(self) -> dict[str, Any]:
        """Returns all fields by name; `note_reads` takes none of them as read."""
        own = {name: object.__getattribute__(self, name) for name in settings_of(type(self))}
        return copy.deepcopy(own)

    def override(self, assignments: str) -> Self:
        """Returns an unfrozen copy changed by a string such as `"batch_size=1024,pos=emb"`.

        Booleans are true, false, 1 or 0; integer fields take no fraction; lists stand in brackets,
        as in `"sizes=[3,5]"`; an empty string changes nothing.

        Raises:
            UsageError: a name is unknown or repeated, an `=` is missing, or a value is not allowed.
        """
        changes: dict[str, Any] = {}
        for assignment in split_assignments(assignments):
            name, equals, text = (part.strip() for part in assignment.partition("="))
            if not equals:
                raise UsageError(f"{self.noun} {assignment!r}: expected name=value")
            value = self._setting(name).parsed(text)
            if name in changes:
                raise UsageError(f"{self.noun} {name!r} is given twice in {assignments!r}")
            changes[name] = value
        return self.copy(**changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields by name."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Returns all fields as JSON, one per line, in declaration order."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds an object from `to_dict`'s result; a missing name keeps its default.

        Raises:
            UsageError: a name is unknown to this class, or a value is not allowed.
        """
        for name in values:
            cls._setting(name)
        return cls(**values)

    def differences(self, other: "HParams") -> list[str]:
        """Returns `"name: mine != theirs"` for every field that differs, not only in spelling."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [
            f"{name}: {mine.get(name)!r} != {theirs.get(name)!r}"
            for name in {**mine, **theirs}
            if self._meant(name, mine.get(name)) != self._meant(name, theirs.get(name))
        ]

    @classmethod
    def _meant(cls, name: str, value: Any) -> Any:
        """Returns what a value stands for: no text has spaces that mean anything."""
        if not isinstance(value, str):
            return value
        text = "".join(value.split())
        if name in cls.sets:
            return frozenset(text.split("+"))
        return "" if text == "none" else text

    @classmethod
    def _setting(cls, name: str) -> Setting:
        if name not in settings_of(cls):
            raise UsageError(f"unknown {cls.noun} {name!r}{did_you_mean(name, cls.names())}")
        return settings_of(cls)[name]


def split_assignments(assignments: str) -> list[str]:
    """Returns the parts of a string for `override`, one for each name."""
    return [part for text in _ASSIGNMENT.findall(assignments) if (part := text.strip())]


def meant_by(assignments: str) -> dict[str, Any]:
    """Returns what a string for `override` stands for, however it is spelled: values by name."""
    pairs = (item.partition("=") for item in split_assignments(assignments))
    return {name.strip(): _value(text.strip()) for name, _, text in pairs}


def _items(text: str) -> list[str]:
    """Returns the items of a list in brackets; spaces separate them, too, as in T2T."""
    return text[1:-1].replace(",", " ").split()


def _value(text: str) -> float | str | list[Any]:
    """Returns the number, truth value or list that a text stands for; the text itself if none."""
    if text[:1] + text[-1:] == "[]":
        return [*map(_value, _items(text))]
    if text.lower() in _BOOLS:
        return _BOOLS[text.lower()]
    try:
        return float(text)
    except ValueError:
        return text


def to_assignments(hparams: HParams, names: Iterable[str]) -> str:
    """Returns fields as a string for `override`.

    Raises:
        UsageError: a text contains a comma, which separates assignments.
    """
    assignments = []
    for name in names:
        value = getattr(hparams, name)
        texts = [*map(str, value if isinstance(value, list) else [value])]
        if any("," in text for text in texts):
            raise UsageError(f"{hparams.noun} {name}={value!r}: a text must not contain a comma")
        joined = ",".join(texts)
        assignments.append(f"{name}=[{joined}]" if isinstance(value, list) else f"{name}={joined}")
    return ",".join(assignments)
