"""Cuts HTML into what readers see as paragraphs, and XML and plain text into lines.

Sentences end where blocks and lines do.
"""

import html
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.text.source_form import has_text
from t2t_lite.text.tags.html_elements import BLOCKS, OpenElements
from t2t_lite.text.tags.kinds import HTML, XML
from t2t_lite.text.tags.segment import has_word, is_translated, translation_of
from t2t_lite.text.tags.tokens import FROM_LINE, TO_LINE, Token, TokenKind, tokens_of

_TAGS = (TokenKind.OPEN, TokenKind.CLOSE, TokenKind.VOID)
_TEXTS = (TokenKind.TEXT, TokenKind.ENTITY)
_SPACE = re.compile(r"[ \t\n\r\f]+")  # what browsers show as one space; not U+00A0
_BREAK_TO_LINE = {ord("\n"): TO_LINE[ord("\n")]}
_EMPTY_LINE = re.compile(r"(\n[ \t\r\f]*\n\s*)")
_PREFORMATTED = frozenset(["listing", "plaintext", "pre", "xmp"])
_CONTROLS = frozenset(["a", "button", "label"])  # two side by side are two sentences
_BETWEEN_ITEMS = "|·• \t\n\r\f\xa0"  # of menus and forms
# What begins, divides and ends parts of a template: if, else, end and the like. So do comments for
# some browsers alone.
_STATEMENT = re.compile(
    r"\{%|<%(?![-=#])|\{\{[-~]?\s*(?:[#/^]|(?:if|else|range|with|end|block|define)(?![\w.]))"
    r"|<\?(?:php)?\s*(?:\}|else|end)|<\?.*[:{]\s*\?>\Z|</?#[A-Za-z]"
    r"|<%=.*\bdo\s*(?:\|[^|]*\|\s*)?-?%>\Z|<!(?:--\[if[^>]*>(?:<!)?-->|(?:--<!)?\[(?:if|endif))",
    re.DOTALL,
)


class Piece(NamedTuple):
    """A part of a text.

    Attributes:
        tokens: what it consists of.
        is_text: whether it is a paragraph to translate; all else stays.
    """

    tokens: list[Token]
    is_text: bool

    @property
    def raw(self) -> str:
        """The part as it stands there."""
        return "".join(token.raw for token in self.tokens)

    @property
    def line(self) -> str:
        """The part as a segment: a line in which white space between words is one space."""
        return "".join(map(_in_line, self.tokens))


def cut(text: str, kind: str) -> list[Piece]:
    """Cuts a text at the borders of blocks, and at empty lines that are made of `<br>`.

    In a text that is in no element, empty lines of the source are borders, too: WordPress makes
    paragraphs of them.

    Args:
        text: HTML, whole pages or parts of them.
        kind: HTML, or XML for XHTML.

    Returns:
        All of the text, in order. Paragraphs have words to translate, and begin and end with what
        belongs to them: neither with white space nor with tags without a partner in them.
    """
    return cut_tokens(tokens_of(text, kind), kind)


def cut_tokens(tokens: Iterable[Token], kind: str) -> list[Piece]:
    """Cuts a text that has been read, as `cut` does."""
    cutter = _Cutter(kind)
    for token in _whole([*tokens]) if kind == XML else tokens:
        cutter.add(token)
    return cutter.finish()


class Blocks:
    """A text of HTML that is translated block by block; one without blocks is translated whole.

    Args:
        text: the text.

    Attributes:
        tokens: of the text.
        is_line: whether the text has neither blocks nor line breaks.
    """

    def __init__(self, text: str) -> None:
        self.tokens = [*tokens_of(text, HTML)]
        pieces = cut_tokens(self.tokens, HTML)
        has_blocks = any(token.kind in _TAGS and token.name in BLOCKS for token in self.tokens)
        count = sum(piece.is_text for piece in pieces)
        has_lines = any(_EMPTY_LINE.search(one.raw) for one in pieces if not one.is_text)
        if not has_blocks and not has_lines and count == 1:
            pieces = [Piece(self.tokens, is_text=True)]
        self.is_line = not has_blocks and count <= 1 and "\n" not in text
        self._pieces = pieces

    @property
    def segments(self) -> list[str]:
        """The blocks with text, one line each; a line break in the text is a space."""
        return [piece.line for piece in self._pieces if piece.is_text]

    def joined(self, outputs: Iterable[str]) -> str:
        """Returns the text with the translations of its segments."""
        return _joined(self._pieces, outputs)


class Lines:
    """A text of XML or plain text that is translated line by line.

    A line break in a tag, in a placeholder or in what is not translated ends no line. In XML, a tag
    whose partner is in another line ends a sentence, so that such tags stay in order.

    Args:
        text: the text.
        kind: XML or PLACEHOLDERS.
    """

    def __init__(self, text: str, kind: str) -> None:
        self._pieces: list[Piece] = []
        for number, line in enumerate(_lines([*_whole([*tokens_of(text, kind)])])):
            if number:
                self._pieces.append(Piece([_text("\n")], is_text=False))
            self._pieces.extend(_pieces_of_line(line))

    @property
    def segments(self) -> list[str]:
        """What is translated: the lines with words, without white space around them."""
        return [piece.raw.translate(_BREAK_TO_LINE) for piece in self._pieces if piece.is_text]

    def joined(self, outputs: Iterable[str]) -> str:
        """Returns the text with the translations of its segments."""
        return _joined(self._pieces, outputs)


def _joined(pieces: Iterable[Piece], outputs: Iterable[str]) -> str:
    left = iter(outputs)
    return "".join(
        next(left).translate(FROM_LINE) if piece.is_text else piece.raw for piece in pieces
    )


def _lines(tokens: Sequence[Token]) -> list[list[Token]]:
    """Returns the lines of a text, in which text that is not translated is protected."""
    partners = _partners(tokens)
    lines: list[list[Token]] = [[]]
    end = 0  # of the last element that is not translated
    for i, token in enumerate(tokens):
        if i in partners and not is_translated(token):
            end = max(end, partners[i])
        if token.kind not in _TEXTS:
            lines[-1].append(token)
        elif i < end:
            lines[-1].append(token._replace(kind=TokenKind.PROTECTED))
        else:
            first, *others = token.raw.split("\n")
            lines[-1].append(_text(first) if others else token)
            lines += [[_text(other)] for other in others]
    return lines


def _pieces_of_line(line: Sequence[Token]) -> Iterator[Piece]:
    """Yields the parts of a line, of which those with words are translated."""
    place = 0
    for start, end in _elements(line, 0, len(line)):
        run = [*line[start:end]]
        if any(token.kind in _TEXTS and has_word(token.text) for token in run):
            before, core, after = _without_space(run)
            yield Piece([*line[place:start], *before], is_text=False)
            yield Piece(core, is_text=True)
            yield Piece(after, is_text=False)
            place = end
    yield Piece([*line[place:]], is_text=False)


class _Element(NamedTuple):
    """An open element.

    Attributes:
        stays: whether its text is not translated.
        within: the number of the part of a sentence that stays with it; 0: it is in none.
    """

    stays: bool = False
    within: int = 0


class _Cutter:
    """Collects the tokens between two borders as a run, which becomes one piece or several."""

    def __init__(self, kind: str) -> None:
        self._is_xml = kind == XML
        self._open = OpenElements[_Element](self._is_xml)
        self._pieces: list[Piece] = []
        self._run: list[Token] = []
        self._stays: list[bool] = []  # of each token in the run
        self._unended: int | None = None  # where in the run the part begins that is `within`
        self._root = ""  # the name of that part
        self._parts = 0  # how many there were

    def add(self, token: Token) -> None:
        """Adds a token."""
        before = self._open.last or _Element()
        is_tag = token.kind in _TAGS
        if is_tag:
            (self._open.end if token.kind is TokenKind.CLOSE else self._open.start)(token.name)
        outer = element = self._open.last or _Element()
        if token.kind is TokenKind.OPEN:
            element = self._opened(token, outer)
            self._open.push(token.name, element)
        begins = element.within and element.within != before.within
        ends = before.within and element.within != before.within
        if ends and (token.kind, token.name) != (TokenKind.CLOSE, self._root):
            self._end_run()  # it has no end tag of its own, or what is in it is translated
        is_within = before.within and element.within
        if not is_within and _is_beside(token, self._run[-1:]):
            self._end_run()
        if not is_within and _divides(token):
            self._end_run()
            self._keep([token])
        elif self._open.last is None and _EMPTY_LINE.search(token.text):
            self._add_lines(token)
        elif outer.stays and not (self._run and outer.within):
            self._end_run()  # what is translated between texts that stay
            self._keep([token])
        else:
            if begins and token.kind is TokenKind.OPEN:
                self._unended, self._root = len(self._run), token.name
            elif ends:
                self._unended = None
            self._run.append(token)
            self._stays.append(outer.stays)
            if begins and token.kind is TokenKind.CLOSE:
                self._end_run()  # what is translated in it

    def _add_lines(self, token: Token) -> None:
        """Adds text that has empty lines."""
        parts = _EMPTY_LINE.split(token.raw)
        for text, empty in zip(parts[::2], [*parts[1::2], ""], strict=True):
            self._run.append(_text(text))
            self._stays.append(False)
            if empty:
                self._end_run()
                self._keep([_text(empty)])

    def finish(self) -> list[Piece]:
        """Returns the pieces of all tokens that were added."""
        self._end_run()
        return self._pieces

    def _opened(self, token: Token, outer: _Element) -> _Element:
        told = False if token.name in _PREFORMATTED else translation_of(token)
        stays = outer.stays if told is None else not told
        if not stays or outer.stays:
            return _Element(stays, outer.within if stays else 0)
        if token.name in BLOCKS:
            return _Element(stays)
        self._parts += 1
        return _Element(stays, self._parts)

    def _end_run(self) -> None:
        run, stays, end = self._run, self._stays, self._unended
        self._run, self._stays, self._unended = [], [], None
        start = 0
        for first, last in _empty_lines(run[:end]):
            self._add_paragraphs(run[start:first], stays[start:first])
            self._keep(run[first:last])
            start = last
        self._add_paragraphs(run[start:end], stays[start:end])
        self._keep(run[len(run) if end is None else end :])

    def _add_paragraphs(self, run: list[Token], stays: list[bool]) -> None:
        """Adds some tokens: a paragraph, or the items of a menu."""
        parts = _items(run) or [(0, len(run))]
        if self._is_xml:
            parts = [part for start, end in parts for part in _elements(run, start, end)]
        place = 0
        for start, end in parts:
            self._keep(run[place:start])
            self._add_paragraph(run[start:end], stays[start:end])
            place = end
        self._keep(run[place:])

    def _add_paragraph(self, run: list[Token], stays: list[bool]) -> None:
        """Adds some tokens, of which those stay that neither have text nor belong to one."""
        if self._is_xml:
            run = [*map(_with_html_entity, run)]
        are_texts = [_is_text(token) and not stay for token, stay in zip(run, stays, strict=True)]
        if not any(are_texts):
            self._keep(run)
            return
        partners = _partners(run)
        loose = [
            not is_text
            and (token.kind not in _TAGS[:2] or i not in partners)
            and token.kind is not TokenKind.PROTECTED
            for i, (token, is_text) in enumerate(zip(run, are_texts, strict=True))
        ]
        first, last = loose.index(False), len(run) - loose[::-1].index(False)
        before, core, after = _without_space(run[first:last])
        self._keep([*run[:first], *before])
        self._pieces.append(Piece(core, is_text=True))
        self._keep([*after, *run[last:]])

    def _keep(self, tokens: Iterable[Token]) -> None:
        if not self._pieces or self._pieces[-1].is_text:
            self._pieces.append(Piece([], is_text=False))
        self._pieces[-1].tokens.extend(tokens)


def _divides(token: Token) -> bool:
    """Whether a token is a border of a sentence."""
    if token.kind in _TAGS:
        return token.name in BLOCKS
    return token.kind not in _TEXTS and bool(_STATEMENT.match(token.raw))


def _is_beside(token: Token, last: Sequence[Token]) -> bool:
    """Whether a token begins a link or a button that directly follows another, as in menus."""
    follows = any(one.kind is TokenKind.CLOSE and one.name in _CONTROLS for one in last)
    return follows and token.kind is TokenKind.OPEN and token.name in _CONTROLS


def _items(run: Iterable[Token]) -> list[tuple[int, int]]:
    """Returns where the items of a form or a menu start and end.

    Such are several buttons and labels, or links with lines or points between them, that have no
    other text around.
    """
    places: list[int] = []
    depth = 0
    is_menu = False
    for i, token in enumerate(run):
        if token.name in _CONTROLS and token.kind in _TAGS[:2]:
            is_menu |= token.name != "a"
            before = depth
            depth += 1 if token.kind is TokenKind.OPEN else -1
            if before + depth == 1:  # the outermost one
                places.append(i if depth else i + 1)
        elif depth < 1:  # below 0, a link that began in another block has ended
            if token.kind is TokenKind.PROTECTED or token.text.strip(_BETWEEN_ITEMS):
                return []
            is_menu |= bool(token.text.strip())
    items = [*zip(places[::2], places[1::2], strict=False)]
    return items if is_menu and len(items) > 1 and not depth else []


def _is_text(token: Token) -> bool:
    return token.kind in _TEXTS and has_text(token.text)


def _with_html_entity(token: Token) -> Token:
    """Returns a token of XHTML, which has HTML's entities besides those of XML."""
    text = html.unescape(token.raw) if token.raw.startswith("&") else token.raw
    is_read = (
        token.kind is TokenKind.PROTECTED
        and text != token.raw
        and (has_text(text) or text.isspace() or text in ("\u200c", "\u200d"))
    )
    return Token(TokenKind.TEXT, token.raw, text=text) if is_read else token


def _empty_lines(run: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Yields where several `<br>` with nothing between them start and end."""
    first, last = None, 0
    for i, token in enumerate(run):
        if token.name == "br":
            first, last = (i if first is None else first), i + 1
        elif token.kind is not TokenKind.HIDDEN and (token.kind in _TAGS or token.raw.strip()):
            if first is not None and last - first > 1:
                yield first, last
            first = None


def _whole(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yields tokens of XML, in which tags without a partner are elements without one."""
    partners = _partners(tokens)
    for i, token in enumerate(tokens):
        is_loose = token.kind in _TAGS[:2] and i not in partners
        yield token._replace(kind=TokenKind.VOID) if is_loose else token


def _elements(run: Sequence[Token], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yields where parts of XML start and end that have the partners of all their tags.

    What is around them must stay in its order, or the whole would no longer be well-formed.
    """
    for first, last in _between(_loose(run, start, end), start, end):
        if _loose(run, first, last):  # pairs of codes that overlap
            tags = [i for i in range(first, last) if run[i].kind in _TAGS[:2]]
            yield from _between(tags, first, last)
        else:
            yield first, last


def _between(borders: Sequence[int], start: int, end: int) -> Iterator[tuple[int, int]]:
    return zip([start, *(border + 1 for border in borders)], [*borders, end], strict=True)


def _loose(run: Sequence[Token], start: int, end: int) -> list[int]:
    """Returns the places of tags between two others that have no partner there."""
    partners = _partners(run[start:end])
    return [i for i in range(start, end) if run[i].kind in _TAGS[:2] and i - start not in partners]


def _partners(run: Sequence[Token]) -> dict[int, int]:
    """Returns where the partners are of the tags of a run that have one in it, by their places."""
    found: dict[int, int] = {}
    opened: dict[str, list[int]] = defaultdict(list)
    for i, token in enumerate(run):
        if token.kind is TokenKind.OPEN:
            opened[token.name].append(i)
        elif token.kind is TokenKind.CLOSE and opened[token.name]:
            start = opened[token.name].pop()
            found |= {start: i, i: start}
    return found


def _without_space(run: list[Token]) -> tuple[list[Token], list[Token], list[Token]]:
    """Returns the white space before a run, the run, and the white space after it."""
    before = after = ""
    if run[0].kind is TokenKind.TEXT and run[0].text == run[0].raw:
        before, core, space = padded(run[0].raw)
        run = [_text(core + space), *run[1:]]
    if run[-1].kind is TokenKind.TEXT and run[-1].text == run[-1].raw:
        space, core, after = padded(run[-1].raw)
        run = [*run[:-1], _text(space + core)]
    return [_text(before)], run, [_text(after)]


def padded(text: str) -> tuple[str, str, str]:
    """Returns the white space before a text, the text, and the white space after it."""
    core = text.strip()
    start = text.index(core) if core else len(text)
    return text[:start], core, text[start + len(core) :]


def _text(raw: str) -> Token:
    return Token(TokenKind.TEXT, raw, text=raw)


def _in_line(token: Token) -> str:
    if token.kind is TokenKind.TEXT:
        return _SPACE.sub(" ", token.text)
    return token.raw.translate(TO_LINE)
