"""Reads the lines to decode as they are needed, in windows."""

import itertools
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from t2t_lite.decoding.config import STANDARD_INPUT, DecoderConfig
from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.text_files import (
    MAX_LINE_BYTES,
    decoded_lines,
    iterate_lines,
    overlong_line,
)

# Lines decoded together, sorted by length. The first window is small, so that the first outputs
# appear soon; each is twice as large as the one before, up to the largest, which bounds memory.
_FIRST_WINDOW = 16
_LARGEST_WINDOW = 4096

_BYTES = 1 << 20  # read at a time, at most

_Line = TypeVar("_Line")


class InputLine(NamedTuple):
    """One line of the input, with the text that is paired with it."""

    source: str
    paired: str = ""  # the target to score, or the prefix of the output


class InputLines:
    """The lines of a run's input.

    Args:
        config: names the files.
        has_inputs: whether targets to score have a source; else each line is one.
        has_labels: whether targets are labels, before which tabs may separate several texts.

    Raises:
        UsageError: a flag does not apply without inputs.

    Attributes:
        name: what messages call a line, before its number.
        paired_name: the same for the text that is paired with it.
    """

    def __init__(
        self, config: DecoderConfig, has_inputs: bool = True, has_labels: bool = False
    ) -> None:
        if not has_inputs and (
            config.prefix_file or (config.score_file and config.decode_from_file)
        ):
            raise UsageError(
                "--prefix_file, and --score_file with --decode_from_file, need a source, which a "
                "language model does not have: put the prompts into --decode_from_file, or the "
                "text to score into --score_file alone"
            )
        self._source = config.decode_from_file or config.score_file
        self._paired = config.prefix_file
        if config.score_file and config.decode_from_file:
            self._paired = config.score_file
        self._in_columns = bool(config.score_file) and not config.decode_from_file
        self._has_inputs = has_inputs
        self._has_labels = has_labels
        self._stdin = _StandardInput() if config.decode_from_file == STANDARD_INPUT else None
        self.name = f"{'standard input' if self._stdin else self._source}, line"
        self.paired_name = f"{self._paired or self._source}, line"

    @property
    def files(self) -> list[str]:
        """The files to read."""
        return [path for path in ("" if self._stdin else self._source, self._paired) if path]

    def count(self) -> int:
        """Returns the number of lines of the files, after reading all of them.

        Raises:
            DataError: a file is not text, or the files differ in length.
        """
        counts = [_count(path) for path in self.files]
        for path, count in zip(self.files, counts, strict=True):
            require_pair(self.files[0], counts[0], path, count)
        return counts[0]

    def __iter__(self) -> Iterator[InputLine]:
        """Yields the lines; raises as `count` does when it reaches the bad line."""
        sources: Iterable[str]
        if self._stdin:
            sources = decoded_lines(self._stdin, "standard input")
        else:
            sources = iterate_lines(self._source)
        if self._in_columns and not self._has_inputs:
            return (InputLine("", line) for line in sources)
        if self._in_columns:
            return itertools.starmap(self._columns, enumerate(sources, 1))
        if self._paired:
            return self._pairs(sources)
        return map(InputLine, sources)

    def windows(self) -> Iterator[list[InputLine]]:
        """Yields the lines in windows of growing size.

        On standard input a window ends when no further line has arrived yet.
        """
        has_arrived = self._stdin.has_line if self._stdin else lambda: True
        return windows_of(iter(self), has_arrived)

    def _columns(self, number: int, line: str) -> InputLine:
        source, tab, target = line.rpartition("\t") if self._has_labels else line.partition("\t")
        if not tab:
            raise DataError(
                f"{self.name} {number}: no tab between source and target; without "
                "--decode_from_file, --score_file holds both"
            )
        return InputLine(source, target)

    def _pairs(self, sources: Iterable[str]) -> Iterator[InputLine]:
        paired = iterate_lines(self._paired)
        for number, (source, other) in enumerate(itertools.zip_longest(sources, paired), 1):
            if source is None or other is None:
                short, long = self.name, self.paired_name
                raise DataError(
                    f"{(long if source is None else short)} {number} has no line to pair with"
                )
            yield InputLine(source, other)


def require_pair(path: str, count: int, other: str, other_count: int) -> None:
    """Raises DataError unless two files have as many lines."""
    if count != other_count:
        raise DataError(
            f"{path} has {count} lines but {other} has {other_count}: they must pair line by line"
        )


def require_regular(path: str) -> None:
    """Raises DataError if a file exists and cannot be read a second time."""
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise DataError(f"{path} is not a regular file: pipe it into --decode_from_file=- instead")


def _count(path: str) -> int:
    require_regular(path)
    return sum(1 for _ in iterate_lines(path))


def window_ends(count: int) -> list[int]:
    """Returns after how many of `count` lines each window of `windows_of` ends."""
    ends, size = [0], _FIRST_WINDOW
    while ends[-1] < count:
        ends.append(min(count, ends[-1] + size))
        size = min(2 * size, _LARGEST_WINDOW)
    return ends[1:]


def windows_of(
    lines: Iterator[_Line], has_arrived: Callable[[], bool] = lambda: True
) -> Iterator[list[_Line]]:
    """Yields lines in lists of growing size; a list also ends when the next has not arrived."""
    size = _FIRST_WINDOW
    for line in lines:
        window = [line]
        while len(window) < size and has_arrived() and (more := next(lines, None)) is not None:
            window.append(more)
        yield window
        size = min(2 * size, _LARGEST_WINDOW)


class _StandardInput:
    r"""The lines of standard input with their "\n", each as soon as it has arrived.

    Raises:
        DataError: a line is longer than `MAX_LINE_BYTES`.
    """

    def __init__(self) -> None:
        self._lines: list[bytes] = []  # those that have arrived, in reverse order

    def has_line(self) -> bool:
        """Whether the next line has already arrived."""
        return bool(self._lines)

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] = []  # parts of a line that has not arrived completely
        number, size = 1, 0  # of that line so far
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
