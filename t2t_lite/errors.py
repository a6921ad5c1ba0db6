"""Errors that a user can mend, and the nearest name to a mistyped one.

A command prints the message of a `UserError` as one line and exits with its `exit_code`;
any other exception is a defect of this package and shows its traceback.
"""

import difflib
import itertools
import re
from collections.abc import Iterable

# Longest value that a message quotes whole, and longest name whose neighbours are looked for: the
# search takes time by the square of the length, and by the number of names.
_LONGEST_QUOTE = 80
_MOST_COMPARED = 10_000


class UserError(Exception):
    """Something outside the program is wrong; the message says what and how to mend it."""

    exit_code = 1


class UsageError(UserError):
    """The command line itself is wrong: an unknown flag, name or value."""

    exit_code = 2


class DataError(UserError):
    """A file does not hold what it should; the message names file and line or record."""


def first_line(error: Exception) -> str:
    """Returns the first line of a message, without the names of TensorFlow's operations."""
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\]$", "", str(error).strip().partition("\n")[0])


def quoted(value: object) -> str:
    """Returns `repr(value)`; of a long one, its beginning and how long it is."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_QUOTE:
            return repr(value)
        return f"{value[:_LONGEST_QUOTE]!r}... ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `"; did you mean 'x'?"` for the nearest known name, or `""` if none is near.

    Of very many known names only the first are looked at: an error must not take minutes.
    """
    if len(name) > _LONGEST_QUOTE:
        return ""
    near = difflib.get_close_matches(name, itertools.islice(known, _MOST_COMPARED), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
