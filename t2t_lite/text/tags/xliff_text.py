"""Sources of XLIFF as segments, and their translations as the file writes them.

The text of a source may itself be HTML, in a CDATA section or with escapes. Its tags are then tags
of the segment, too, and have an ending for private use, which says that they are text of the file.
"""

import dataclasses
import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.text.source_form import has_text
from t2t_lite.text.tags.blocks import Piece, cut, cut_tokens, padded
from t2t_lite.text.tags.codes import CODES, paired
from t2t_lite.text.tags.kinds import HTML, XML
from t2t_lite.text.tags.segment import parse
from t2t_lite.text.tags.tokens import FROM_LINE, TO_LINE, Token, TokenKind, tokens_of
from t2t_lite.text.tags.xml_events import CDATA, CLOSE, OPEN, TEXT, Event, end_of

_SPACE = re.compile(r"[ \t\r\n]+")
_BREAKS = re.compile(r"([\n\r\t]+)")
# Placed as a tag is, where it stays. The zero tells it from references of the file.
_BREAK = {"\n": "&#010;", "\r": "&#013;", "\t": "&#09;"}
_TO_BREAK = str.maketrans({**_BREAK})
_FORBIDDEN = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # in XML
_DEPTHS = {
    **dict.fromkeys(("bpt", "bx", "sc", "sm"), 1),
    **dict.fromkeys(("ept", "ex", "ec", "em"), -1),
}

# Characters for private use, which stand for those in tags of HTML, and for "&" in tags of XLIFF.
_IN_TAG = {"<": "\U0010ff3c", ">": "\U0010ff3e", '"': "\U0010ff22", "'": "\U0010ff27"}
_AND, _END = "\U0010ff26", "\U0010ff2f"
_OWN_SECTION = "\U0010ff5b"  # follows the ending of a tag that is alone in a CDATA section
_HIDE = str.maketrans(_IN_TAG)
_HIDE_BRACKETS = str.maketrans({shown: _IN_TAG[shown] for shown in "<>"})
_SHOW = str.maketrans({hidden: html.escape(shown, False) for shown, hidden in _IN_TAG.items()})
# A tag, or a piece that nobody sees.
_HTML_TAG = re.compile(rf"<(t {_END})?([^<>]*) {_END}({_OWN_SECTION})?/?>")
_ENDING = re.compile(f"{_END}(?=/?>)")
_BARE_OR_TAG = re.compile(rf"{_HTML_TAG.pattern}|&amp;amp;")
_IS_TAGS = re.compile(rf"(?:<[^<>]* {_END}/?>)+")
_SECTION, _SECTION_END = f"<t {_AND}>", f"</t {_AND}>"
_REFERENCE = "#?[A-Za-z0-9]+;"  # not `&copy=` in a URL
_BARE_AND = re.compile(f"&(?!{_REFERENCE})")
_ESCAPED_AND = re.compile("&(amp|#0*38|#[xX]0*26);")
_ENTITY = re.compile(f"&{_REFERENCE}")
# What codes say of the elements of HTML for which they stand; and of Angular's @if and @for.
_ELEMENT = re.compile(
    rf"""\bctype\s*=\s*["']x-(?:html-)?([A-Za-z][A-Za-z0-9]*)["']
      | (?:{_AND}lt;|\[<)/?(p|div|li|[ou]l|d[dlt]|h[1-6]|t[dhr]|table)(?![\w:-])
      | ["'](?:START|CLOSE)_BLOCK_""",
    re.VERBOSE,
)
_TAGS = (TokenKind.OPEN, TokenKind.CLOSE, TokenKind.VOID)


@dataclasses.dataclass(frozen=True, eq=False)
class Sentence:
    """A part of a source that is translated.

    Attributes:
        line: the segment.
        is_html: whether its text is HTML.
        in_section: whether all of it is in a CDATA section.
        has_bare_and: whether the text of its HTML writes each `&` as that alone.
    """

    line: str
    is_html: bool
    in_section: bool
    has_bare_and: bool

    def written(self, output: str, charset: str) -> str:
        """Returns the translation as it stands in the file.

        Args:
            output: the translation of the line.
            charset: of the file; what it lacks cannot be written in a CDATA section.
        """
        text = _FORBIDDEN.sub("", output.translate(FROM_LINE))
        for shown, reference in _BREAK.items():
            text = text.replace(reference, shown)
        parts = re.split(f"({_SECTION}|{_SECTION_END})", text)
        inside = self.in_section
        written = []
        for part in parts:
            if part in (_SECTION, _SECTION_END):
                inside = part == _SECTION
                written.append("<![CDATA[" if inside else "]]>")
                continue
            if self.is_html:
                part = part.replace("&", "&amp;")
                if self.has_bare_and:
                    part = _BARE_OR_TAG.sub(lambda m: m[0] if m[0][0] == "<" else "&amp;", part)
                part = _with_tags(part, inside, charset)
            part = part.replace(_AND, "&")
            written.append(_in_section(html.unescape(part), charset) if inside else part)
        return "".join(written)


class _Chunk(NamedTuple):
    """Text, or a tag of XLIFF; of a code with all that is in it.

    Attributes:
        raw: as it stands in the file.
        text: what it reads; None: it is not text.
        in_section: whether it is in a CDATA section.
        is_inside: whether it is in an element.
    """

    raw: str
    text: str | None
    in_section: bool
    is_inside: bool


def sentences(source: Sequence[Event], keeps_space: bool) -> Iterator[str | Sentence]:
    """Yields a source in parts: those that are translated, and what stays around them.

    Args:
        source: what is in a source, or in a sentence that is marked in it.
        keeps_space: whether white space in it means something: lines are then translated one by
            one, and breaks within elements stay there.
    """
    before, chunks, after = _without_space([*_chunks(source)])
    yield before
    in_section = len(chunks) == 1 and chunks[0].in_section
    tokens = [token for chunk in chunks for token in tokens_of(chunk.text or "", HTML)]
    is_html = any(map(_is_html, tokens))
    read = [token.raw for token in tokens if token.kind not in (*_TAGS, TokenKind.HIDDEN)]
    has_bare_and = any(map(_BARE_AND.search, read)) and not any(map(_ESCAPED_AND.search, read))
    form = is_html, in_section, has_bare_and
    if in_section:
        yield "<![CDATA["
    if is_html and len(chunks) == 1:
        for piece in cut(chunks[0].text or "", HTML):
            if piece.is_text:
                line = "".join(_html_in_line(token, keeps_space) for token in piece.tokens)
                yield from _parts(line, *form)
            else:
                yield piece.raw if in_section else html.escape(piece.raw, quote=False)
    else:
        for line in _lines(chunks, keeps_space, is_html, in_section):
            with_tags = paired(tokens_of(line, XML)) if "<" in line else ()
            pieces = cut_tokens(_with_names_of_html(with_tags), XML)
            if sum(piece.is_text for piece in pieces) > 1:
                yield from _blocks(pieces, is_html, has_bare_and)
            else:
                yield from _parts(line, *form)
    if in_section:
        yield "]]>"
    yield after


def _without_space(chunks: list[_Chunk]) -> tuple[str, list[_Chunk], str]:
    """Returns the white space before a source, the source, and the white space after it."""
    spaces = ["", ""]
    for place in (0, -1):
        if chunks and chunks[place].text is not None and not chunks[place].in_section:
            chunk = chunks[place]
            before, core, after = padded(chunk.raw)
            spaces[place] = after if place and core else before
            raw = before + core if place else core + after
            read = (chunk.text or "").removeprefix("" if place else _read(before))
            read = read.removesuffix(_read(after) if place else "")
            rest = [chunk._replace(raw=raw, text=read)] if core else []
            chunks = [*chunks[:-1], *rest] if place else [*rest, *chunks[1:]]
    return spaces[0], chunks, spaces[1]


def _read(space: str) -> str:
    """Returns white space as XML reads it."""
    return space.replace("\r\n", "\n").replace("\r", "\n")


def _chunks(source: Sequence[Event]) -> Iterator[_Chunk]:
    place = depth = 0
    in_section = False
    while place < len(source):
        event, end = source[place], place + 1
        if event.kind == TEXT:
            while end < len(source) and source[end].kind == TEXT:
                end += 1
            raw = "".join(one.raw for one in source[place:end])
            text = "".join(one.text for one in source[place:end])
            yield _Chunk(raw, text, in_section, depth > 0)
        elif event.kind == CDATA:
            in_section = not in_section
        else:
            if event.kind == OPEN and event.name in CODES:
                end = end_of(source, place)
            elif event.kind in (OPEN, CLOSE):
                depth += 1 if event.kind == OPEN else -1
            if event.kind == OPEN:
                depth = max(0, depth + _DEPTHS.get(event.name, 0))
            yield _Chunk("".join(e.raw for e in source[place:end]), None, False, True)
        place = end


def _lines(
    chunks: Sequence[_Chunk], keeps_space: bool, is_html: bool, in_section: bool
) -> Iterator[str]:
    """Yields chunks as segments, and the white space between these."""
    line = ""
    for chunk in chunks:
        is_section = chunk.in_section and not in_section
        if chunk.text is None:
            is_entity = chunk.raw.startswith("&")  # of the file's own
            new = chunk.raw if is_entity else chunk.raw.replace("&", _AND).translate(TO_LINE)
        elif is_html:
            new = "".join(_html_in_line(t, keeps_space) for t in tokens_of(chunk.text, HTML))
            if is_section and _IS_TAGS.fullmatch(new):
                new, is_section = _ENDING.sub(_END + _OWN_SECTION, new), False
        else:
            new = html.escape(chunk.text, quote=False) if chunk.in_section else chunk.raw
            if keeps_space and not is_section and not chunk.is_inside:
                new, *more = _BREAKS.split(new)
                for i in range(0, len(more), 2):
                    yield line + new
                    yield more[i]
                    line, new = "", more[i + 1]
            new = _spaced(new, keeps_space)
        line += f"{_SECTION}{new}{_SECTION_END}" if is_section and has_text(new) else new
    yield line


def _parts(line: str, *form: bool) -> Iterator[str | Sentence]:
    """Yields a line and the white space around it; a line that has no text stays."""
    before, core, after = padded(line)
    sentence = Sentence(core, *form)
    yield before
    yield sentence if has_text(parse(core, XML).text) else sentence.written(core, "utf-8")
    yield after


def _with_names_of_html(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yields tokens of a line, of which codes for elements of HTML have the names of these."""
    opened: dict[str, list[str]] = defaultdict(list)
    for token in tokens:
        name = token.name
        if token.kind is TokenKind.CLOSE:
            name = opened[name].pop() if opened[name] else name
        elif token.kind in _TAGS:
            element = _ELEMENT.search(token.raw) if name not in CODES else None
            name = (element[1] or element[2] or "div").lower() if element else name
            if token.kind is TokenKind.OPEN:
                opened[token.name].append(name)
        yield token._replace(name=name)


def _blocks(pieces: Iterable[Piece], is_html: bool, has_bare_and: bool) -> Iterator[str | Sentence]:
    """Yields the blocks of a line that has tags of XLIFF, too, and what stays between them."""
    in_section = False
    for piece in pieces:
        part = Sentence(piece.raw, is_html, in_section, has_bare_and)
        yield part if piece.is_text else part.written(piece.raw, "utf-8")
        for marker in re.findall(f"{_SECTION}|{_SECTION_END}", piece.raw):
            in_section = marker == _SECTION


def _is_html(token: Token) -> bool:
    is_tag = token.kind in (*_TAGS, TokenKind.HIDDEN) and token.raw[0] == "<"
    # Without a semicolon it may mark a key: &copy.
    is_entity = token.raw[0] == "&" and token.raw[-1] == ";" and token.kind is not TokenKind.TEXT
    return is_tag or is_entity


def _html_in_line(token: Token, keeps_space: bool) -> str:
    """Returns a token of HTML as one of a segment in XML."""
    if token.kind in (TokenKind.TEXT, TokenKind.ENTITY):
        return _spaced(html.escape(token.text, quote=False), keeps_space)
    if token.kind in _TAGS and token.raw[0] == "<":
        tag = token.raw[1:-1].translate(_HIDE_BRACKETS).translate(TO_LINE)
        return f"<{tag} {_END}{'/' if token.kind is TokenKind.VOID else ''}>"
    if token.kind is TokenKind.HIDDEN or token.raw.startswith("&"):
        return f"<t {_END}{token.raw.translate(_HIDE).translate(TO_LINE)} {_END}/>"
    read = _ENTITY.sub(lambda entity: html.unescape(entity[0]), token.raw)
    return html.escape(read, quote=False).translate(TO_LINE)


def _with_tags(text: str, is_section: bool, charset: str) -> str:
    """Returns text with its tags of HTML as they stand in the file, perhaps in a CDATA section."""

    def shown(match: re.Match[str]) -> str:
        tag = (match[2] if match[1] else f"&lt;{match[2]}&gt;").translate(_SHOW)
        is_own = match[3] and not is_section
        return f"<![CDATA[{_in_section(html.unescape(tag), charset)}]]>" if is_own else tag

    return _HTML_TAG.sub(shown, text).translate(_SHOW)


def _spaced(text: str, keeps_space: bool) -> str:
    """Returns text with one space between words, or with references for its breaks."""
    return text.translate(_TO_BREAK) if keeps_space else _SPACE.sub(" ", text)


def _in_section(text: str, charset: str) -> str:
    """Returns text of a CDATA section, which has no references."""
    text = text.replace("]]>", "]]]]><![CDATA[>")
    lacks = {
        one
        for one in {*text}
        if not one.isascii() and one != one.encode(charset, "replace").decode(charset)
    }
    return "".join(f"]]>&#{ord(one)};<![CDATA[" if one in lacks else one for one in text)
