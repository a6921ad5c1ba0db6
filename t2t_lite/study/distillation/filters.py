"""Drops outputs that repeat themselves, and pairs of an odd length.

A pair is dropped by the first of these rules that it breaks:

    empty     a side has no text
    repeated  a sequence of words, of any length, stands three times or more in a row in the output,
              and more often than any sequence does in its source; punctuation does not count, and
              a character of Chinese, Japanese, Thai, Lao, Khmer or Burmese is a word
    length    the length of the target over that of the source, in characters, is outside the range
              that holds the middle 99 % of the problem's own training pairs
"""

import array
import collections
from collections.abc import Sequence

import numpy as np
import regex

EMPTY, REPEATED, LENGTH = "empty", "repeated", "length"

_LOOP = 3  # times in a row
_OUTSIDE = 0.005  # share of the references below the range, and above it

_UNSPACED = "".join(
    rf"\p{{Script={name}}}"
    for name in ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
)
_WORD = regex.compile(rf"[{_UNSPACED}]|[\w--[{_UNSPACED}]]+", regex.V1)


class LengthRatios:
    """The ratios of the lengths of pairs, target over source, in characters."""

    def __init__(self) -> None:
        self._ratios = array.array("f")

    def add(self, source: str, target: str) -> None:
        """Adds a pair; one with an empty side is passed over."""
        if source and target:
            self._ratios.append(length_ratio(source, target))

    def middle(self) -> tuple[float, float]:
        """Returns the range of the middle 99 %; without any pair, all ratios."""
        if not self._ratios:
            return 0.0, float("inf")
        ratios = np.asarray(self._ratios)
        low = np.quantile(ratios, _OUTSIDE, method="lower")
        return float(low), float(np.quantile(ratios, 1 - _OUTSIDE, method="higher"))


class PairFilter:
    """Applies the rules of the module to a sequence of pairs, and counts.

    Args:
        ratios: the range of lengths.
        back: whether the teacher wrote the sources; else it wrote the targets.

    Attributes:
        kept: number of pairs that broke no rule.
        dropped: number of pairs that broke each rule.
    """

    def __init__(self, ratios: tuple[float, float], back: bool = False) -> None:
        self.kept = 0
        self.dropped = collections.Counter({EMPTY: 0, REPEATED: 0, LENGTH: 0})
        self._low, self._high = ratios
        self._back = back

    def keeps(self, source: str, target: str) -> bool:
        """Returns whether a pair breaks no rule."""
        rule = self._broken_rule(source, target)
        if rule:
            self.dropped[rule] += 1
        else:
            self.kept += 1
        return not rule

    def _broken_rule(self, source: str, target: str) -> str:
        if not (source and target):
            return EMPTY
        written, read = (source, target) if self._back else (target, source)
        if repeats_itself(written, read):
            return REPEATED
        # As the references' ratios, which are in single precision: equal lengths are equal.
        if not self._low <= np.float32(length_ratio(source, target)) <= self._high:
            return LENGTH
        return ""

    def __str__(self) -> str:
        seen = self.kept + self.dropped.total()
        counts = ", ".join(f"{rule} {count:,}" for rule, count in self.dropped.items())
        share = f" ({self.kept / seen:.1%})" if seen else ""
        return f"kept {self.kept:,} of {seen:,} outputs{share}; dropped: {counts}"


def length_ratio(source: str, target: str) -> float:
    """Returns the length of the target over that of the source, in characters."""
    return len(target) / len(source)


def repeats_itself(output: str, source: str) -> bool:
    """Whether words of an output stand in a row as they do not in its source."""
    words = _words(output)
    if max(collections.Counter(words).values(), default=0) < _LOOP:
        return False  # as nearly all
    times = _times_in_a_row(words)
    return times >= _LOOP and times > _times_in_a_row(_words(source))


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _times_in_a_row(words: Sequence[str]) -> int:
    """Returns how often, at most, a sequence of words follows itself without a gap.

    What follows itself less than `_LOOP` times counts as once.
    """
    numbers: dict[str, int] = {}
    ids = np.array([numbers.setdefault(word, len(numbers)) for word in words], np.int32)
    most = 1
    for size in range(1, len(words) // _LOOP + 1):
        more = max(most + 1, _LOOP)
        if size * more > len(words):
            break  # neither this nor a longer sequence has room
        # A sequence of `size` words stands n times where size * (n - 1) words equal those that
        # come `size` places later.
        equal = ids[:-size] == ids[size:]
        if np.count_nonzero(equal) >= size * (more - 1):
            times = 1 + _longest_run(equal) // size
            most = times if times >= more else most
    return most


def _longest_run(equal: np.ndarray) -> int:
    """Returns the length of the longest run of True."""
    edges = np.flatnonzero(np.diff(equal, prepend=False, append=False))
    return int((edges[1::2] - edges[::2]).max(initial=0))
