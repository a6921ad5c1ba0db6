"""What has been decoded so far, kept beside the file that it is for, so that a kill loses little.

`{target}.part` holds JSON, one line each: first what the outputs are made from, then a record for
each line that is done. Together they take more room than the target, for as long as it is made.
"""

import contextlib
import json
import logging
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from t2t_lite import files
from t2t_lite.data.problem import Output
from t2t_lite.errors import UserError
from t2t_lite.lock import locked

log = logging.getLogger(__name__)


class Record(NamedTuple):
    """What is known of a line that is done."""

    line: str  # as it is written
    output: Output  # the best one, as it is scored


class PartFile:
    """The records of a file that is not yet whole.

    Args:
        target: the file that they are for.
        origin: what decides what they are, as it stands in JSON; with another one, what is there
            is thrown away.

    Attributes:
        done: the number of lines that are done.
    """

    def __init__(self, target: pathlib.Path, origin: Mapping[str, Any]) -> None:
        self._target = target
        self._origin = origin
        self._path = target.with_name(target.name + ".part")
        self.done = 0

    @contextlib.contextmanager
    def opened(self) -> Iterator["PartFile"]:
        """Keeps other processes out, and finds what a killed one has left.

        Raises:
            UserError: the target cannot be written, or another process is writing it.
            OSError: the folder cannot be written.
        """
        if self._target.is_dir():
            raise UserError(f"{self._target} is a folder: name a file in it")
        if self._target.exists() and not self._target.is_file():
            raise UserError(f"{self._target} is no regular file: name another")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        lock = self._path.with_name(self._path.name + ".lock")
        with locked(lock, "t2t-decoder", f"is writing {self._target}"):
            if not self._resume():
                self._begin()
            yield self

    def append(self, records: Iterable[Record]) -> None:
        """Adds records; they are on the disk when this returns."""
        with self._path.open("a", encoding="utf-8", newline="\n") as file:
            for record in records:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
                self.done += 1
            file.flush()
            os.fsync(file.fileno())

    def records(self) -> Iterator[Record]:
        """Yields what is there, from the first line on."""
        with self._path.open(encoding="utf-8", newline="\n") as file:
            next(file)
            for line in file:
                text, output = json.loads(line)
                yield Record(text, Output(*output))

    def finish(self) -> None:
        """Writes the target, whole or not at all, and removes the part file."""
        with files.whole_file(self._target) as temporary:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{record.line}\n" for record in self.records())
        self._path.unlink()

    def _begin(self) -> None:
        files.write_text(self._path, json.dumps(self._origin) + "\n")

    def _resume(self) -> bool:
        """Returns whether there is something to go on from; a line cut by a kill is cut off."""
        if not self._path.exists():
            return False
        with self._path.open("r+b") as file:
            origin = _loaded(file.readline())
            if origin != self._origin:
                other = [name for name, value in self._origin.items() if origin.get(name) != value]
                log.warning(
                    "starting anew: what is in %s was made with another %s",
                    self._path,
                    ", ".join(other),
                )
                return False
            end = file.tell()
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self.done += 1
                end += len(line)
            file.truncate(end)
        log.info("going on after line %d, from %s", self.done, self._path)
        return True


def _loaded(line: bytes) -> dict[str, Any]:
    """Returns what a line of JSON holds; nothing if it is damaged."""
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError):
        return {}
