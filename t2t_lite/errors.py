"""Errors that a user can fix, warnings, and the closest match to a mistyped name.

A command prints the message of a `UserError` on one line and exits with its `exit_code`;
any other exception is a defect of this package and shows its traceback.
"""

import contextlib
import difflib
import errno
import functools
import itertools
import logging
import os
import re
import sysconfig
import traceback
from collections.abc import Iterable, Sequence

log = logging.getLogger(__name__)

# Longest value that a message quotes in full, and longest name for which similar names are sought:
# the search takes time quadratic in the length and linear in the number of names.
_LONGEST_QUOTE = 80
_MOST_COMPARED = 10_000


class UserError(Exception):
    """Something outside the program is wrong; the message says what it is and how to fix it."""

    exit_code = 1


class UsageError(UserError):
    """The command line itself is wrong: an unknown flag, name or value."""

    exit_code = 2


class DataError(UserError):
    """A file has invalid contents; the message names the file and the line or record."""


class UntrainableError(UserError):
    """A model with these hyperparameters cannot be trained; with others, it may be."""


class ExitError(UserError):
    """The user's code has called `sys.exit` where its result was needed.

    Args:
        end: what it raised.

    Attributes:
        path: the file that called it.
    """

    def __init__(self, end: SystemExit) -> None:
        frames = traceback.extract_tb(end.__traceback__)
        library = sysconfig.get_path("stdlib") + os.sep  # such as argparse
        own = [frame for frame in frames if not frame.filename.startswith(library)]
        frame = (own or frames)[-1]
        self.path = frame.filename
        super().__init__(
            f"{self.path}, line {frame.lineno}: the code ended the program with code "
            f"{quoted(end.code)}: let it raise an error, or return"
        )


def describe_os_error(error: OSError) -> str:
    """Returns what the system refused, after the name of the file or folder, if it is known."""
    what = error.strerror or str(error)
    if error.errno == errno.ENOSPC:
        what = "the disk is full"
    elif error.errno == errno.EEXIST and os.path.isfile(error.filename or ""):
        what = "it is a file: name a folder"
    return f"{error.filename}: {what}" if error.filename else what


def first_line(error: Exception) -> str:
    """Returns the first line of a message, without the names of TensorFlow's operations."""
    return re.sub(r"^\{\{.*?\}\} | \[Op:\w+\]$", "", str(error).strip().partition("\n")[0])


def described(error: BaseException) -> str:
    """Returns the type and the text of an error of a user's code on one line."""
    text = type(error).__name__
    with contextlib.suppress(Exception):  # its text may be the user's code, too
        text = " ".join(f"{text}: {error}".split()).rstrip(" :")
    return text


def quoted(value: object) -> str:
    """Returns `repr(value)`, truncated if long; for a string, with its length."""
    if isinstance(value, str):
        if len(value) <= _LONGEST_QUOTE:
            return repr(value)
        return f"{value[:_LONGEST_QUOTE]!r}... ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def shortened(name: str) -> str:
    """Returns a name as it is; of a long one, the beginning and the length."""
    if len(name) <= _LONGEST_QUOTE:
        return name
    return f"{name[:_LONGEST_QUOTE]}... ({len(name)} characters)"


def surrogate_in(text: str) -> str:
    """Returns what a text holds that UTF-8 cannot encode, for messages; "": nothing.

    JSON can spell half of a surrogate pair, and Python reads bytes that are not UTF-8 as such.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"the lone surrogate U+{ord(text[error.start]):04X}, which is not a character"
    return ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns `"; did you mean 'x'?"` for the closest known name, or `""` if none is close."""
    return question(closest(name, known))


def closest(name: str, known: Iterable[str], ratio: float = 0.5) -> list[str]:
    """Returns the closest known name, if one is close: `difflib`'s ratio is at least `ratio`.

    Searches only the first `_MOST_COMPARED` names: an error must not take minutes.
    """
    if len(name) > _LONGEST_QUOTE:
        return []
    compared = itertools.islice(known, _MOST_COMPARED)
    return difflib.get_close_matches(name, compared, n=1, cutoff=ratio)


def question(names: Sequence[str]) -> str:
    """Returns `"; did you mean 'x' or 'y'?"`, or `""` if there are no names."""
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""


@functools.cache
def warn_once(message: str) -> None:
    """Logs a warning, once in a process."""
    log.warning("%s", message)
