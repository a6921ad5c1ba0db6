"""Reads what a teacher wrote: one output for each source, or several."""

import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.text_files import iterate_lines

_BAR = " |||"  # begins each field but the first
_NUMBERED = re.compile(r"\d+ \|\|\| ")
_NUMBER = r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|[-+]?(nan|inf|infinity)"

# What fields between text and score consist of: names and numbers, as "LM0= -3 -2.5", "lm: -3" or
# "lm=-3"; links, as "0-0 2-1" or "0=0"; numbers with commas between, Marian's soft alignment.
_FIELD_TOKEN = re.compile(rf"\S+[=:]|(\S+=)?({_NUMBER})|\d[\d.,e+-]*", re.IGNORECASE)


class _Entry(NamedTuple):
    """A line of an n-best list."""

    number: int  # of its source, from 0
    text: str
    score: float
    place: str  # for messages

    def rank(self) -> float:
        """Orders the entries of a source, the best first."""
        return -self.score if math.isfinite(self.score) else math.inf


def read_hypotheses(path: str) -> Iterator[list[str]]:
    """Yields the different hypotheses of each source, best first.

    Args:
        path: a file of lines, one for each source, with tabs between hypotheses; or, if its first
            line starts so, an n-best list, `NUMBER ||| TEXT ||| ... ||| SCORE`, numbered from 0,
            in which a number without a line stands for a source without an output. Between text and
            score are fields of numbers or links, as many in each line as in the first; all before
            them is text. A score that is not finite comes after all others.

    Raises:
        UserError: the file does not exist.
        DataError: it is not text, or a line of an n-best list is malformed.
    """
    lines = iterate_lines(path)
    first = next(lines, None)
    if first is None:
        return
    lines = itertools.chain([first], lines)
    if _NUMBERED.match(first):
        each = _numbered(lines, path)
    else:
        each = ([text.strip() for text in line.split("\t")] for line in lines)
    yield from (list(dict.fromkeys(texts)) for texts in each)


def _numbered(lines: Iterator[str], path: str) -> Iterator[list[str]]:
    """Yields the hypotheses of an n-best list."""
    first = next(lines)
    between = _fields_between(first)
    parsed = (
        _parsed(line, between, f"{path}, line {n}")
        for n, line in enumerate(itertools.chain([first], lines), 1)
    )
    expected = 0
    for number, group in itertools.groupby(parsed, key=lambda entry: entry.number):
        entries = list(group)
        if number < expected:
            raise DataError(
                f"{entries[0].place}: number {number} after {expected - 1}: the entries of an "
                "n-best list must be in the order of the sources"
            )
        yield from ([] for _ in range(expected, number))
        yield [entry.text for entry in sorted(entries, key=_Entry.rank)]
        expected = number + 1


def _fields_between(line: str) -> int:
    """Returns how many fields an entry has between its text and its score."""
    found = 0
    for field in line.split(_BAR)[-2:1:-1]:  # from the last one before the score
        if not all(map(_FIELD_TOKEN.fullmatch, field.split())):
            break
        found += 1
    return found


def _parsed(line: str, between: int, place: str) -> _Entry:
    """Returns an entry that has so many fields between its text and its score."""
    number, *fields = line.split(_BAR)
    end = len(fields) - 1 - between
    try:
        if end < 1 or _fields_between(line) < between:
            raise ValueError
        entry = _Entry(int(number), _BAR.join(fields[:end]).strip(), float(fields[-1]), place)
    except (ValueError, IndexError):
        raise DataError(
            f"{place}: expected NUMBER ||| TEXT ||| ... ||| SCORE with the fields of the first "
            f"line; got {quoted(line)}"
        ) from None
    return entry
