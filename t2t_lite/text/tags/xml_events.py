"""What an XML file consists of, with the text of each part as it stands there."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from xml.parsers import expat

from t2t_lite.errors import DataError

# The kinds of events. What is none of the others is a comment, a declaration and the like.
OPEN, CLOSE, TEXT, CDATA, OTHER = range(5)
XML_SPACE = "http://www.w3.org/XML/1998/namespace space"


class Event(NamedTuple):
    """A part of a file.

    Attributes:
        kind: one of the above; `CDATA` begins and ends a section.
        start: where it begins in the file's text.
        raw: its text there.
        name: of a tag, its local name.
        namespace: of a tag.
        attributes: of a start tag; those with a prefix have their namespace and a space before.
        text: what a `TEXT` reads.
    """

    kind: int
    start: int
    raw: str
    name: str = ""
    namespace: str = ""
    attributes: Mapping[str, str] = {}
    text: str = ""

    @property
    def end(self) -> int:
        """Where it ends in the file's text."""
        return self.start + len(self.raw)

    @property
    def prefix(self) -> str:
        """What stands before the name of a start tag."""
        return re.match(r"<([^\s/>]*:)?", self.raw)[1] or ""  # type: ignore[index]


def events(text: str) -> list[Event]:
    """Returns all parts of an XML file in order.

    Raises:
        DataError: it is not well-formed XML; the message names the line.
    """
    # An encoding that the file declares counts no longer.
    parser = expat.ParserCreate("utf-8", namespace_separator=" ")
    found: list[tuple[int, int, str, Mapping[str, str], str]] = []

    def add(kind: int, name: str = "", given: Mapping[str, str] = {}, text: str = "") -> None:
        found.append((parser.CurrentByteIndex, kind, name, given, text))

    parser.StartElementHandler = lambda name, given: add(OPEN, name, given)
    parser.EndElementHandler = lambda name: add(CLOSE, name)
    parser.CharacterDataHandler = lambda text: add(TEXT, text=text)
    parser.StartCdataSectionHandler = parser.EndCdataSectionHandler = lambda: add(CDATA)
    parser.DefaultHandler = lambda data: add(OTHER)
    written = text.encode()
    try:
        parser.Parse(written, True)
    except expat.ExpatError as error:
        raise DataError(f"not well-formed XML: {error}") from None
    result, start = [], 0
    ends = [*(place for place, *_ in found[1:]), len(written)]
    for (place, kind, name, given, read), end in zip(found, ends, strict=True):
        raw = written[place:end].decode()
        namespace, _, local = name.rpartition(" ")
        result.append(Event(kind, start, raw, local, namespace, given, read))
        start += len(raw)
    return result


def end_of(parts: Sequence[Event], place: int) -> int:
    """Returns the place after the end tag of the element that begins at a place."""
    depth = 0
    while True:
        depth += {OPEN: 1, CLOSE: -1}.get(parts[place].kind, 0)
        place += 1
        if not depth:
            return place


def with_attributes(tag: str, given: Mapping[str, str | None]) -> str:
    """Returns a start tag with some attributes, whose values need no escapes; None: without it."""
    for name, value in given.items():
        end = re.search(r"\s*/?>\Z", tag)
        assert end, "a start tag ends so"
        old = re.search(rf"""(\s+){name}\s*=\s*(?:"[^"]*"|'[^']*')""", tag)
        start, after, space = (*old.span(), old[1]) if old else (end.start(), end.start(), " ")
        new = "" if value is None else f'{space}{name}="{value}"'
        tag = f"{tag[:start]}{new}{tag[after:]}"
    return tag
