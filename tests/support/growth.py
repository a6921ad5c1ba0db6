"""How time and memory grow with what a function is given."""

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

# tracemalloc makes work slow, and shows squares on smaller inputs, too.
_SHARE_FOR_TIME, _SHARE_FOR_MEMORY = 2, 8

# By how much ten times as much may cost more: n log n and noise, but not n squared.
_MOST_SECONDS, _MOST_BYTES = 20, 30
# What is less than this is noise; a regular expression takes 1 MiB of stack at once.
_LEAST_SECONDS, _LEAST_BYTES = 7.5e-4, 40_000


def assert_grows_gently(make: Callable[[int], Any], work: Callable[[Any], object], n: int) -> None:
    """Checks that ten times as much costs at most about ten times as much.

    Args:
        make: makes an input of a size.
        work: what is measured; its second call on an input must not be faster than the first.
        n: the smaller size. Time is measured at n / 2 and 5n, memory at n / 8 and 10n / 8.
    """
    small, large = (make(size // _SHARE_FOR_TIME) for size in (n, 10 * n))
    work(make(n // 10))  # what happens once
    for _ in range(3):  # a machine's speed may change between two measurements
        seconds = min(_seconds(work, small) for _ in range(2))
        longer = _seconds(work, large)
        if longer <= _MOST_SECONDS * max(seconds, _LEAST_SECONDS):
            break
    else:
        pytest.fail(f"seconds: {seconds} and {longer}")
    peaks = [_peak(work, make(size // _SHARE_FOR_MEMORY)) for size in (n, 10 * n)]
    assert peaks[1] <= _MOST_BYTES * max(peaks[0], _LEAST_BYTES), f"bytes: {peaks}"


def _seconds(work: Callable[[Any], object], x: Any) -> float:
    start = time.thread_time()  # other programs do not count
    work(x)
    return time.thread_time() - start


def _peak(work: Callable[[Any], object], x: Any) -> int:
    tracemalloc.start()
    try:
        work(x)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
