"""JSON files that a crash or a person may have damaged: every error names the file."""

import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

from t2t_lite.errors import UserError, quoted, surrogate_in

_KINDS = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "an object",
}
_LARGEST = 2**63  # no count, seed or size is larger


class Fields(dict[str, Any]):
    """The fields of a JSON object in a file; looking up a missing one raises `UserError`.

    Args:
        path: the file, for messages.
        fields: the fields by name.
    """

    def __init__(self, path: pathlib.Path, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self._path = path

    def __missing__(self, name: str) -> NoReturn:
        raise UserError(f"{self._path} has no field {name!r}: restore the file from a copy")

    def check(self, kinds: Mapping[str, type]) -> None:
        """Checks the types of those fields that are present.

        Args:
            kinds: str, bool, int, float (any number) or dict for each name.

        Raises:
            UserError: a field has another type, or a value that no file name or count can have.
        """
        for name, kind in kinds.items():
            if name in self and not _fits(self[name], kind):
                raise UserError(
                    f"{self._path}: expected {_KINDS[kind]} as {name!r}, got "
                    f"{quoted(self[name])}; restore the file from a copy"
                )


def read_object(path: pathlib.Path) -> Fields:
    """Returns the JSON object in a file.

    Raises:
        UserError: the file does not hold a JSON object.
        OSError: the file cannot be read.
    """
    try:
        return Fields(path, parse_object(path.read_bytes()))
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}; restore it from a copy") from error


def parse_object(text: bytes) -> dict[str, Any]:
    """Parses a JSON object.

    Raises:
        ValueError: `text` is not a JSON object in UTF-8.
    """
    try:
        value = json.loads(text.decode())
        fault = surrogate_in(json.dumps(value, ensure_ascii=False))
    except UnicodeError as error:
        raise ValueError(f"not UTF-8 ({error})") from error
    except RecursionError:
        raise ValueError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"not JSON ({error})") from error
    if fault:
        raise ValueError(f"it holds {fault}")
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {quoted(value)}")
    return value


def is_number(value: Any) -> bool:
    """Whether a value from JSON is a number to compute with, NaN and infinity included."""
    # True is an int, too; an int beyond the range of floats cannot be computed with.
    return type(value) is float or (type(value) is int and abs(value) <= sys.float_info.max)


def _fits(value: Any, kind: type) -> bool:
    if kind is float:
        return is_number(value)
    if type(value) is not kind:  # True is an int, too
        return False
    if isinstance(value, int):
        return 0 <= value < _LARGEST
    return not isinstance(value, str) or "\0" not in value  # no path can contain it
