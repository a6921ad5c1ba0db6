"""What a document offers: its segments, and itself with their translations."""

import codecs
import collections
import dataclasses
import itertools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, Self

from t2t_lite.errors import DataError, quoted
from t2t_lite.markup.tokens import Token, TokenKind
from t2t_lite.text.source_form import has_text

# A segment is a line of a file, and outputs are separated by tabs. Within a tag, characters for
# private use stand for what a line cannot have.
_HIDDEN = {"\n": "\U0010ff0a", "\r": "\U0010ff0d", "\t": "\U0010ff09"}
_TO_LINE = str.maketrans(_HIDDEN)
_FROM_LINE = str.maketrans({hidden: shown for shown, hidden in _HIDDEN.items()})

_SPACE = re.compile(r"[ \t\n\r\f]+")  # what browsers show as one space; not U+00A0


ICU_MESSAGES = "ICU messages"  # why a text is left


@dataclasses.dataclass
class Report:
    """What becomes of a document's texts: messages, units or blocks.

    Attributes:
        translated: how many get a translation.
        kept: how many have one that stays, since a person has finished it.
        left: how many stay without one, by the reason.
        notes: what else the user should know.
    """

    translated: int = 0
    kept: int = 0
    left: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    notes: list[str] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.left.items())
        left = f"{self.left.total()} left" + (f" ({reasons})" if reasons else "")
        return f"{self.translated} translated, {self.kept} kept, {left}"


class Document(Protocol):
    """A document; its reader takes the contents of a file, and raises DataError."""

    @property
    def markup(self) -> str:
        """The kind of the segments' markup, one of `markup.kinds.KINDS`."""

    @property
    def segments(self) -> Sequence[str]:
        """What is translated, one line each."""

    @property
    def report(self) -> Report:
        """What becomes of its texts; that of `translated` is final."""

    def translated(self, outputs: Sequence[str]) -> bytes:
        """Returns the document with the translations of its segments.

        Raises:
            DataError: its encoding lacks a character of them.
        """


_BOMS = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
}
_ASCII = "".join(map(chr, range(32, 127))) + "\r\n\t \\n \\x41 \\u0041 +AGE- ~{"


class Charset(NamedTuple):
    """How a file's text is written in bytes.

    Attributes:
        name: Python's name of it.
        bom: the byte order mark with which the file begins; it is no text.
    """

    name: str
    bom: bytes = b""

    @classmethod
    def of(cls, contents: bytes, declared: str = "utf-8") -> Self:
        """Returns the charset of a file: that of its byte order mark, or else what it declares.

        Raises:
            DataError: what it declares is not known, or is not written as ASCII where that will do.
        """
        for name, bom in _BOMS.items():
            if contents.startswith(bom):
                return cls(name, bom)
        try:
            name = codecs.lookup(declared).name
            extends_ascii = _ASCII.encode().decode(name) == _ASCII
        except (LookupError, ValueError):
            extends_ascii = False
        if not extends_ascii:
            raise DataError(
                f"charset {quoted(declared)}: expected one that extends ASCII, such as UTF-8; "
                "convert the file, and change what it declares"
            )
        return cls(name)

    def decoded(self, contents: bytes) -> str:
        """Returns the text of a file, without its byte order mark.

        Raises:
            DataError: it is not in this charset.
        """
        try:
            return contents.removeprefix(self.bom).decode(self.name)
        except UnicodeError as error:
            raise DataError(
                f"not in {self.name.upper()} ({error}): convert it, with iconv for example, to the "
                "charset that it declares"
            ) from None

    def encoded(self, text: str, errors: str = "strict") -> bytes:
        """Returns a text in bytes, without a byte order mark.

        Args:
            text: any text.
            errors: "xmlcharrefreplace": write what the charset lacks as numeric references.

        Raises:
            UnicodeError: the charset lacks a character.
        """
        return text.encode(self.name, errors)

    def places(self, contents: bytes, text: str, offsets: Iterable[int]) -> list[int]:
        """Returns where in a file certain places of its text are.

        Args:
            contents: the file.
            text: its text.
            offsets: the places in this, in ascending order.

        Raises:
            DataError: the charset is one in which the same text can be written in several lengths.
        """
        if len(text) + len(self.bom) == len(contents):
            return [len(self.bom) + offset for offset in offsets]
        around = itertools.pairwise([0, *offsets, len(text)])
        sizes = [len(self.encoded(text[start:end])) for start, end in around]
        found = [*itertools.accumulate(sizes, initial=len(self.bom))]
        if found[-1] != len(contents):
            raise DataError(f"{self.name.upper()} has shifts: convert it to UTF-8, with iconv")
        return found[1:-1]


def spliced(contents: bytes, edits: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Returns a file with new bytes in some places; all others are its own.

    Args:
        contents: the file.
        edits: where each starts and ends, in ascending order, and what comes there.
    """
    pieces, place = [], 0
    for start, end, new in edits:
        pieces += [contents[place:start], new]
        place = end
    return b"".join([*pieces, contents[place:]])


class Parts:
    """The parts of a text, of which some are translated and the others stay as they are."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._translated: list[bool] = []

    def keep(self, text: str) -> None:
        """Adds what stays."""
        self._parts.append(text)
        self._translated.append(False)

    def translate(self, text: str) -> None:
        """Adds a segment; the white space around it stays, and all of it if it has no text."""
        before, core, after = padded(text)
        self.keep(before)
        self._parts.append(core)
        self._translated.append(has_text(core))
        self.keep(after)

    @property
    def segments(self) -> list[str]:
        """The segments, one line each."""
        pairs = zip(self._parts, self._translated, strict=True)
        return [part.translate(_TO_LINE) for part, is_segment in pairs if is_segment]

    def joined(self, outputs: Sequence[str]) -> str:
        """Returns all parts with the translations of the segments."""
        left = iter(outputs)
        pairs = zip(self._parts, self._translated, strict=True)
        return "".join(
            next(left).translate(_FROM_LINE) if is_segment else part for part, is_segment in pairs
        )


def collapsed(token: Token) -> str:
    """Returns a token of markup; between words, white space is one space, as readers show it."""
    return _SPACE.sub(" ", token.raw) if token.kind is TokenKind.TEXT else token.raw


def padded(text: str) -> tuple[str, str, str]:
    """Returns the white space before a text, the text, and the white space after it."""
    core = text.strip()
    start = text.index(core) if core else len(text)
    return text[:start], core, text[start + len(core) :]
