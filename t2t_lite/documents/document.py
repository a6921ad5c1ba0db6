"""What a document offers: its segments, and itself with their translations."""

import collections
import dataclasses
from collections.abc import Iterable, Sequence
from typing import Protocol

from t2t_lite.markup.blocks import padded
from t2t_lite.markup.tokens import FROM_LINE, TO_LINE
from t2t_lite.text.source_form import has_text

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
        return [part.translate(TO_LINE) for part, is_segment in pairs if is_segment]

    def joined(self, outputs: Iterable[str]) -> str:
        """Returns all parts with the translations of the segments, the next ones of `outputs`."""
        left = iter(outputs)
        pairs = zip(self._parts, self._translated, strict=True)
        return "".join(
            next(left).translate(FROM_LINE) if is_segment else part for part, is_segment in pairs
        )
