"""Waits for what another process makes."""

import math
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

_POLL = 1.0  # seconds between two looks

_Found = TypeVar("_Found")


def arriving(
    find: Callable[[], _Found | None], minutes: float, has_ended: Callable[[], bool] = lambda: False
) -> Iterator[_Found]:
    """Yields what `find` finds, until it has found nothing for some minutes.

    Args:
        find: returns the next thing; None: there is none yet.
        minutes: how long to wait for the next one; below 0: for ever, as in T2T.
        has_ended: whether nothing more will come.
    """
    patience = math.inf if minutes < 0 else 60 * minutes
    since = time.monotonic()
    while True:
        # Asked first: the last thing may come between the two.
        is_last = has_ended()
        found = find()
        if found is not None:
            yield found
            since = time.monotonic()
        elif is_last or time.monotonic() - since >= patience:
            return
        else:
            time.sleep(min(_POLL, patience))
