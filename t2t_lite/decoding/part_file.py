"""What has been decoded so far, kept beside the file that it is for, so that a kill loses little.

`{target}.part` holds JSON, one line each: first what the outputs are made from, then, behind its
checksum, a record for each batch that is done. Windows come one after the other, the batches of a
window in any order. Together they take more room than the target, for as long as it is made.
"""

import contextlib
import itertools
import json
import logging
import os
import pathlib
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from t2t_lite import files
from t2t_lite.data.problem import Output
from t2t_lite.decoding.details import Details
from t2t_lite.decoding.pieces import Found, Hypothesis
from t2t_lite.errors import UserError
from t2t_lite.lock import locked

log = logging.getLogger(__name__)

# What is put beside the target while it is made.
_PART, _LOCK = ".part", ".part.lock"
WRITTEN_BESIDE = ("", _PART, _LOCK, files.INCOMPLETE, _PART + files.INCOMPLETE)

# Counts the ways in which batches were recorded; files of the first had none of this.
_FORMAT = 2


class Row(NamedTuple):
    """What is known of a line that is done."""

    line: str  # as it is written
    output: Output  # the best one, as it is scored


class Record(NamedTuple):
    """What a batch has brought."""

    window: int  # the first row of its window
    batch: int  # its number in there
    rows: Mapping[int, Row]  # those that are done with it, by their numbers from 0
    pieces: Found  # its pieces of rows that wait for their other pieces; see `Batch`


class Done(NamedTuple):
    """Where to go on."""

    rows: int = 0  # how many are done
    window: int = 0  # the first row of the window under way
    known: Mapping[int, Found] = {}  # its batches that are done, as `Decoder` wants them


NOT_BEGUN = Done()


class PartFile:
    """The records of a file that is not yet whole.

    Args:
        target: the file that they are for.
        origin: what decides what they are, as it stands in JSON; with another one, what is there
            is thrown away.

    Attributes:
        done: what was there when it was opened.
    """

    def __init__(self, target: pathlib.Path, origin: Mapping[str, Any]) -> None:
        self._target = target
        self._origin = {"format": _FORMAT, **origin}
        self._path = target.with_name(target.name + _PART)
        self.done = NOT_BEGUN

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
            raise UserError(f"{self._target} is not a regular file: name another")
        self._target.parent.mkdir(parents=True, exist_ok=True)
        lock = self._target.with_name(self._target.name + _LOCK)
        with locked(lock, "t2t-decoder", f"is writing {self._target}"):
            if not self._resume():
                self._begin()
            yield self

    def append(self, record: Record) -> None:
        """Adds a record; it is on the disk when this returns."""
        with self._path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_line(record))
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> Iterator[Row]:
        """Yields what is there of whole windows, from the first row on; one window is in memory."""
        with self._path.open("rb") as file:
            next(file)
            records = (record for line in file if (record := _parsed(line)))
            for _, window in itertools.groupby(records, key=lambda record: record.window):
                rows = {number: row for record in window for number, row in record.rows.items()}
                yield from (rows[number] for number in sorted(rows))

    def finish(self) -> None:
        """Writes the target, whole or not at all, and removes the part file."""
        with files.whole_file(self._target) as temporary:
            with temporary.open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(f"{row.line}\n" for row in self.rows())
        self._path.unlink()

    def _begin(self) -> None:
        files.write_text(self._path, json.dumps(self._origin) + "\n")

    def _resume(self) -> bool:
        """Returns whether there is something to go on from; what a kill has torn is cut off."""
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
            end, rows, window = file.tell(), 0, 0
            known: dict[int, Found] = {}
            for line in file:
                record = _parsed(line)
                if record is None:
                    break
                if record.window != window:
                    window, known = record.window, {}
                known[record.batch] = record.pieces
                rows += len(record.rows)
                end += len(line)
            file.truncate(end)
        self.done = Done(rows, window, known)
        log.info("going on from %s, where %d lines are done", self._path, rows)
        return True


def _line(record: Record) -> str:
    rows = [[number, *row] for number, row in record.rows.items()]
    pieces = [
        [number, [_fields(hypothesis) for hypothesis in hypotheses]]
        for number, hypotheses in record.pieces.items()
    ]
    text = json.dumps([record.window, record.batch, rows, pieces], ensure_ascii=False)
    return f"{_checksum(text.encode())} {text}\n"


def _parsed(line: bytes) -> Record | None:
    """Returns the record in a line; None if it is torn or damaged."""
    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != _checksum(text).encode():
        return None
    window, batch, rows, pieces = json.loads(text)
    return Record(
        window,
        batch,
        {number: Row(text, Output(*output)) for number, text, output in rows},
        {number: [_hypothesis(*fields) for fields in found] for number, found in pieces},
    )


def _checksum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def _fields(hypothesis: Hypothesis) -> list[Any]:
    output, ids, score, details = hypothesis
    if details is None:
        return [output, ids, score, None]
    numbers = (details.log_probs.tolist(), details.attention.tolist())
    return [output, ids, score, [details.source_tokens, details.tokens, *numbers]]


def _hypothesis(output: Any, ids: Any, score: Any, details: Any) -> Hypothesis:
    if details is not None:
        source_tokens, tokens, log_probs, attention = details
        details = Details(source_tokens, tokens, np.array(log_probs), np.array(attention))
    return Hypothesis(Output(*output), ids, score, details)


def _loaded(line: bytes) -> dict[str, Any]:
    """Returns what a line of JSON holds; nothing if it is damaged."""
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return {}
