"""Translation memories with units that are not well-formed XML: only those units are skipped.

A parser cannot go on after an error. Hence a new one reads what precedes the units, which declares
the encoding, and goes on at the start tag of the next unit.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import BadInput

Pair = tuple[str, str]

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# Bytes of the longest part that is held, and more than those of the start of a tag.
_MAX_HELD = 2**20
_TAG = 16


class Reader(Protocol):
    """What parses a translation memory."""

    @property
    def is_within_unit(self) -> bool:
        """Whether a unit has begun."""

    def feed(self, piece: bytes) -> None:
        """Parses a piece; raises DataError."""

    def close(self) -> None:
        """Raises DataError unless the file is complete."""

    def take(self) -> list[Pair]:
        """Returns the units completed since the last call."""


class Recovery:
    """Reads the units that are well-formed.

    Args:
        pieces: raw pieces of the file.
        open_reader: returns a reader that counts lines from a number on.
        bad: receives the error of each unit that is skipped, and of a file that ends early.
    """

    def __init__(
        self, pieces: Iterable[bytes], open_reader: Callable[[int], Reader], bad: BadInput
    ) -> None:
        self._pieces = iter(pieces)
        self._open_reader = open_reader
        self._bad = bad
        self._reader: Reader | None = open_reader(1)
        self._fault: DataError | None = None  # that has not been reported
        self._line = 1  # where the part begins
        self._head = b""

    def units(self) -> Iterator[Pair]:
        """Yields the units."""
        first = next(self._pieces, b"")
        self._encoding = _UTF16.get(first[:2], "ascii")
        tag = re.compile(re.escape(self._encoded("<tu")) + rb"(?=\0?[\s>])")
        for number, part in enumerate(_split(first, self._pieces, tag)):
            is_unit = bool(tag.match(part))
            if number == 0:
                self._head = part
            elif number == 1 and not is_unit:  # it goes on
                self._head = self._declaration()
            if is_unit and self._reader is None:
                self._restart()
            # The end tag of the unit before may be missing, which shows only later.
            is_late = is_unit and self._reader is not None and self._reader.is_within_unit
            found = self._units_of(part)
            if is_late and self._reader is None:
                self._restart()
                found = self._units_of(part)
            yield from found
            self._line += part.count(self._encoded("\n"))
        if self._reader is not None:
            try:
                self._reader.close()
            except DataError as error:
                self._fault = error
        if self._fault:
            self._bad.cut(self._fault)

    def _units_of(self, part: bytes) -> list[Pair]:
        """Returns the units of a part up to an error, which ends the reader."""
        reader = self._reader
        if reader is None:
            return []
        try:
            reader.feed(part)
        except DataError as error:
            self._fault, self._reader = error, None
        return reader.take()

    def _restart(self) -> None:
        """Opens a reader within the file, if possible, and reports the error before."""
        for head in (self._head, self._declaration()):
            reader = self._open_reader(self._line - head.count(self._encoded("\n")))
            try:
                reader.feed(head)
            except DataError:
                continue  # the error may be in what precedes the units
            if self._fault:
                self._bad(self._fault)
            self._fault, self._reader = None, reader
            return

    def _declaration(self) -> bytes:
        """Returns the declaration of the encoding, and the start tags around the units."""
        declaration, end, _ = self._head.partition(self._encoded("?>"))
        start = declaration + end if end else self._head[: 2 * (self._encoding != "ascii")]
        return start + self._encoded("<tmx><body>")

    def _encoded(self, text: str) -> bytes:
        return text.encode(self._encoding)


def _split(first: bytes, pieces: Iterable[bytes], tag: re.Pattern[bytes]) -> Iterator[bytes]:
    """Yields what precedes the units, then each unit; parts that are too long, in pieces."""
    held = bytearray(first)
    place = 1
    while True:
        while found := tag.search(held, place):
            yield bytes(held[: found.start()])
            del held[: found.start()]
            place = 1
        if len(held) > _MAX_HELD:
            yield bytes(held[:-_TAG])
            del held[:-_TAG]
        place = max(1, len(held) - _TAG)
        piece = next(iter(pieces), None)
        if piece is None:
            break
        held += piece
    yield bytes(held)
