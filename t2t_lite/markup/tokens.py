r"""Cuts a segment into tags, protected pieces, entities and text, none of which is lost.

The tokens joined are the segment, whatever it is. Python's html.parser cannot promise this: it
drops such as `</>`, and what it makes of malformed tags differs between releases of Python.
"""

import enum
import html
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import regex

from t2t_lite.markup.kinds import HTML, PLACEHOLDERS, XML


class TokenKind(enum.Enum):
    """What a token is."""

    TEXT = enum.auto()  # to translate
    ENTITY = enum.auto()  # a character, written as an entity
    OPEN = enum.auto()
    CLOSE = enum.auto()
    VOID = enum.auto()  # an element that has no end tag
    HIDDEN = enum.auto()  # a comment, a declaration, a script...: nobody sees it
    PROTECTED = enum.auto()  # a URL, a placeholder...


class Token(NamedTuple):
    """A part of a segment.

    Attributes:
        kind: what it is.
        raw: its characters in the segment.
        name: of a tag, in lower case in HTML.
        text: what it reads, of `TEXT` and `ENTITY`.
    """

    kind: TokenKind
    raw: str
    name: str = ""
    text: str = ""


# HTML's elements without an end tag: https://html.spec.whatwg.org/#void-elements
_VOID_ELEMENTS = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img"}
    | {"input", "link", "meta", "param", "source", "track", "wbr"}
)

# Balanced braces, four deep, as in ICU's
# {who, select, other {{n, plural, one {# file} other {# files of {owner}}}}}.
_INNER = "[^{}]*+"
for _ in range(4):
    _INNER = rf"(?:[^{{}}]++|\{{{_INNER}\}})*+"
_ICU_CHOICE = r",\s*+(?:plural|select|selectordinal)\s*+,"
_ICU_FORMAT = r",\s*+(?:number|date|time|ordinal|duration|spellout|list|choice)\s*+(?:,[^{}]*+)?"
_FORMAT = r"(?:[:!](?!\s)[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+)?"  # C#'s, Python's and Rust's
# GNU's old `quoting' is text. What follows the second quote tells it from code with strings.
_GNU_QUOTED = r"`[^`'\n]+'(?:[\s.,:;!?)]|\Z)"
_PRINTF = r"""[-+\#0]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?
    (?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsSpaA@]"""
_PROTECTED = rf"""
    (?:https?|ftp|file)://(?:(?!&(?:[lg]t|quot|apos);)[^\s<>"'`{{}}])*[^\s<>"'`{{}}.,;:!?)\]]
  | (?<![\w.+\-])[\w.+\-]++@[\w\-]+(?:\.[\w\-]+)+
  | (?<![\w/.:\-~])/(?:[\w.\-]++/)+[\w.\-]*\w       # an absolute path
  | (?!{_GNU_QUOTED})`[^`\n]+`(?![\w%])
  | \{{\{{[^{{}}\n]*+\}}\}}
  | \{{\s*+\w++\s*+(?:{_ICU_CHOICE}{_INNER}|{_ICU_FORMAT})\}}
  | [$%\#]?\{{\s*+[\w.$\[\]\-]*+\s*+(?:,\s*+-?\d++)?{_FORMAT}\}}
  | \$\[\w+\]                                     # OpenOffice
  | \[X\d+X\]                                     # Weblate, in place of what it protects
  | %\(\w+\)[-+\#0]*+[\d.]*+[a-zA-Z]              # Python
  | (?<!\d)%(?:<\w+>|&lt;\w+&gt;)[-+\#0]*+[\d.]*+[a-zA-Z]  # Ruby
  | %\d+![^!\s]++!                                 # Windows
  | (?<!\d)%(?:\d+\$)?{_PRINTF}
  | (?<!\d)%L?(?:n(?!\w)|[1-9]\d?(?![\d%]))        # Qt and KDE
  | (?<!\d)%%
  | %[A-Z][A-Z_]{{2,}}%?
  | \p{{RI}}\p{{RI}}
  | [0-9\#*]\uFE0F?\u20E3
  | (?:\p{{Emoji_Presentation}}|\p{{Extended_Pictographic}}[\uFE0E\uFE0F])[\p{{EMod}}\uFE0E\uFE0F]*
    (?:\u200D\p{{Extended_Pictographic}}[\p{{EMod}}\uFE0E\uFE0F]*)*
"""
_ATTRIBUTES = r"""(?:[^<>"']++|"[^"]*+"|'[^']*+')*+"""
# What ends with a string of its own, and these. They are looked for once: where many begin and none
# ends, to look from each would take the square of n.
_ENDS = {
    "<!--": regex.compile("-->"),
    "<![CDATA[": regex.compile("]]>"),
    "<?": regex.compile(r"\?>"),
    "script": regex.compile(r"</script\s*+>"),  # its text has no tags
    "style": regex.compile(r"</style\s*+>"),
}
_OPENED = r"<!-- | <!\[CDATA\[ | <\?"
_RAW_TEXT = r"| <(?P<raw>script|style)(?=[\s>/])[^<>]*+>"
# An opening may have no end, and is a tag then, or no markup at all.
_TAGS = rf"""
    (?:(?=(?P<opened>{_OPENED} {{raw}}))|)
    (?:
        (?P<hidden><[!?][^<>]*+> | </>)
      | <(?P<close>/)?(?P<name>[A-Za-z_][^\s/<>"']*+)(?:{_ATTRIBUTES}|[^<>]*+)>
      | (?P<none><)
    )
  | (?P<entity>&(?:
      \#[0-9]{{{{1,7}}}} | \#[xX][0-9a-fA-F]{{{{1,6}}}} | [A-Za-z][A-Za-z0-9]{{{{0,31}}}}
    );)
"""

_FLAGS = regex.VERBOSE | regex.DOTALL | regex.V0
_PLACEHOLDER = rf"(?P<protected>{_PROTECTED})"
_PATTERNS = {
    HTML: regex.compile(f"{_TAGS.format(raw=_RAW_TEXT)} | {_PLACEHOLDER}", _FLAGS),
    XML: regex.compile(f"{_TAGS.format(raw='')} | {_PLACEHOLDER}", _FLAGS),
    PLACEHOLDERS: regex.compile(_PLACEHOLDER, _FLAGS),
}

_XML_ENTITIES = frozenset(["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"])
_NO_BREAK_SPACES = "\u00a0\u202f"
_ICU_MESSAGE = regex.compile(rf"\{{\s*+\w++\s*+{_ICU_CHOICE}")


def has_icu_message(text: str) -> bool:
    """Returns whether a text has a choice by ICU's rules, of which only parts are text."""
    return "{" in text and bool(_ICU_MESSAGE.search(text))


def tokens_of(segment: str, kind: str) -> Iterator[Token]:
    """Yields the tokens of a segment in order; their `raw` joined is the segment.

    Args:
        segment: any text.
        kind: one of `kinds.KINDS`.
    """
    end = 0
    for start, place, groups in _found(segment, kind):
        if start > end:
            text = segment[end:start]
            yield Token(TokenKind.TEXT, text, text=text)
        yield _token(groups, segment[start:place], kind == XML)
        end = place
    if end < len(segment):
        yield Token(TokenKind.TEXT, segment[end:], text=segment[end:])


def _found(segment: str, kind: str) -> Iterator[tuple[int, int, Mapping[str, str | None]]]:
    """Yields where all tokens but text start and end, and the groups of what they are."""
    ends: dict[str, regex.Match[str] | None] = {}  # the next end of what is opened, by its kind
    place = 0
    while match := _PATTERNS[kind].search(segment, place):
        groups = match.groupdict()
        start, place = match.span()
        if opened := groups.get("opened"):
            begins = start + len(opened)
            name = groups.get("raw") or opened
            if name not in ends or ((known := ends[name]) and known.start() < begins):
                ends[name] = _ENDS[name].search(segment, begins)
            if closing := ends[name]:
                place = closing.end()
                yield start, place, {"hidden": segment[start:place]}
                continue
        if groups.get("none") is None:
            yield start, place, groups


def _token(groups: Mapping[str, str | None], raw: str, is_xml: bool) -> Token:
    if groups.get("hidden") is not None:
        return Token(TokenKind.HIDDEN, raw)
    if groups["protected"] is not None:
        return Token(TokenKind.PROTECTED, raw)
    if groups["entity"] is not None:
        return _entity(raw, is_xml)
    name = groups["name"] or ""
    name = name if is_xml else name.lower()
    if groups["close"]:
        return Token(TokenKind.CLOSE, raw, name)
    if raw.endswith("/>") or (not is_xml and name in _VOID_ELEMENTS):
        return Token(TokenKind.VOID, raw, name)
    return Token(TokenKind.OPEN, raw, name)


def _entity(raw: str, is_xml: bool) -> Token:
    """Returns the token of an entity: protected, if it is unknown or no visible character."""
    is_known = not is_xml or raw.startswith("&#") or raw in _XML_ENTITIES
    text = html.unescape(raw) if is_known else raw
    if text in ("", raw) or not (text.isprintable() or text in _NO_BREAK_SPACES):
        return Token(TokenKind.PROTECTED, raw)
    return Token(TokenKind.ENTITY, raw, text=text)
