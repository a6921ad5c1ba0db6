"""T2T's HParams: a set of this package whose fields are changed one by one, and fields of T2T's."""

import copy
import dataclasses
import json
import keyword
import pathlib
import re
import typing
from collections.abc import Mapping
from typing import Any, Self

from t2t_lite.errors import UsageError, did_you_mean, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.interop.imports import t2t_settings
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.settings import HParams as Settings
from t2t_lite.settings import Setting, split_assignments

__all__ = ["HParams"]


_BOOLS = {"true": True, "1": True, "false": False, "0": False}
# Every Transformer needs them, and no other model of T2T's needs both.
_OF_TRANSFORMERS = frozenset({"filter_size", "num_heads"})
_OWN_KINDS = (bool, int, float, str, list, type(None))


class HParams:
    """Named values, as attributes.

    Those of a set (`HParams.of`) are the set's fields, T2T's that are missing there, and what
    `add_hparam` adds for the user's own code. Other names may be assigned, as in T2T, with a
    warning: they are not fields. An object made from keyword arguments takes any name.

    Args:
        model_structure: not used.
        **kwargs: the values.
    """

    def __init__(self, model_structure: Any = None, **kwargs: Any) -> None:
        del model_structure
        vars(self).update(_values=dict(kwargs), _settings=None, _own=set(), _set=set(kwargs))

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Returns the fields of a set, and those of T2T's that are missing there."""
        theirs = {**NO_EFFECT, **copy.deepcopy(ONLY)}
        hparams = cls(**{**theirs, **settings.to_dict()})
        vars(hparams).update(_settings=settings, _set=set())
        return hparams

    def extend_to(self, settings: Settings) -> None:
        """Adds the fields of another model's set, which has all fields of this object's set."""
        self._values.update({n: v for n, v in settings.to_dict().items() if n not in self._values})
        self._own.difference_update(settings.names())
        vars(self)["_settings"] = settings

    # ---- one field

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[RENAMED.get(name, name) if self._settings else name]
        except KeyError:
            message = f"unknown hparam {name!r}{did_you_mean(name, self._values)}"
            raise AttributeError(message, name=name, obj=self) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if self._settings is not None:
            name = RENAMED.get(name, name)
            if name not in self._values:
                warn_once(
                    f"hparam {name!r} is in no set{did_you_mean(name, self._values)}; your code "
                    "can read it, but it has no effect (add_hparam adds one that is saved)"
                )
                vars(self)[name] = value
                return
            value = _fitting(value, typing.get_type_hints(type(self._settings)).get(name))
        self._set.add(name)
        self._values[name] = value

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value, or the default if there is no such name."""
        return self._values.get(key, default)

    def add_hparam(self, name: str, value: Any) -> None:
        """Adds a field; if it is one of T2T's that are missing here, sets it.

        Raises:
            ValueError: the set has it already.
        """
        is_t2ts = self._settings is not None and (
            name not in self._settings.names() or name in ADDED
        )
        if name in self._values and not is_t2ts:
            raise ValueError(f"hparam {name!r} exists already: assign to it")
        if name not in self._values:
            self._own.add(name)
        self._set.add(name)
        self._values[name] = value

    def set_hparam(self, name: str, value: Any) -> None:
        """Changes a field to a value, converted to the type that it has.

        Raises:
            ValueError: the value does not have this type.
        """
        setattr(self, name, _converted(name, value, getattr(self, name)))

    def del_hparam(self, name: str) -> None:
        """Removes a field, if there is one; one of the set's goes back to the set's value."""
        self._own.discard(name)
        self._set.discard(name)
        if self._settings is not None and name in self._settings.names():
            self._values[name] = getattr(self._settings, name)
        else:
            self._values.pop(name, None)

    # ---- all fields

    def values(self) -> dict[str, Any]:
        """Returns all fields by name."""
        return dict(self._values)

    def parse(self, values: str) -> Self:
        """Changes fields by a text such as `"a=1,b=x,c=[1,2]"`; returns the object.

        Raises:
            ValueError: it has another form, or a value another type.
        """
        for assignment in split_assignments(values):
            name, equals, text = map(str.strip, assignment.partition("="))
            if not equals:
                raise ValueError(f"cannot parse {assignment!r}: expected name=value,...")
            if self._settings is not None and name in self._settings.names():
                setattr(self, name, getattr(self._settings.override(f"{name}={text}"), name))
                continue
            like = getattr(self, name)
            is_list = isinstance(like, list | tuple)
            self.set_hparam(name, Setting(name, list, like, "").parsed(text) if is_list else text)
        return self

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> Self:
        """Changes fields; returns the object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse_json(self, values_json: str) -> Self:
        """Changes fields by a JSON object; returns the object."""
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Returns all fields as a JSON object."""
        return json.dumps(self._values, indent=indent, separators=separators, sort_keys=sort_keys)

    def __repr__(self) -> str:
        return f"HParams({sorted(self._values.items())})"

    def __copy__(self) -> Self:
        other = type(self)()
        own = {name: copy.copy(vars(self)[name]) for name in ("_values", "_own", "_set")}
        vars(other).update(vars(self) | own)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = type(self)()
        vars(other).update(copy.deepcopy(vars(self), memo))
        return other

    # ---- as a set of this package

    def to_settings(self, name: str) -> Settings:
        """Returns the set that is trained; warns of fields that have no effect.

        Args:
            name: the set's name, for messages.

        Raises:
            UsageError: a field has a value that is not implemented, or of the wrong type.
        """
        if self._set >= _OF_TRANSFORMERS and not isinstance(self._settings, TransformerHParams):
            return self._as_transformers().to_settings(name)
        if self._settings is None:
            raise UsageError(
                f"hparams set {name!r}: start from a model's set, such as "
                "transformer.transformer_base(), and change its fields"
            )
        ours = self._settings.names()
        for field in sorted(self._values.keys() & ONLY.keys() - set(ours) - self._own):
            if not is_implemented(field, self._values[field]):
                instead = INSTEAD.get(field, "")
                raise UsageError(
                    f"hparams set {name!r}: {field}={self._values[field]!r} is not implemented; "
                    f"only {ONLY[field]!r} is" + (f" (instead: {instead})" if instead else "")
                )
        ignored = sorted((self._set & set(NO_EFFECT)) - set(ours))
        if ignored:
            notes = (
                f"{field} (instead: {INSTEAD[field]})" if field in INSTEAD else field
                for field in ignored
            )
            warn_once(f"hparams set {name}: without effect here: {', '.join(notes)}")
        own = {field: _saved(self._values[field]) for field in self._values if field in self._own}
        kept = {field: self._values[field] for field in ours}
        return _with_fields(type(self._settings), own).from_dict({**kept, **own})

    def _as_transformers(self) -> "HParams":
        """Returns the set of a Transformer with what has been set, and the fields of all models."""
        hparams = HParams.of(TransformerHParams())
        for field, value in self._values.items():
            if field in self._set and field not in hparams:
                hparams.add_hparam(field, value)
            elif field in self._set or field in BasicHParams.names():
                setattr(hparams, field, value)
        return hparams


def _with_fields(settings: type[Settings], own: Mapping[str, Any]) -> type[Settings]:
    """Returns a class of hyperparameters with more fields."""
    if not own:
        return settings
    for name, value in own.items():
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(settings, name):
            raise UsageError(
                f"hparam {name!r}: a field cannot have this name; expected letters, digits and "
                "underscores, and no word of Python's or method of a set"
            )
        if not isinstance(value, _OWN_KINDS):
            raise UsageError(
                f"hparam {name!r}: {value!r} cannot be saved; expected a number, a text, a switch "
                "or a list of them"
            )
    fields = [(name, type(value), _field_of(value)) for name, value in own.items()]
    return dataclasses.make_dataclass(settings.__name__, fields, bases=(settings,))


def _saved(value: Any) -> Any:
    """Returns a value as hparams.json keeps it, which knows no tuples."""
    return list(value) if isinstance(value, tuple) else value


def _field_of(value: Any) -> Any:
    return dataclasses.field(default_factory=lambda: value)


def _fitting(value: Any, kind: Any) -> Any:
    """Returns a switch that is 0 or 1, a whole number that is a float, and None as the field's.

    So, too, a list of texts where the field is a text of them, which a comma at a line's end makes.
    """
    if value is None and kind in (str, bool, int, float):  # T2T asks only whether the value is true
        return "none" if kind is str else kind()
    if kind is str and isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if kind is bool and value in (0, 1):
        return bool(value)
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _converted(name: str, value: Any, like: Any) -> Any:
    """Returns a value converted to the type of another."""
    try:
        if isinstance(like, bool):
            return _BOOLS[str(value).lower()]
        if isinstance(like, int) and isinstance(value, float) and not value.is_integer():
            raise ValueError
        if isinstance(like, list | tuple):
            if not isinstance(value, list | tuple):
                raise TypeError
            return [_converted(name, item, like[0]) for item in value] if like else value
        return value if like is None or isinstance(like, dict) else type(like)(value)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"hparam {name!r}: {value!r} is not of type {type(like).__name__}"
        ) from None


# ---- hyperparameters of T2T that do not exist here: without effect, or with one value implemented

# "feature:kind:name", of T2T before 1.12.
_SYMBOL_ENTRIES = re.compile(r"((\w+:)?symbol:default;?)+")

_TABLES = json.loads(pathlib.Path(__file__).with_name("hparams.json").read_text(encoding="utf-8"))
# T2T's defaults of fields that change nothing here: sizes of memory and logs, the placement on
# devices, and fields that only models of other kinds read.
NO_EFFECT: Mapping[str, Any] = _TABLES["no_effect"]
# The only values implemented of fields that change the model, as T2T holds them
# (`t2t_settings.ONLY`), and of those that change how it is trained and decoded.
ONLY: Mapping[str, Any] = {
    **{name: int(text) if text.isdecimal() else text for name, text in t2t_settings.ONLY.items()},
    **_TABLES["only"],
}
# What to do instead of another value.
INSTEAD: Mapping[str, str] = _TABLES["instead"]
# Fields of our sets that users' functions add to T2T's, as T2T's own functions do.
ADDED = frozenset({"attention_mechanism"})
# Ours under T2T's name.
RENAMED: Mapping[str, str] = {"activation_dtype": "dtype"}


def is_implemented(name: str, value: Any) -> bool:
    """Whether a field of `ONLY` holds the value that is implemented."""
    only = ONLY[name]
    if name == "modality" and isinstance(value, Mapping):
        return set(value.values()) <= {ModalityType.SYMBOL}
    if only == "default" and _SYMBOL_ENTRIES.fullmatch(str(value)):
        return True
    return bool(value == only) or t2t_settings.as_text(value) == t2t_settings.as_text(only)
