"""Brackets over the words of a sentence, two sides compared: which agree, and which cross.

Both take time linear in the brackets but for a logarithm, however deep they are nested.
"""

import bisect
import collections
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Bracket(NamedTuple):
    """A labelled span.

    Attributes:
        label: of the phrase.
        start: number of words before it.
        end: number of words before what follows it.
    """

    label: str
    start: int
    end: int


def matched(
    right: Iterable[Bracket],
    guess: Iterable[Bracket],
    equals: Callable[[str], set[str]] | None,
) -> int:
    """Gives each gold bracket the first test bracket like it that is still free; counts these.

    Args:
        right: the gold brackets, in order.
        guess: the test brackets, in order.
        equals: returns the labels that count as the same as a label, that included; None: all do.
    """
    # By span and label, the numbers of the free test brackets, in order.
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


def crossing(right: Sequence[Bracket], guess: Sequence[Bracket], words: int) -> int:
    """Counts the test brackets that overlap a gold one without nesting, among so many words."""
    behind = _left_open(right, guess, words)
    before = _left_open(_mirrored(right, words), _mirrored(guess, words), words)
    return sum(map(operator.or_, behind, before))


def _mirrored(brackets: Iterable[Bracket], words: int) -> list[Bracket]:
    return [Bracket(label, words - end, words - start) for label, start, end in brackets]


def _left_open(right: Sequence[Bracket], guess: Sequence[Bracket], words: int) -> list[bool]:
    """Tells of each test bracket whether a gold one begins inside it and ends behind it.

    For one end after the other it keeps those beginnings of gold brackets before which none
    ends later, with their ends: the first one inside a test bracket is the one that ends last.
    """
    last_end = [0] * words  # by the beginning
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
