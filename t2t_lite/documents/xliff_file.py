"""XLIFF files, of versions 1.2 and 2: units without a target get one; all else stays."""

import re
from collections.abc import Sequence
from xml.parsers import expat

from t2t_lite.documents.document import Parts, collapsed
from t2t_lite.errors import DataError
from t2t_lite.markup.kinds import XML
from t2t_lite.markup.segment import is_translated
from t2t_lite.markup.tokens import Token, TokenKind, tokens_of

_UNITS = ("trans-unit", "unit")
_UNFINISHED = re.compile(r"""\bstate\s*=\s*["'](?:new|initial|needs-translation)["']""")


class XliffFile:
    """A file of units.

    Args:
        contents: its bytes, in UTF-8.

    Attributes:
        markup: XML.
        segments: the sources without a target, as in `Document`.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
        DataError: it is not well-formed XML; the message names the line.
    """

    markup = XML

    def __init__(self, contents: bytes) -> None:
        try:
            expat.ParserCreate().Parse(contents, True)
        except expat.ExpatError as error:
            raise DataError(f"not well-formed XML: {error}") from None
        self._parts = Parts()
        self._stays: list[str] = []  # open units that are not translated
        tokens = [*tokens_of(contents.decode(), XML)]
        place = 0
        while place < len(tokens):
            place = self._add(tokens, place)

    @property
    def segments(self) -> list[str]:
        """What is translated."""
        return self._parts.segments

    def translated(self, outputs: Sequence[str]) -> bytes:
        """Returns the file with the translations of its segments."""
        return self._parts.joined(outputs).encode()

    def _add(self, tokens: Sequence[Token], place: int) -> int:
        """Adds a token, or a source with its target; returns the place of the next one."""
        token = tokens[place]
        if token.kind is TokenKind.OPEN and token.name in _UNITS and not is_translated(token):
            self._stays.append(token.name)
        elif token.kind is TokenKind.CLOSE and self._stays and token.name == self._stays[-1]:
            self._stays.pop()
        if token.kind is not TokenKind.OPEN or token.name != "source" or self._stays:
            self._parts.keep(token.raw)
            return place + 1
        end = _closing(tokens, place)
        self._parts.keep("".join(one.raw for one in tokens[place : end + 1]))
        source = "".join(map(collapsed, tokens[place + 1 : end]))
        return self._add_target(tokens, end + 1, source)

    def _add_target(self, tokens: Sequence[Token], place: int, source: str) -> int:
        """Adds the target of a source, made or as it is; returns the place after it."""
        after = place
        while after < len(tokens) and not tokens[after].raw.strip():
            after += 1
        spaces = "".join(one.raw for one in tokens[place:after])
        target = tokens[after] if after < len(tokens) else None
        if target is None or target.name != "target" or target.kind is TokenKind.CLOSE:
            self._parts.keep(f"{spaces}<target>")
            self._parts.translate(source)
            self._parts.keep("</target>")
            return place
        self._parts.keep(spaces)
        end = after if target.kind is TokenKind.VOID else _closing(tokens, after)
        text = "".join(one.raw for one in tokens[after + 1 : end])
        if text.strip() and not _UNFINISHED.search(target.raw):
            self._parts.keep("".join(one.raw for one in tokens[after : end + 1]))
            return end + 1
        opening = target.raw if target.kind is TokenKind.OPEN else f"{target.raw[:-2].rstrip()}>"
        self._parts.keep(opening)
        self._parts.translate(source)
        self._parts.keep("</target>")
        return end + 1


def _closing(tokens: Sequence[Token], place: int) -> int:
    """Returns the place of the end tag of the element that begins at a place."""
    name, depth = tokens[place].name, 0
    for i in range(place, len(tokens)):
        if tokens[i].name == name and tokens[i].kind in (TokenKind.OPEN, TokenKind.CLOSE):
            depth += 1 if tokens[i].kind is TokenKind.OPEN else -1
            if not depth:
                return i
    raise DataError(f"<{name}> has no end tag")
