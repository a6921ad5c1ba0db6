"""Segments of text in marked-up files: SGM test sets, TMX memories and TSV tables.

All readers take lines and yield as they go; a line break inside a segment becomes a space.
"""

import html
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast
from xml.etree import ElementTree

from t2t_lite.data.bad_input import STRICT, UNREADABLE, BadInput
from t2t_lite.errors import DataError

Pair = tuple[str, str]

_SEG = re.compile(r"<seg\b[^>]*>(.*?)</seg\s*>", re.DOTALL | re.IGNORECASE)
_SEG_START = re.compile(r"<seg\b[^>]*>?", re.IGNORECASE)
# With its semicolon: WMT's files are no valid SGML, and `&` often stands for itself.
_ENTITY = re.compile(r"&#?\w+;")
_LINE_BREAK = re.compile(r"[ \t\r]*\n[ \t\r\n]*")
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# TMX 1.4b: their contents are codes of a word processor, not text.
_TMX_CODES = {"bpt", "ept", "it", "ph", "ut"}


def sgm_segments(lines: Iterable[str], name: str, bad: BadInput = STRICT) -> Iterator[str]:
    """Yields the contents of the `<seg>` elements in their order, entities decoded.

    WMT's sources and references alike; documents follow each other as in the file.

    Args:
        lines: of the file.
        name: of the file, for messages.
        bad: told of every segment that does not end before the next one begins, or before the
            file ends; if it skips, such a segment is `UNREADABLE`.

    Raises:
        DataError: what `bad` is told, with file and line.
    """
    pending, start = "", 0
    for number, line in enumerate(lines, 1):
        if not pending:
            start = number
        pending += line + "\n"
        end = 0
        for match in _SEG.finditer(pending):
            *unclosed, text = _SEG_START.split(match[1])
            yield from _unclosed(len(unclosed), name, start, bad)
            yield _one_line(_ENTITY.sub(lambda entity: html.unescape(entity[0]), text))
            end = match.end()
        opened = _SEG_START.search(pending, end)
        if opened and end:
            start = number
        pending = pending[opened.start() :] if opened else ""
    yield from _unclosed(len(_SEG_START.findall(pending)), name, start, bad)


def tmx_pairs(
    lines: Iterable[bytes], name: str, languages: Pair, bad: BadInput = STRICT
) -> Iterator[Pair]:
    """Yields the segments of two languages of every translation unit of a TMX file.

    Args:
        lines: of the file, raw: XML names its own encoding.
        name: of the file, for messages.
        languages: of the sources and of the targets; "en" also takes "en-GB" or "EN_US".
        bad: told where the file stops being well-formed; if it skips, the units up to there are
            all, as no parser can tell what those behind are part of.

    Yields:
        Source and target; "" for a language that the unit lacks.

    Raises:
        DataError: what `bad` is told, with file and line.
    """
    parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(["start", "end"])
    body: ElementTree.Element | None = None
    try:
        for line in lines:
            parser.feed(line)
            events = cast(Iterator[tuple[str, ElementTree.Element]], parser.read_events())
            for event, element in events:
                if event == "start" and element.tag == "body":
                    body = element
                elif event == "end" and element.tag == "tu":
                    yield _variant(element, languages[0]), _variant(element, languages[1])
                    if body is not None:
                        body.clear()  # else all units would stay in memory
        parser.close()
    except ElementTree.ParseError as error:
        line_number = error.position[0]
        bad.cut(DataError(f"{name}, line {line_number}: not well-formed XML ({error})"))


def tsv_pairs(
    lines: Iterable[str], name: str, columns: tuple[int, int], bad: BadInput = STRICT
) -> Iterator[Pair]:
    """Yields two columns of every line of a table.

    Args:
        lines: of the file; tabs separate the columns.
        name: of the file, for messages.
        columns: of the sources and of the targets, counted from 0.
        bad: told of every line that has too few columns; if it skips, there is no such pair.

    Yields:
        Source and target; both "" for a blank line.

    Raises:
        DataError: what `bad` is told, with file and line.
    """
    needed = max(columns) + 1
    for number, line in enumerate(lines, 1):
        if not bad.is_usable(line):
            continue  # counted when it was decoded
        cells = line.split("\t")
        if not line.strip():
            yield "", ""
        elif len(cells) < needed:
            bad(DataError(f"{name}, line {number}: {len(cells)} columns; at least {needed} needed"))
        else:
            yield cells[columns[0]], cells[columns[1]]


def _variant(unit: ElementTree.Element, language: str) -> str:
    """Returns the text of a translation unit in a language, "" if it has none."""
    for variant in unit.iterfind("tuv"):
        found = (variant.get(_XML_LANG) or variant.get("lang") or "").lower().replace("_", "-")
        segment = variant.find("seg")
        if segment is not None and f"{found}-".startswith(f"{language.lower()}-"):
            return _one_line("".join(_texts(segment)))
    return ""


def _texts(element: ElementTree.Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if child.tag not in _TMX_CODES:
            yield from _texts(child)
        yield child.tail or ""


def _one_line(text: str) -> str:
    return _LINE_BREAK.sub(" ", text).strip()


def _unclosed(count: int, name: str, line: int, bad: BadInput) -> Iterator[str]:
    for _ in range(count):
        bad(DataError(f"{name}, line {line}: <seg> without </seg>"))
        yield UNREADABLE
