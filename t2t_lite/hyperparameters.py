"""HParams: typed fields, changed by "name=value,..." strings, frozen once resolved, saved as JSON.

A model's hyperparameters are a dataclass derived from `HParams`, one field per line with its
meaning and unit in a comment. Choices and bounds of fields declared with `options.option` are
checked. A registered set is a function that returns such an object.
"""

import dataclasses
import json
import math
import sys
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self

from t2t_lite import options
from t2t_lite.errors import UsageError, did_you_mean

_BOOLS = {"true": True, "1": True, "false": False, "0": False}


@dataclasses.dataclass
class HParams:
    """Base of all hyperparameter sets."""

    noun = "hparam"  # what error messages call a field
    # Of fields that are younger than some runs: what these runs did before the field existed.
    earlier_values: ClassVar[Mapping[str, Any]] = {}

    def __post_init__(self) -> None:
        for name, value, violation in options.violations(self):
            raise UsageError(f"{self.noun} {name!r}: {value!r}{violation}")

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__dict__.get("_frozen"):
            raise AttributeError(f"hparams are frozen: {name} cannot become {value!r}")
        if name not in self.__dataclass_fields__:
            raise UsageError(f"unknown {self.noun} {name!r}{did_you_mean(name, self.names())}")
        super().__setattr__(name, value)

    @classmethod
    def names(cls) -> list[str]:
        """Returns the names of all fields."""
        return [field.name for field in dataclasses.fields(cls)]

    def freeze(self) -> Self:
        """Forbids further changes and returns the object itself."""
        self.__dict__["_frozen"] = True
        return self

    def copy(self, **changes: Any) -> Self:
        """Returns an unfrozen copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def change(self, **changes: Any) -> Self:
        """Returns an unfrozen copy with some fields changed, after checking names and types.

        Raises:
            UsageError: a name is unknown, or a value has the wrong type.
        """
        return self.from_dict({**self.to_dict(), **changes})

    def override(self, assignments: str) -> Self:
        """Returns an unfrozen copy changed by a string such as `"batch_size=1024,pos=emb"`.

        Booleans are true, false, 1 or 0; integer fields take no fraction; an empty string
        changes nothing.

        Raises:
            UsageError: a name is unknown or repeated, an `=` is missing, or a type is wrong.
        """
        changes: dict[str, Any] = {}
        hints = typing.get_type_hints(type(self))
        for assignment in filter(None, map(str.strip, assignments.split(","))):
            name, equals, text = (part.strip() for part in assignment.partition("="))
            if not equals:
                raise UsageError(f"{self.noun} {assignment!r}: expected name=value")
            if name not in self.names():
                raise UsageError(f"unknown {self.noun} {name!r}{did_you_mean(name, self.names())}")
            if name in changes:
                raise UsageError(f"{self.noun} {name!r} is given twice in {assignments!r}")
            changes[name] = _parse(f"{self.noun} {name!r}", text, hints[name])
        return self.copy(**changes)

    def to_dict(self) -> dict[str, Any]:
        """Returns all fields by name."""
        return dataclasses.asdict(self)

    def to_json(self) -> str:
        """Returns all fields as JSON, one per line, in declaration order."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Builds an object from `to_dict`'s result.

        A missing name keeps its default; a field in `earlier_values` takes its value from there.

        Raises:
            UsageError: a name is unknown to this class, or a value has the wrong type.
        """
        hints = typing.get_type_hints(cls)
        for name, value in values.items():
            if name not in cls.names():
                raise UsageError(f"unknown {cls.noun} {name!r}{did_you_mean(name, cls.names())}")
            if not _fits(value, hints[name]):
                raise UsageError(
                    f"{cls.noun} {name!r}: {value!r} is not of type {_type_name(hints[name])}"
                )
        return cls(**{**cls.earlier_values, **values})

    def as_started(self, old: Self) -> Self:
        """Returns a copy that keeps those of its `earlier_values` that `old` has."""
        kept = {
            name: value
            for name, value in self.earlier_values.items()
            if getattr(old, name, None) == value
        }
        return self.copy(**kept)

    def differences(self, other: "HParams") -> list[str]:
        """Returns `"name: mine != theirs"` for every field that differs."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [
            f"{name}: {mine.get(name)!r} != {theirs.get(name)!r}"
            for name in {**mine, **theirs}
            if mine.get(name) != theirs.get(name)
        ]


def to_assignments(hparams: HParams, names: Iterable[str]) -> str:
    """Returns fields as a string for `override`.

    Raises:
        UsageError: a value contains a comma, which separates assignments.
    """
    values = {name: str(getattr(hparams, name)) for name in names}
    for name, value in values.items():
        if "," in value:
            raise UsageError(f"{hparams.noun} {name!r}: {value!r} contains a comma")
    return ",".join(f"{name}={value}" for name, value in values.items())


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value read from JSON fits a field of the annotated type `kind`."""
    if isinstance(value, int | float) and not abs(value) <= sys.float_info.max:
        return False  # nor NaN and infinity, which `override` does not accept either
    kinds = kind.__args__ if isinstance(kind, types.UnionType) else (kind,)
    return type(value) in kinds or (type(value) is int and float in kinds)


def _type_name(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _parse(field: str, text: str, kind: Any) -> Any:
    """Parses `text` as a value of type `kind`; error messages name `field`."""
    if isinstance(kind, types.UnionType):  # "float | None"
        if text.lower() == "none":
            return None
        kind = next(member for member in kind.__args__ if member is not type(None))
    try:
        if kind is bool:
            return _BOOLS[text.lower()]
        if kind is float:
            value = float(text)
            if not math.isfinite(value):
                raise ValueError
            return value
        return kind(text)
    except (KeyError, ValueError):
        raise UsageError(f"{field}: {text!r} is not of type {kind.__name__}") from None
