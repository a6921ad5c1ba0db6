"""Bad input: raised as an error that names file and line or, at the user's choice, skipped.

Every reader takes a `BadInput` and calls it with each error. A skipped line still counts as a line,
so that parallel files stay aligned and brackets balanced. Its undecodable bytes become lone
surrogates (PEP 383), which no UTF-8 text contains, and the pair or tree that contains them is
dropped.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from t2t_lite.errors import DataError

log = logging.getLogger(__name__)

_T = TypeVar("_T")

# Number of bad lines that the log names per file or corpus; the others are only counted.
_NAMED = 10

_UNDECODABLE = re.compile("[\udc80-\udcff]")

# Placeholder for text that could not be read.
UNREADABLE = "\udc80"


class BadInput:
    """Policy for input that cannot be read.

    Args:
        skip: whether to log and count errors; if not, a call raises its error.

    Attributes:
        skipped: number of skipped lines, trees, segments, and ends of truncated files.
        cuts: number of truncated files.
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
            log.warning("more lines are skipped; from here on they are only counted")

    def cut(self, error: DataError) -> None:
        """Like a call, for a file of which the rest is lost."""
        self(error)
        self.cuts += 1

    def is_usable(self, *texts: str) -> bool:
        """Whether these texts contain nothing that was skipped."""
        return not (self.skip and any(map(_UNDECODABLE.search, texts)))

    def counted(self, items: Iterable[_T], name: str) -> Iterator[_T]:
        """Yields the items, then logs how many lines were skipped while they were read.

        Args:
            items: the results of a reader that uses this object.
            name: the name of the file or corpus, for the log.
        """
        self._skipped_before = before = self.skipped
        yield from items
        if self.skipped > before:
            log.warning("%s: skipped %d bad lines", name, self.skipped - before)


# The readers' default.
STRICT = BadInput()
