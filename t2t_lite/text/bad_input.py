"""Bad input: an error that names file and line or, where the user chose so, skipped and counted.

Every reader takes a `BadInput` and calls it with what is wrong. A line that is skipped is not left
out where lines are counted: a parallel file or a bracket would slip. Its undecodable bytes become
lone surrogates instead (PEP 383), which no UTF-8 text can hold, and whatever that text becomes a
part of, a pair or a tree, is left out as a whole.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from t2t_lite.errors import DataError

log = logging.getLogger(__name__)

_T = TypeVar("_T")

# Of each file or corpus, so many lines are named in the log; the others are only counted.
_NAMED = 10

_UNDECODABLE = re.compile("[\udc80-\udcff]")

# Stands where text is expected and none could be read.
UNREADABLE = "\udc80"


class BadInput:
    """Decides about input that cannot be read.

    Args:
        skip: whether to log, count and go on; else a call raises its error.

    Attributes:
        skipped: how much was skipped: lines, trees, segments, and files after their cut.
        cuts: how many files ended early.
    """

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip
        self.skipped = 0
        self.cuts = 0
        self._skipped_before = 0

    def __call__(self, error: DataError) -> None:
        """Raises the error, or logs and counts it."""
        if not self.skip:
            raise error from None
        self.skipped += 1
        number = self.skipped - self._skipped_before
        if number <= _NAMED:
            log.warning("skipped: %s", error)
        elif number == _NAMED + 1:
            log.warning("more is skipped; from here on it is only counted")

    def cut(self, error: DataError) -> None:
        """The same for a file of which the rest is lost."""
        self(error)
        self.cuts += 1

    def is_usable(self, *texts: str) -> bool:
        """Whether nothing that was skipped is in these texts."""
        return not (self.skip and any(map(_UNDECODABLE.search, texts)))

    def counted(self, items: Iterable[_T], name: str) -> Iterator[_T]:
        """Yields the items; then the log says how much was skipped while they were read.

        Args:
            items: what a reader to which this object was given yields.
            name: of the file or corpus, for the log.
        """
        self._skipped_before = before = self.skipped
        yield from items
        if self.skipped > before:
            log.warning("%s: skipped %d bad lines", name, self.skipped - before)


# The readers' default.
STRICT = BadInput()
