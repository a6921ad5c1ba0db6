"""XLIFF files, of versions 1.2 and 2: units without a target get one; all else stays."""

import dataclasses
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from t2t_lite.decoding.documents.document import ICU_MESSAGES, Report
from t2t_lite.errors import DataError, quoted
from t2t_lite.text.charsets import Charset
from t2t_lite.text.tags.kinds import XML
from t2t_lite.text.tags.tokens import has_icu_message
from t2t_lite.text.tags.xliff_sentences import has_content, is_done, is_marked, matches, translated
from t2t_lite.text.tags.xliff_text import Sentence
from t2t_lite.text.tags.xml_events import (
    CLOSE,
    OPEN,
    TEXT,
    XML_SPACE,
    Event,
    events,
    with_attributes,
)

_UNITS = ("trans-unit", "segment")
# Version 1.2 has the state of a translation in its target, 2 in the segment.
_UNFINISHED = ("new", "initial", "needs-translation")
_FINISHED = ("translated", "reviewed", "final", "signed-off")
_REVIEW = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
_SURE = {**_REVIEW, "state": "translated"}
_TRANSLATED = {"state": "translated", "subState": None}  # which belongs to the old state
_DOUBTFUL = {**_TRANSLATED, "subState": "t2t_lite:needs-review"}
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]*?encoding\s*=\s*[\"']([\w:.-]+)")
_NAMESPACE = re.compile(r"""\s(xmlns(?::[^\s=]+)?)\s*=\s*["']([^"']*)""")  # that a tag declares
_UNDETERMINED = "und"  # a language, in BCP 47
_IN_CODES = "text in codes"  # why it is left
_UNMATCHED = "marked sentences that do not match"  # why their unit is left


class _Tag(NamedTuple):
    """A start tag that says the state of a translation.

    Attributes:
        raw: the tag.
        own: other attributes that it gets.
        by_machine: those of the state, where it is not known how good the translation is.
        sure: those where nothing speaks for a review.
        doubtful: those where something does.
        new: the translation.
    """

    raw: str
    own: Mapping[str, str]
    by_machine: Mapping[str, str | None]
    sure: Mapping[str, str | None]
    doubtful: Mapping[str, str | None]
    new: Sequence["str | Sentence"]

    def written(self, is_doubtful: bool | None) -> str:
        """Returns the tag; None: it is not known."""
        states = {None: self.by_machine, False: self.sure, True: self.doubtful}
        return with_attributes(self.raw, {**states[is_doubtful], **self.own})


_New = Sequence[str | Sentence | _Tag]


@dataclasses.dataclass
class _Element:
    """An open element.

    Attributes:
        start: the event of its start tag.
        stays: whether units in it get no target.
        keeps_space: whether white space in it stays as it is.
        spans: where sources and targets in it begin and end, in events.
    """

    start: Event
    stays: bool
    keeps_space: bool
    spans: dict[str, tuple[int, int]] = dataclasses.field(default_factory=dict)


class XliffFile:
    """A file of units.

    Args:
        contents: its bytes.
        language: that of the translations, for a file of version 2 that does not name it; "": it is
            not known.

    Attributes:
        kind: XML.
        segments: the sources without a target, as in `Document`.
        report: of units; of segments in version 2.

    Raises:
        DataError: it is not XLIFF, is not well-formed, or is not in the charset that it declares.
    """

    kind = XML

    def __init__(self, contents: bytes, language: str = "") -> None:
        self._contents = contents
        declared = _DECLARATION.match(contents)
        self._charset = Charset.of(contents, declared[1].decode() if declared else "utf-8")
        self._text = self._charset.decoded(contents)
        self._events = events(self._text)
        self._edits: list[tuple[int, int, _New]] = []  # in place of which text
        self.report = Report()
        root = next(event for event in self._events if event.kind == OPEN)
        if root.name != "xliff":
            raise DataError(f"expected an <xliff> file, got {quoted(root.name)}")
        self._namespace = root.namespace
        self._read()
        if self._edits and "srcLang" in root.attributes and "trgLang" not in root.attributes:
            tag = language.partition("+")[0].replace("_", "-")  # BCP 47, without a mixture's tag
            new = with_attributes(root.raw, {"trgLang": tag or _UNDETERMINED})
            self._edits.append((root.start, root.end, [new]))
        self._edits.sort(key=lambda edit: edit[0])

    @property
    def segments(self) -> list[str]:
        """What is translated."""
        return [sentence.line for sentence in self._sentences()]

    def translated(self, outputs: Sequence[str], doubtful: Container[int] | None = None) -> bytes:
        """Returns the file with the translations of its segments; see `Document.translated`."""
        sentences = [*self._sentences()]
        written = {
            id(sentence): sentence.written(output, self._charset.name)
            for sentence, output in zip(sentences, outputs, strict=True)
        }
        doubted = {id(one) for place, one in enumerate(sentences) if place in (doubtful or ())}

        def text_of(part: str | Sentence | _Tag) -> str:
            if isinstance(part, str):
                return part
            if isinstance(part, Sentence):
                return written[id(part)]
            is_doubtful = any(id(one) in doubted for one in part.new)
            return part.written(None if doubtful is None else is_doubtful)

        edits = [(start, end, "".join(map(text_of, parts))) for start, end, parts in self._edits]
        return self._charset.edited(self._contents, self._text, edits, "xmlcharrefreplace")

    def _sentences(self) -> Iterator[Sentence]:
        return (one for _, _, new in self._edits for one in new if isinstance(one, Sentence))

    def _read(self) -> None:
        open_elements: list[_Element] = []
        starts: list[int] = []
        for place, event in enumerate(self._events):
            if event.kind == OPEN:
                around = open_elements[-1] if open_elements else None
                open_elements.append(self._element(event, around))
                starts.append(place)
            elif event.kind == CLOSE:
                element, start = open_elements.pop(), starts.pop()
                if event.namespace != self._namespace:
                    continue
                if event.name in _UNITS and "source" in element.spans and not element.stays:
                    self._add_unit(element)
                elif event.name in ("source", "target", "seg-source"):
                    open_elements[-1].spans.setdefault(event.name, (start, place + 1))

    def _element(self, start: Event, around: _Element | None) -> _Element:
        given = start.attributes
        stays, keeps_space = (around.stays, around.keeps_space) if around else (False, False)
        stays = {"no": True, "yes": False}.get(given.get("translate", ""), stays)
        space = given.get(XML_SPACE)
        return _Element(start, stays, space == "preserve" if space else keeps_space)

    def _add_unit(self, unit: _Element) -> None:
        """Adds the target of a unit, unless it has one or nothing to translate."""
        source = self._events[slice(*unit.spans["source"])]
        target = self._events[slice(*unit.spans.get("target", (0, 0)))]
        seg_source = self._events[slice(*unit.spans.get("seg-source", (0, 0)))]
        marked = seg_source if is_marked(seg_source) else source
        keeps_space = unit.keeps_space or source[0].attributes.get(XML_SPACE) == "preserve"
        if not has_content(marked):
            self.report.kept += bool(target)
            return
        if _is_finished(unit, target, marked):
            self.report.kept += 1
            return
        old = [] if _state(unit, target) in _UNFINISHED else target
        has_choice = has_icu_message("".join(event.text for event in source))
        if has_choice or not matches(marked, old):
            self.report.left[ICU_MESSAGES if has_choice else _UNMATCHED] += 1
            return
        self.report.left.update([_IN_CODES] * any(event.name == "sub" for event in source))
        new = [*translated(marked, old, keeps_space)]
        self.report.translated += any(isinstance(part, Sentence) for part in new)
        is_first_version = unit.start.name == "trans-unit"
        if not is_first_version:
            tag = _Tag(unit.start.raw, {}, _TRANSLATED, _TRANSLATED, _DOUBTFUL, new)
            self._edits.append((unit.start.start, unit.start.end, [tag]))
        own = dict(_NAMESPACE.findall(marked[0].raw))
        if target:
            opening, start, end, indent = target[0].raw, target[0].start, target[-1].end, ""
        else:
            opening = f"<{source[0].prefix}target>"
            if XML_SPACE in source[0].attributes:
                own["xml:space"] = source[0].attributes[XML_SPACE]
            _, after = unit.spans.get("seg-source") or unit.spans["source"]
            start = end = self._events[after - 1].end
            indent = self._indent(unit.spans["source"][0])
        opening = re.sub(r"\s*/>\Z", ">", opening)
        states = (_REVIEW, _SURE, _REVIEW) if is_first_version else ({}, {}, {})
        closing = f"</{(target or source)[0].prefix}target>"
        tag = _Tag(opening, own, *states, new)
        self._edits.append((start, end, [indent, tag, *new, closing]))

    def _indent(self, place: int) -> str:
        """Returns the white space before an event, if it is on a line of its own."""
        start = place
        while self._events[start - 1].kind == TEXT and self._events[start - 1].raw.isspace():
            start -= 1
        indent = "".join(event.raw for event in self._events[start:place])
        return indent if "\n" in indent or "\r" in indent else ""


def _state(unit: _Element, target: Sequence[Event]) -> str:
    own = target[0].attributes if target else {}
    return own.get("state") or unit.start.attributes.get("state", "")


def _is_finished(unit: _Element, target: Sequence[Event], source: Sequence[Event]) -> bool:
    """Whether a target stays, or its lack: a person has finished it, or has at least begun it."""
    state = _state(unit, target)
    if unit.start.attributes.get("approved") == "yes" or state in _FINISHED:
        return True
    return state not in _UNFINISHED and has_content(target) and is_done(source, target)
