"""Records each finished batch beside the output file, so that a killed run can be resumed.

`{target}.part` holds lines of JSON: first everything that determines the outputs, then one record
for each finished batch, each after its checksum. Windows come in order, the batches of a window in
any order. The file exists until the target is complete, and is larger than it.
"""

import contextlib
import itertools
import json
import logging
import os
import pathlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from t2t_lite import files, kept_work
from t2t_lite.data.problem import Output
from t2t_lite.decoding.hypotheses import Details, HypothesesByIndex, Hypothesis
from t2t_lite.errors import UserError
from t2t_lite.lock import locked

log = logging.getLogger(__name__)

# Suffixes of the files beside the target while it is being written.
_PART, _LOCK = ".part", ".part.lock"
WRITTEN_BESIDE = ("", _PART, _LOCK, files.INCOMPLETE, _PART + files.INCOMPLETE)

# Version of the format; version 1 did not record it.
_FORMAT = 2


class OutputLine(NamedTuple):
    """A finished line of the target."""

    text: str  # as written
    output: Output  # the best one, as scored


class BatchRecord(NamedTuple):
    """The results of one batch."""

    window: int  # index of the first line of its window
    batch: int  # its number within the window
    lines: Mapping[int, OutputLine]  # the lines that it completes, by their index
    pieces: HypothesesByIndex  # see `BatchResult`


class ResumePoint(NamedTuple):
    """Where to resume."""

    lines: int = 0  # number of finished lines
    window: int = 0  # index of the first line of the unfinished window
    known: Mapping[int, HypothesesByIndex] = {}  # the finished batches of that window


FROM_START = ResumePoint()


class BatchJournal:
    """The records of the finished batches of an incomplete file.

    Args:
        target: the file to write.
        origin: everything that determines the outputs, as JSON values; records with another origin
            are discarded.
        check: called before each record is kept; raises if a file of `origin` that is still being
            read has been replaced.

    Attributes:
        resume_point: where a killed run stopped, once the journal is open.
    """

    def __init__(
        self,
        target: pathlib.Path,
        origin: Mapping[str, Any],
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._target = target
        self._check = check
        self._origin = {"format": _FORMAT, **origin}
        self._path = target.with_name(target.name + _PART)
        self.resume_point = FROM_START

    @contextlib.contextmanager
    def opened(self) -> Iterator["BatchJournal"]:
        """Locks the target against other processes, and reads the records that a killed one left.

        Raises:
            UserError: the target cannot be written, or another process is writing it.
            OSError: the folder cannot be written.
        """
        require_file(self._target)
        self._target.parent.mkdir(parents=True, exist_ok=True)
        lock = self._target.with_name(self._target.name + _LOCK)
        with locked(lock, "t2t-decoder", f"is writing {self._target}"):
            if not self._resume():
                self._begin()
            yield self

    def append(self, record: BatchRecord) -> None:
        """Appends a record, after the check; it is on disk when this returns."""
        self._check()
        with (
            files.errors_of(self._target),
            self._path.open("a", encoding="utf-8", newline="\n") as file,
        ):
            file.write(_encoded(record))
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> Iterator[OutputLine]:
        """Yields the finished lines in order, holding one window in memory."""
        with self._path.open("rb") as file:
            next(file)
            records = (record for line in file if (record := _parsed(line)))
            for _, window in itertools.groupby(records, key=lambda record: record.window):
                yield from lines_in_order(window)

    def finish(
        self,
        contents: bytes | None = None,
        before: Callable[[pathlib.Path], None] = lambda written: None,
    ) -> None:
        """Writes the target, whole or not at all, and removes the journal.

        Args:
            contents: what a caller made of the lines; None: the lines.
            before: called with the written file before it becomes the target.
        """
        with files.whole_file(self._target) as temporary:
            if contents is not None:
                temporary.write_bytes(contents)
            else:
                with temporary.open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(f"{line.text}\n" for line in self.lines())
            before(temporary)
        self._path.unlink()

    def _begin(self) -> None:
        files.write_text(self._path, json.dumps(self._origin) + "\n")

    def _resume(self) -> bool:
        """Returns whether there is anything to resume; truncates an incomplete last record."""
        if not self._path.exists():
            return False
        with self._path.open("r+b") as file:
            origin = _loaded(file.readline())
            if other := kept_work.differing(origin, self._origin):
                log.warning(
                    "starting over: %s was made with another %s",
                    self._path,
                    ", ".join(other),
                )
                return False
            end, lines, window = file.tell(), 0, 0
            known: dict[int, HypothesesByIndex] = {}
            for line in file:
                record = _parsed(line)
                if record is None:
                    break
                if record.window != window:
                    window, known = record.window, {}
                known[record.batch] = record.pieces
                lines += len(record.lines)
                end += len(line)
            file.truncate(end)
        self.resume_point = ResumePoint(lines, window, known)
        log.info("resuming from %s, where %d lines are done", self._path, lines)
        return True


def require_file(target: pathlib.Path) -> None:
    """Raises UserError if a target exists and is not a regular file."""
    if target.is_dir():
        raise UserError(f"{target} is a folder: name a file in it")
    if target.exists() and not target.is_file():
        raise UserError(f"{target} is not a regular file: name another")


def _encoded(record: BatchRecord) -> str:
    lines = [[index, *line] for index, line in record.lines.items()]
    pieces = [
        [index, [_fields(hypothesis) for hypothesis in hypotheses]]
        for index, hypotheses in record.pieces.items()
    ]
    text = json.dumps([record.window, record.batch, lines, pieces], ensure_ascii=False)
    return f"{_checksum(text.encode())} {text}\n"


def _parsed(line: bytes) -> BatchRecord | None:
    """Returns the record in a line; None if it is incomplete or damaged."""
    checksum, _, text = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or checksum != _checksum(text).encode():
        return None
    window, batch, lines, pieces = json.loads(text)
    return BatchRecord(
        window,
        batch,
        {index: OutputLine(text, Output(*output)) for index, text, output in lines},
        {index: [_hypothesis(*fields) for fields in found] for index, found in pieces},
    )


def lines_in_order(records: Iterable[BatchRecord]) -> list[OutputLine]:
    """Returns the lines of a window's records in their order."""
    lines = {index: line for record in records for index, line in record.lines.items()}
    return [lines[index] for index in sorted(lines)]


def _checksum(text: bytes) -> str:
    return f"{zlib.crc32(text):08x}"


def _fields(hypothesis: Hypothesis) -> list[Any]:
    output, ids, score, details = hypothesis[:4]  # fields belong to whole lines
    if details is None:
        return [output, ids, score, None]
    attention = None if details.attention is None else details.attention.tolist()
    numbers = (details.log_probs.tolist(), attention, details.is_aligned)
    return [output, ids, score, [details.source_tokens, details.tokens, *numbers]]


def _hypothesis(output: Any, ids: Any, score: Any, details: Any) -> Hypothesis:
    if details is not None:
        source_tokens, tokens, log_probs, attention, is_aligned = details
        attention = None if attention is None else np.array(attention)
        details = Details(source_tokens, tokens, np.array(log_probs), attention, is_aligned)
    return Hypothesis(Output(*output), ids, score, details)


def _loaded(line: bytes) -> dict[str, Any]:
    """Returns the object in a line of JSON; an empty one if the line is damaged."""
    try:
        return dict(json.loads(line))
    except (ValueError, TypeError, RecursionError):
        return {}
