"""What a document offers: its segments, and itself with their translations."""

import collections
import dataclasses
from collections.abc import Container, Sequence
from typing import Protocol

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
    def kind(self) -> str:
        """What its segments have beside words, one of `text.tags.kinds.KINDS`."""

    @property
    def segments(self) -> Sequence[str]:
        """What is translated, one line each."""

    @property
    def report(self) -> Report:
        """What becomes of its texts; that of `translated` is final."""

    def translated(self, outputs: Sequence[str], doubtful: Container[int] | None = None) -> bytes:
        """Returns the document with the translations of its segments.

        Args:
            outputs: the translations.
            doubtful: the places of those that somebody should review, and no others; None: it is
                not known which.

        Raises:
            DataError: its encoding lacks a character of them.
        """
