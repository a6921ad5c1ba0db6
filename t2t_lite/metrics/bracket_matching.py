"""Counts the brackets of two trees over the same words that match, and those that cross.

Both take near-linear time (times a logarithm), however deep the nesting.
"""

import bisect
import collections
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Bracket(NamedTuple):
    """A labelled span.

    Attributes:
        label: the phrase label.
        start: number of words before the span.
        end: number of words up to the end of the span.
    """

    label: str
    start: int
    end: int


def count_matched(
    right: Iterable[Bracket],
    guess: Iterable[Bracket],
    equals: Callable[[str], set[str]] | None,
) -> int:
    """Matches each gold bracket with the first free equal test bracket; counts the pairs.

    Args:
        right: the gold brackets, in order.
        guess: the test brackets, in order.
        equals: returns all labels equal to a label, itself included; None: labels are ignored.
    """
    # Indices of the free test brackets, in order, by span and label.
    free: dict[tuple[int, int, str], collections.deque[int]]
    free = collections.defaultdict(collections.deque)
    for number, (label, start, end) in enumerate(guess):
        free[start, end, label if equals else ""].append(number)
    count = 0
    for label, start, end in right:
        labels = equals(label) if equals else {""}
        found = [numbers for each in labels if (numbers := free.get((start, end, each)))]
        if found:
            min(found, key=lambda numbers: numbers[0]).popleft()
            count += 1
    return count


def count_crossing(right: Sequence[Bracket], guess: Sequence[Bracket], words: int) -> int:
    """Counts the test brackets that overlap a gold one without nesting; `words`: the sentence's."""
    after = _left_open(right, guess, words)
    before = _left_open(_mirrored(right, words), _mirrored(guess, words), words)
    return sum(map(operator.or_, after, before))


def _mirrored(brackets: Iterable[Bracket], words: int) -> list[Bracket]:
    return [Bracket(label, words - end, words - start) for label, start, end in brackets]


def _left_open(right: Sequence[Bracket], guess: Sequence[Bracket], words: int) -> list[bool]:
    """Returns for each test bracket whether a gold one begins inside it and ends after it.

    Visits test brackets by their ends and keeps a stack of gold starts whose ends decrease, so
    the first start inside a test bracket belongs to the gold bracket that ends last.
    """
    last_end = [0] * words  # by start
    for _, start, end in right:
        last_end[start] = max(last_end[start], end)
    starts: list[int] = []
    ends: list[int] = []
    found = [False] * len(guess)
    seen = 0
    for number in sorted(range(len(guess)), key=lambda number: guess[number].end):
        _, start, end = guess[number]
        for place in range(seen, end):
            while ends and ends[-1] <= last_end[place]:
                del starts[-1], ends[-1]
            starts.append(place)
            ends.append(last_end[place])
        seen = end
        first = bisect.bisect_right(starts, start)
        found[number] = first < len(ends) and ends[first] > end
    return found
