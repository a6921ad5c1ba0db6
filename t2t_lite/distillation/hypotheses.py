"""Reads what a teacher wrote: one output for each source, or several."""

import itertools
import re
from collections.abc import Iterable, Iterator

from t2t_lite.errors import DataError, quoted
from t2t_lite.text.text_files import iterate_lines

_NUMBERED = re.compile(r"\d+ \|\|\| ")
_SEPARATOR = " ||| "


def read_hypotheses(path: str) -> Iterator[list[str]]:
    """Yields the hypotheses of each source, best first.

    Args:
        path: a file of lines, one for each source, with tabs between hypotheses; or, if its first
            line starts so, an n-best list, `NUMBER ||| TEXT ||| ... ||| SCORE`, numbered from 0,
            in which a number without a line stands for a source without an output.

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
        yield from _numbered(lines, path)
    else:
        for line in lines:
            yield [text.strip() for text in line.split("\t")]


def _numbered(lines: Iterable[str], path: str) -> Iterator[list[str]]:
    """Yields the hypotheses of an n-best list."""
    parsed = (_parsed(line, f"{path}, line {n}") for n, line in enumerate(lines, 1))
    expected = 0
    for number, group in itertools.groupby(parsed, key=lambda entry: entry[0]):
        entries = list(group)
        if number < expected:
            raise DataError(
                f"{entries[0][3]}: number {number} after {expected - 1}: the entries of an n-best "
                "list must be in the order of the sources"
            )
        yield from ([] for _ in range(expected, number))
        yield [text for _, text, _, _ in sorted(entries, key=lambda entry: -entry[2])]
        expected = number + 1


def _parsed(line: str, place: str) -> tuple[int, str, float, str]:
    """Returns number, text and score of an entry, and its place."""
    fields = line.split(_SEPARATOR)
    try:
        number, text, score = int(fields[0]), fields[1].strip(), float(fields[2:][-1])
    except (ValueError, IndexError):
        raise DataError(
            f"{place}: expected NUMBER ||| TEXT ||| ... ||| SCORE, as in the first line; got "
            f"{quoted(line)}"
        ) from None
    return number, text, score, place
