"""What a document offers: its segments, and itself with their translations."""

import collections
import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import Protocol

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
        reasons = ", ".join(f"{reason}: {count}" for reason, count in self.left.items())
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


class Parts:
    """The parts of a text, of which some are translated and the others stay as they are."""

    __slots__ = ("_parts", "_translated")

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

    def joined(self, outputs: Iterable[str]) -> str:
        """Returns all parts with the translations of the segments, the next ones of `outputs`."""
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
