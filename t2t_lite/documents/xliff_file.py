"""XLIFF files, of versions 1.2 and 2: units without a target get one; all else stays."""

import re
from collections.abc import Sequence
from typing import NamedTuple
from xml.parsers import expat

from t2t_lite.documents.document import Parts, Report, collapsed
from t2t_lite.errors import DataError
from t2t_lite.markup.kinds import XML
from t2t_lite.markup.segment import is_translated
from t2t_lite.markup.tokens import Token, TokenKind, tokens_of
from t2t_lite.text.charsets import Charset
from t2t_lite.text.source_form import has_text

# Elements around sources that get no target: what lies between sentences, and the suggestions of a
# translation memory.
_STAYING = ("ignorable", "alt-trans")
_AROUND = ("file", "group", "trans-unit", "unit", "segment", *_STAYING)
# Version 1.2 has the state of a translation in its target, 2 in the segment.
_UNFINISHED = re.compile(r"""\bstate\s*=\s*["'](?:new|initial|needs-translation)["']""")
_TRANSLATE_YES = re.compile(r"""\btranslate\s*=\s*["']yes["']""")


class _Around(NamedTuple):
    """An open element around sources.

    Attributes:
        name: its name.
        stays: whether its sources get no target.
        is_unfinished: whether a target that they have is made anew.
    """

    name: str
    stays: bool
    is_unfinished: bool


class XliffFile:
    """A file of units.

    Args:
        contents: its bytes, in UTF-8.

    Attributes:
        markup: XML.
        segments: the sources without a target, as in `Document`.

    Raises:
        DataError: it is not UTF-8.
        DataError: it is not well-formed XML; the message names the line.
    """

    markup = XML

    def __init__(self, contents: bytes, language: str = "") -> None:
        try:
            expat.ParserCreate().Parse(contents, True)
        except expat.ExpatError as error:
            raise DataError(f"not well-formed XML: {error}") from None
        self._parts = Parts()
        self._around = [_Around("", False, False)]
        tokens = [*tokens_of(Charset("utf-8").decoded(contents), XML)]
        place = 0
        while place < len(tokens):
            place = self._add(tokens, place)

    @property
    def report(self) -> Report:
        """What becomes of the segments."""
        return Report(len(self.segments))

    @property
    def segments(self) -> list[str]:
        """What is translated."""
        return self._parts.segments

    def translated(self, outputs: Sequence[str]) -> bytes:
        """Returns the file with the translations of its segments."""
        return self._parts.joined(outputs).encode()

    def _add(self, tokens: Sequence[Token], place: int) -> int:
        """Adds a token, or a source with its target; returns the place of the next one."""
        token, around = tokens[place], self._around[-1]
        if token.kind is TokenKind.OPEN and token.name in _AROUND:
            inherits = around.stays and not _TRANSLATE_YES.search(token.raw)
            stays = inherits or token.name in _STAYING or not is_translated(token)
            is_unfinished = bool(_UNFINISHED.search(token.raw))
            self._around.append(_Around(token.name, stays, is_unfinished))
        elif token.kind is TokenKind.CLOSE and token.name == around.name:
            self._around.pop()
        if token.kind is not TokenKind.OPEN or token.name != "source" or around.stays:
            self._parts.keep(token.raw)
            return place + 1
        end = _closing(tokens, place)
        self._parts.keep("".join(one.raw for one in tokens[place : end + 1]))
        source = "".join(map(collapsed, tokens[place + 1 : end]))
        return self._add_target(tokens, end + 1, source)

    def _add_target(self, tokens: Sequence[Token], place: int, source: str) -> int:
        """Adds the target of a source, made or as it is; returns the place after it."""
        after = place
        while after < len(tokens) and (between := _end_between(tokens, after)):
            after = between
        kept = "".join(one.raw for one in tokens[place:after])
        target = tokens[after] if after < len(tokens) else None
        if target is None or target.name != "target" or target.kind is TokenKind.CLOSE:
            before = kept.rstrip()
            self._parts.keep(f"{before}<target>")
            self._parts.translate(source)
            self._parts.keep(f"</target>{kept[len(before) :]}")
            return after
        self._parts.keep(kept)
        end = after if target.kind is TokenKind.VOID else _closing(tokens, after)
        text = "".join(one.raw for one in tokens[after + 1 : end])
        is_unfinished = self._around[-1].is_unfinished or _UNFINISHED.search(target.raw)
        if has_text(text) and not is_unfinished:
            self._parts.keep("".join(one.raw for one in tokens[after : end + 1]))
            return end + 1
        opening = target.raw if target.kind is TokenKind.OPEN else f"{target.raw[:-2].rstrip()}>"
        self._parts.keep(opening)
        self._parts.translate(source)
        self._parts.keep("</target>")
        return end + 1


def _end_between(tokens: Sequence[Token], place: int) -> int:
    """Returns the place after white space, or after a source in pieces; 0: neither is there."""
    token = tokens[place]
    if token.name == "seg-source" and token.kind is not TokenKind.CLOSE:
        return 1 + (place if token.kind is TokenKind.VOID else _closing(tokens, place))
    return 0 if token.raw.strip() else place + 1


def _closing(tokens: Sequence[Token], place: int) -> int:
    """Returns the place of the end tag of the element that begins at a place."""
    name, depth = tokens[place].name, 0
    for i in range(place, len(tokens)):
        if tokens[i].name == name and tokens[i].kind in (TokenKind.OPEN, TokenKind.CLOSE):
            depth += 1 if tokens[i].kind is TokenKind.OPEN else -1
            if not depth:
                return i
    raise DataError(f"<{name}> has no end tag")
