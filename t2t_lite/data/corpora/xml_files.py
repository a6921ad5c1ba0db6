"""Text segments in XML: test sets, and translation memories (TMX).

All readers stream, in bounded memory, and in time linear in the size of the file even if it is
malformed.
"""

import abc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from xml.etree import ElementTree

from t2t_lite.data.corpora.segments import MAX_SEGMENT, Pair, one_line
from t2t_lite.data.corpora.tmx_recovery import Recovery
from t2t_lite.errors import DataError
from t2t_lite.text.bad_input import STRICT, BadInput

_MAX_MARKUP = 2**20  # bytes of the longest tag or comment
_MAX_DEPTH = 10_000  # greatest nesting depth of elements in a translation memory
_XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
# TMX 1.4b: elements that contain codes of a word processor, not text.
_TMX_CODES = {"bpt", "ept", "it", "ph", "ut"}


def tmx_pairs(
    pieces: Iterable[bytes], name: str, languages: Pair, bad: BadInput = STRICT
) -> Iterator[Pair]:
    """Yields the segments of two languages of every translation unit of a TMX file.

    Args:
        pieces: raw pieces of the file: XML declares its own encoding and needs no line breaks.
        name: the file's name, for messages.
        languages: of the sources and of the targets; "en" also matches "en-GB" and "EN_US".
        bad: receives the error of each unit that is not well-formed; if it skips, the other units
            are read.

    Yields:
        Source and target; "" for a language that the unit lacks.

    Raises:
        DataError: an error that `bad` does not skip; names file and line.
    """
    if bad.skip:

        def open_reader(line: int) -> _XmlReader:
            return _XmlReader(_TmxUnits(languages), name, line)

        return Recovery(pieces, open_reader, bad).units()
    return _parsed(pieces, name, _TmxUnits(languages), bad)


def xml_pairs(pieces: Iterable[bytes], name: str, bad: BadInput = STRICT) -> Iterator[Pair]:
    """Yields the segments of a test set in XML, as WMT publishes them since 2021.

    A `<doc>` has segments in `<src>`, in `<ref>`, or in both; they belong together if they have the
    same id there. Only the first `<ref>` of a document is read, and no `<hyp>`.

    Args:
        pieces: as for `tmx_pairs`.
        name: the file's name, for messages.
        bad: receives the first error in the XML; if it skips, the segments end there, since a
            parser cannot recover the structure after an error.

    Yields:
        Source and reference; "" for one that the document lacks.

    Raises:
        DataError: an error that `bad` does not skip; names file and line.
    """
    return _parsed(pieces, name, _XmlSegments(), bad)


def xml_segments(pieces: Iterable[bytes], name: str, bad: BadInput = STRICT) -> Iterator[str]:
    """Yields the segments of an XML file of sources, or of references; arguments as in `xml_pairs`.

    Raises:
        DataError: as in `xml_pairs`, or the file has both.
    """
    for source, reference in xml_pairs(pieces, name, bad):
        if source and reference:
            raise DataError(
                f"{name}: has sources and references; give it as the inputs and as the targets of "
                "the corpus"
            )
        yield source or reference


def _parsed(
    pieces: Iterable[bytes], name: str, target: "_XmlTarget", bad: BadInput
) -> Iterator[Pair]:
    """Yields what a target collects; arguments and errors as in `xml_pairs`."""
    reader = _XmlReader(target, name)
    try:
        for piece in pieces:
            reader.feed(piece)
            yield from reader.take()
        reader.close()
    except _MalformedError as error:
        yield from reader.take()
        bad.cut(error)


class _MalformedError(DataError):
    """A file is not XML, or cannot be read in bounded memory."""


class _XmlReader:
    """Parses a file piece by piece.

    Args:
        target: collects its pairs.
        name: the file's name, for messages.
        line: number of the first line of the first piece.
    """

    def __init__(self, target: "_XmlTarget", name: str, line: int = 1) -> None:
        self._parser = ElementTree.XMLParser(target=target)
        self._target = target
        self._name = name
        self._first = self._line = line
        self.take = target.take

    @property
    def is_within_unit(self) -> bool:
        """Whether an element `<tu>` is open."""
        return self._target.is_within("tu")

    def feed(self, piece: bytes) -> None:
        """Parses a piece.

        Raises:
            _MalformedError: there is an error; the message names file and line.
        """
        self._run(self._parser.feed, piece)
        self._line += piece.count(b"\n")
        try:
            self._target.check_size(len(piece))
        except _XmlError as error:
            raise self._after(error) from None

    def close(self) -> None:
        """Ends the file.

        Raises:
            _MalformedError: it is not complete.
        """
        self._run(self._parser.close)

    def _run(self, parse: Callable[..., Any], *arguments: bytes) -> None:
        try:
            parse(*arguments)
        except ElementTree.ParseError as error:
            line, column = error.position
            place = f"{self._name}, line {self._first + line - 1}"
            what = str(error).rpartition(": line ")[0]
            raise _MalformedError(
                f"{place}: not well-formed XML ({what}, column {column + 1})"
            ) from None
        except (ValueError, LookupError) as error:  # in its encoding
            raise _MalformedError(
                f"{self._name}, line {self._line}: not well-formed XML ({error})"
            ) from None
        except _XmlError as error:
            raise self._after(error) from None

    def _after(self, error: Exception) -> _MalformedError:
        """Returns the error of something in the piece that begins here."""
        return _MalformedError(f"{self._name}, after line {self._line - 1}: {error}")


def _without_namespace(tag: str) -> str:
    """Returns the name of an element: some tools write TMX's own namespace."""
    return tag.rpartition("}")[2]


class _XmlError(Exception):
    """Well-formed XML that cannot be read in bounded memory."""


class _XmlTarget(abc.ABC):
    """Target of the XML parser that collects pairs from the text of elements."""

    def __init__(self) -> None:
        self._done: list[Pair] = []
        self._path: list[str] = []  # tags of the open elements
        self._segment: list[str] | None = None  # text of the open <seg> so far
        self._unread = 0  # bytes fed since the last event
        self._length = 0

    def take(self) -> list[Pair]:
        """Returns the pairs completed since the last call."""
        done, self._done = self._done, []
        return done

    def check_size(self, fed: int) -> None:
        """Counts the bytes fed; raises _XmlError if a tag, comment or segment is too long."""
        self._unread += fed
        if self._unread > _MAX_MARKUP:
            raise _XmlError(f"a tag or comment of more than {_MAX_MARKUP:,} bytes")
        if self._length > MAX_SEGMENT:
            raise _XmlError(f"a segment of more than {MAX_SEGMENT:,} characters")

    def is_within(self, tag: str) -> bool:
        """Whether an element is open."""
        return tag in self._path

    def comment(self, _text: str) -> None:
        """Handles the end of a comment."""
        self._unread = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handles the start of an element."""
        self._unread = 0
        if len(self._path) >= _MAX_DEPTH:
            raise _XmlError(f"elements nested more than {_MAX_DEPTH:,} deep")
        tag = _without_namespace(tag)
        self.begun(tag, attributes)
        self._path.append(tag)

    def end(self, _: str) -> None:
        """Handles the end of an element."""
        self._unread = 0
        self.ended(self._path.pop())

    def data(self, text: str) -> None:
        """Handles text, or a part of it."""
        self._unread = 0
        if self._segment is not None and self.has_text():
            self._segment.append(text)
            self._length += len(text)

    @abc.abstractmethod
    def begun(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handles the start of an element within `_path`."""

    @abc.abstractmethod
    def ended(self, tag: str) -> None:
        """Handles the end of an element that was within `_path`."""

    def has_text(self) -> bool:
        """Whether the text here belongs to the open segment."""
        return True

    def _segment_text(self) -> str:
        """Closes the open segment; returns its text on one line."""
        text = "".join(self._segment or ())
        self._segment, self._length = None, 0
        return one_line(text)


class _TmxUnits(_XmlTarget):
    """Collects translation units, in memory for one unit.

    Args:
        languages: of the sources and of the targets.
    """

    def __init__(self, languages: Pair) -> None:
        super().__init__()
        self._wanted = [f"{language.lower().replace('_', '-')}-" for language in languages]
        self._unit: list[str | None] = [None, None]
        self._variant = ""  # the language of the <tuv>, followed by "-"
        self._codes = 0  # open elements within the segment that contain codes, not text

    def begun(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handles the start of an element."""
        parent = self._path[-1] if self._path else ""
        if self._segment is not None:
            self._codes += bool(self._codes) or tag in _TMX_CODES
        elif tag == "tu":
            self._unit = [None, None]
        elif (parent, tag) == ("tu", "tuv"):
            language = attributes.get(_XML_LANG) or attributes.get("lang") or ""
            self._variant = f"{language.lower().replace('_', '-')}-"
        elif (parent, tag) == ("tuv", "seg") and self._variant:
            self._segment = []

    def ended(self, tag: str) -> None:
        """Handles the end of an element."""
        if self._codes:
            self._codes -= 1
        elif self._segment is not None and tag == "seg" and self._path[-1] == "tuv":
            self._end_segment(self._segment_text())
        elif self._segment is None and tag == "tu":
            source, target = (text or "" for text in self._unit)
            self._done.append((source, target))

    def has_text(self) -> bool:
        """Whether no element of codes is open."""
        return not self._codes

    def _end_segment(self, text: str) -> None:
        for side, wanted in enumerate(self._wanted):
            if self._unit[side] is None and self._variant.startswith(wanted):
                self._unit[side] = text
        self._variant = ""  # only the first segment of a variant counts


# A segment of a document: its id, and how many with that id come before it in the same part.
_SegmentKey = tuple[str, int]


class _XmlSegments(_XmlTarget):
    """Collects the segments of a test set, in memory for one document."""

    def __init__(self) -> None:
        super().__init__()
        self._sides: dict[str, dict[_SegmentKey, str]] = {}  # "src" and "ref" of the document
        self._side = ""  # the one that is read
        self._counts: Counter[tuple[str, str]] = Counter()  # segments by side and id
        self._id = ""

    def begun(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Handles the start of an element."""
        if tag == "doc":
            self._sides, self._side = {}, "src"  # in older forms, segments are in no other element
            self._counts.clear()
        elif tag in ("src", "ref", "hyp"):
            self._side = "" if tag == "hyp" or tag in self._sides else tag
            self._sides.setdefault(tag, {})
        elif tag == "seg" and self._side:
            self._segment, self._id = [], attributes.get("id", "")

    def ended(self, tag: str) -> None:
        """Handles the end of an element."""
        if tag == "seg" and self._segment is not None:
            counted = self._side, self._id
            texts = self._sides.setdefault(self._side, {})
            texts[self._id, self._counts[counted]] = self._segment_text()
            self._counts[counted] += 1
        elif tag in ("src", "ref", "hyp"):
            self._side = ""
        elif tag == "doc":
            sources, references = (self._sides.get(side, {}) for side in ("src", "ref"))
            for key in sources | references:
                self._done.append((sources.get(key, ""), references.get(key, "")))
