"""Work that is kept for later commands, and what it was made from.

Exports, journals, averages, distilled text, translations, vocabularies and data outlive the command
that makes them. All go by the same steps, so that nothing is used for what it was not made from:

1. The files that the work reads are fingerprinted before they are read (`Fingerprint`).
2. Before the work gets its name, they must still be the same (`Fingerprint.require_unchanged`).
3. The work is kept with its origin: settings as they are meant, not as they are spelled, and files
   by their contents, not by their places and times. A later command compares them (`differing`).

Work of another origin is made anew, with a line in the log, if it is the program's own or not
finished: exports, averages, journals. It is an error if the user named it as a result, on which a
later step may rest: data and vocabularies, distilled text, translations (`refuse_another`).
"""

import functools
import hashlib
import json
import os
import pathlib
import stat
import time
from collections.abc import Iterable, Mapping
from typing import Any

from t2t_lite import files, json_files
from t2t_lite.errors import UserError

# File systems count times in steps, FAT's of two seconds: a file that has changed so recently may
# change once more without another time.
_SETTLED = 3 * 10**9  # nanoseconds

_ORIGIN = "origin"  # the field of a record


def contents(path: str | os.PathLike[str]) -> str:
    """Returns the SHA-256 of a file, which is read once as long as it stays as it is.

    Raises:
        UserError: the file is missing, or a folder or device.
        OSError: it cannot be read.
    """
    name = os.fspath(path)
    try:
        status = os.stat(name)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{name}: no such file") from None
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{name} is not a regular file: name another file")
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    if time.time_ns() - changed < _SETTLED:
        return files.digest(name)
    # Programs can set the time of the contents, but not that of the last change.
    identity = (status.st_dev, status.st_ino, status.st_size, changed, status.st_ctime_ns)
    return _settled(os.path.abspath(name), identity)


@functools.lru_cache(maxsize=4096)
def _settled(path: str, identity: tuple[int, ...]) -> str:
    """Returns the SHA-256 of a file whose identity a change of its contents would change."""
    del identity
    return files.digest(path)


class Fingerprint:
    """The contents of files before work is made from them.

    Args:
        paths: the files.
        earlier: of other files, which this has, too.

    Raises:
        UserError: a file is missing, or a folder or device.
    """

    def __init__(
        self, paths: Iterable[str | os.PathLike[str]], earlier: "Fingerprint | None" = None
    ) -> None:
        self._digests: dict[str, str] = dict(earlier._digests) if earlier else {}
        self._digests |= {os.fspath(path): contents(path) for path in paths}

    def __contains__(self, path: str | os.PathLike[str]) -> bool:
        return os.fspath(path) in self._digests

    def digest(self, path: str | os.PathLike[str]) -> str:
        """Returns the SHA-256 that a file had."""
        return self._digests[os.fspath(path)]

    def require_unchanged(self, *paths: str | os.PathLike[str]) -> None:
        """Checks that files have the contents that they had; none: all.

        Call it once the work has been made from them, and before it is kept.

        Raises:
            UserError: a file has others, or is gone.
        """
        for path in [os.fspath(path) for path in paths] or self._digests:
            try:
                now = contents(path)
            except (UserError, OSError):
                now = ""
            if now != self._digests[path]:
                raise UserError(
                    f"{path} was {'replaced' if now else 'removed'} while this command read it, so "
                    "that nothing made from it is kept: run the command again"
                )


def digest(origin: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of an origin, by which work can be named."""
    return hashlib.sha256(json.dumps(origin, sort_keys=True).encode()).hexdigest()


def differing(there: Mapping[str, Any], origin: Mapping[str, Any]) -> list[str]:
    """Returns the names of the values in which two origins differ.

    Args:
        there: the origin of existing work, as read from JSON.
        origin: that of the work to make.
    """
    now = json.loads(json.dumps(origin))  # which has neither tuples nor enumerations
    return [name for name in now | there if there.get(name) != now.get(name)]


def write_record(record: pathlib.Path, origin: Mapping[str, Any], **others: Any) -> None:
    """Writes the origin of a result to a file of its own, beside other values for the reader."""
    fields = {**others, _ORIGIN: origin}
    files.write_text(record, json.dumps(fields, indent=1) + "\n")


def read_record(result: pathlib.Path, record: pathlib.Path) -> json_files.Fields | None:
    """Returns the record of a result that exists; None if it does not.

    Raises:
        UserError: it has no record, which would say what it was made from.
    """
    is_empty = result.is_dir() and not any(result.iterdir())
    if not result.exists() or is_empty:
        return None
    if not record.is_file():
        raise UserError(
            f"{result} already exists, without {record.name}, which would say what it was made "
            "from: remove it, or name another"
        )
    found = json_files.read_object(record)
    found.check({_ORIGIN: dict})
    return found


def refuse_another(
    result: pathlib.Path, record: json_files.Fields, origin: Mapping[str, Any]
) -> None:
    """Refuses a result that exists and was made from something else than it would be now.

    Raises:
        UserError: it was; the message names what differs.
    """
    if names := differing(record[_ORIGIN], origin):
        raise UserError(
            f"{result} was made from something else than it would be now ({', '.join(names)}): "
            "remove it, or name another"
        )
