"""The lines that a run is to decode: read as they are needed, in windows."""

import itertools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.errors import DataError
from t2t_lite.text.text_files import (
    MAX_LINE_BYTES,
    decoded_lines,
    iterate_lines,
    overlong_line,
)

# Lines decoded together, sorted by length. The first window is small, so that something is seen
# soon; each is twice as large as the one before, up to the greatest, which bounds the memory.
_FIRST_WINDOW = 16
_LARGEST_WINDOW = 4096

_BYTES = 1 << 20  # read at a time, at most

_Row = TypeVar("_Row")


class Row(NamedTuple):
    """One line of the input, and what belongs to it."""

    source: str
    beside: str = ""  # the target to score, or the prefix of the output


class Rows:
    """The rows of a run's input.

    Args:
        config: names the files.

    Attributes:
        name: what a message calls a row, before its number.
        beside: the same for what stands beside it in a file of its own; "": there is none.
    """

    def __init__(self, config: DecoderConfig) -> None:
        self._source = config.decode_from_file or config.score_file
        self._beside = config.prefix_file
        if config.score_file and config.decode_from_file:
            self._beside = config.score_file
        self._in_columns = bool(config.score_file) and not config.decode_from_file
        self._stdin = _StandardInput() if config.decode_from_file == STANDARD_INPUT else None
        self.name = f"{'standard input' if self._stdin else self._source}, line"
        self.beside = f"{self._beside or self._source}, line"

    @property
    def files(self) -> list[str]:
        """The files that are read."""
        return [path for path in ("" if self._stdin else self._source, self._beside) if path]

    def count(self) -> int:
        """Returns how many rows the files hold, which are read through.

        Raises:
            DataError: a file is no text, or they do not pair line by line.
        """
        counts = [_count(path) for path in self.files]
        for path, count in zip(self.files, counts, strict=True):
            require_pair(self.files[0], counts[0], path, count)
        return counts[0]

    def __iter__(self) -> Iterator[Row]:
        """Yields the rows; errors as in `count`, when the line is reached."""
        sources: Iterable[str]
        if self._stdin:
            sources = decoded_lines(self._stdin, "standard input")
        else:
            sources = iterate_lines(self._source)
        if self._in_columns:
            return itertools.starmap(self._columns, enumerate(sources, 1))
        if self._beside:
            return self._pairs(sources)
        return map(Row, sources)

    def windows(self) -> Iterator[list[Row]]:
        """Yields the rows in windows that grow.

        Of standard input, a window ends where nothing has arrived yet.
        """
        is_there = self._stdin.line_is_there if self._stdin else lambda: True
        return _windows(iter(self), is_there)

    def _columns(self, number: int, line: str) -> Row:
        source, tab, target = line.partition("\t")
        if not tab:
            raise DataError(
                f"{self.name} {number}: no tab between source and target; without "
                "--decode_from_file, --score_file holds both"
            )
        return Row(source, target)

    def _pairs(self, sources: Iterable[str]) -> Iterator[Row]:
        beside = iterate_lines(self._beside)
        for number, (source, other) in enumerate(itertools.zip_longest(sources, beside), 1):
            if source is None or other is None:
                short, long = self.name, self.beside
                raise DataError(
                    f"{(long if source is None else short)} {number} has no line to pair with"
                )
            yield Row(source, other)


def require_pair(path: str, count: int, other: str, other_count: int) -> None:
    """Raises DataError unless two files have as many lines."""
    if count != other_count:
        raise DataError(
            f"{path} has {count} lines but {other} has {other_count}: they must pair line by line"
        )


def _count(path: str) -> int:
    """Counts the lines of a file that can be read again."""
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise DataError(f"{path} is not a regular file: pipe it into --decode_from_file=- instead")
    return sum(1 for _ in iterate_lines(path))


def _windows(rows: Iterator[_Row], is_there: Callable[[], bool]) -> Iterator[list[_Row]]:
    """Yields rows in lists, each ending where `is_there` says that one would have to wait."""
    size = _FIRST_WINDOW
    for row in rows:
        window = [row]
        while len(window) < size and is_there() and (more := next(rows, None)) is not None:
            window.append(more)
        yield window
        size = min(2 * size, _LARGEST_WINDOW)


class _StandardInput:
    r"""The lines of standard input with their "\n", each as soon as it has arrived.

    Raises:
        DataError: a line is longer than `MAX_LINE_BYTES`.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []  # those that have arrived, the last first

    def line_is_there(self) -> bool:
        """Whether the next line need not be waited for."""
        return bool(self._lines)

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] = []  # parts of a line whose end has not arrived yet
        number, size = 1, 0  # of that line, as far as it has come
        while chunk := os.read(sys.stdin.fileno(), _BYTES):
            end, newline, rest = chunk.rpartition(b"\n")
            if newline:
                lines = b"".join([*begun, end]).split(b"\n")
                begun, size = [], 0
                number += len(lines)
                self._lines = [line + b"\n" for line in reversed(lines)]
                while self._lines:
                    yield self._lines.pop()
            begun.append(rest)
            size += len(rest)
            if size > MAX_LINE_BYTES:
                raise overlong_line("standard input", number)
        if last := b"".join(begun):
            yield last
