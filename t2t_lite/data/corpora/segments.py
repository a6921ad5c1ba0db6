"""Text segments in lines: SGM test sets and TSV tables.

The readers stream, in time linear in the size of the file even if it is malformed; a line break
inside a segment becomes a space.
"""

import html
import re
from collections.abc import Iterable, Iterator

from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import STRICT, UNREADABLE, BadInput
from t2t_lite.text.text_files import MAX_LINE_BYTES

Pair = tuple[str, str]

_SEG_START = re.compile(r"<seg\b", re.IGNORECASE)
_SEG_MARK = re.compile(r"<seg\b|</seg\s*(?:>|\Z)", re.IGNORECASE)
# The semicolon is required: WMT's files are not valid SGML, and often contain a literal `&`. The
# longest name of an entity has 31 letters.
_ENTITY = re.compile(r"&#?\w{1,31};")

# Characters of the longest segment.
MAX_SEGMENT = MAX_LINE_BYTES


def sgm_segments(lines: Iterable[str], name: str, bad: BadInput = STRICT) -> Iterator[str]:
    """Yields the contents of the `<seg>` elements in file order, entities decoded.

    Reads WMT's sources and references alike.

    Args:
        lines: lines of the file.
        name: the file's name, for messages.
        bad: receives segments that are not closed before the next one, the end of the file or the
            greatest length; if it skips, such a segment is yielded as `UNREADABLE`.

    Raises:
        DataError: an error that `bad` does not skip; names file and line.
    """
    open_segment: _SgmSegment | None = None
    for number, line in enumerate(lines, 1):
        place = 0
        line += "\n"
        while place < len(line):
            if open_segment is None:
                start = _SEG_START.search(line, place)
                if start is None:
                    break
                open_segment, place = _SgmSegment(number), start.end()
            elif not open_segment.has_text:  # within <seg ...>, which may span several lines
                end = line.find(">", place)
                open_segment.has_text = end >= 0
                place = end + 1 or len(line)
            else:
                mark = _SEG_MARK.search(line, place)
                open_segment.add(line[place : mark.start() if mark else None])
                if mark is not None and mark[0].startswith("</"):
                    yield open_segment.text()
                    open_segment = None
                elif mark is not None or open_segment.length > MAX_SEGMENT:
                    yield _unclosed(open_segment, name, bad)
                    open_segment = _SgmSegment(number) if mark else None
                place = mark.end() if mark else len(line)
    if open_segment is not None:
        yield _unclosed(open_segment, name, bad)


class _SgmSegment:
    """An open `<seg>`.

    Attributes:
        line: number of the line where it begins.
        has_text: whether its start tag is complete.
        length: characters so far.
    """

    def __init__(self, line: int) -> None:
        self.line = line
        self.has_text = False
        self.length = 0
        self._parts: list[str] = []

    def add(self, part: str) -> None:
        self._parts.append(part)
        self.length += len(part)

    def text(self) -> str:
        """Returns the contents on one line, entities decoded."""
        text = "".join(self._parts)
        return one_line(_ENTITY.sub(lambda entity: html.unescape(entity[0]), text))


def _unclosed(segment: _SgmSegment, name: str, bad: BadInput) -> str:
    bad(DataError(f"{name}, line {segment.line}: <seg> without </seg>"))
    return UNREADABLE


def tsv_pairs(
    lines: Iterable[str], name: str, columns: tuple[int, int], bad: BadInput = STRICT
) -> Iterator[Pair]:
    """Yields two columns of every line of a table.

    Args:
        lines: lines of the file, with columns separated by tabs.
        name: the file's name, for messages.
        columns: of the sources and of the targets, counted from 0.
        bad: receives lines with too few columns; if it skips, they yield no pair.

    Yields:
        Source and target; both "" for a blank line.

    Raises:
        DataError: an error that `bad` does not skip; names file and line.
    """
    needed = max(columns) + 1
    for number, line in enumerate(lines, 1):
        if not bad.is_usable(line):
            continue  # counted when it was decoded
        cells = line.split("\t", needed)  # the rest is not used
        if not line.strip():
            yield "", ""
        elif len(cells) < needed:
            bad(DataError(f"{name}, line {number}: {len(cells)} columns; at least {needed} needed"))
        else:
            yield cells[columns[0]], cells[columns[1]]


def one_line(text: str) -> str:
    """Joins non-empty lines with single spaces."""
    return " ".join(filter(None, (line.strip(" \t\r") for line in text.split("\n")))).strip()
