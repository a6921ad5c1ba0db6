r"""Cuts a segment into tags, protected pieces, entities and text, none of which is lost.

The tokens joined are the segment, whatever it is. Python's html.parser cannot promise this: it
drops such as `</>`, and what it makes of malformed tags differs between releases of Python.
"""

import enum
import functools
import html
from collections.abc import Iterator
from html.entities import html5
from typing import NamedTuple

import regex

from t2t_lite.text.tags.kinds import ADJOINING, HIDDEN, HTML, PLACEHOLDERS, XML
from t2t_lite.text.tags.kinds import SPACE as _S
from t2t_lite.text.tags.kinds import WORD as _W
from t2t_lite.text.tags.named_pairs import BRACKETED, is_code, named, pairs_in


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
        name: of a tag, in lower case in HTML, without its prefix in XML, but for Confluence's, such
            as `ac:task`; of a code, with its brackets.
        text: what it reads, of `TEXT` and `ENTITY`.
    """

    kind: TokenKind
    raw: str
    name: str = ""
    text: str = ""

    def attributes(self) -> dict[str, str]:
        """Returns the attributes of a tag, with their names in lower case."""
        found: dict[str, str] = {}
        start = _START_TAG.match(self.raw)  # not what a code holds
        for name, *values in _ATTRIBUTE.findall(start[0] if start else self.raw):
            found.setdefault(name.lower(), "".join(values))  # HTML takes the first
        return found


# HTML's elements without an end tag: https://html.spec.whatwg.org/#void-elements
_VOID_ELEMENTS = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img"}
    | {"input", "link", "meta", "param", "source", "track", "wbr"}
)

# A letter of a language that writes it directly beside foreign words.
_U = rf"(?:(?=\w)[{ADJOINING}])"

# Balanced braces, four deep, as in ICU's
# {who, select, other {{n, plural, one {# file} other {# files of {owner}}}}}.
_INNER = "[^{}]*+"
for _ in range(4):
    _INNER = rf"(?:[^{{}}]++|\{{{_INNER}\}})*+"
_ICU_CHOICE = rf",[{_S}]*+(?:plural|select|selectordinal)[{_S}]*+,"
_ICU_FORMAT = (
    rf",[{_S}]*+(?:number|date|time|ordinal|duration|spellout|list|choice)[{_S}]*+(?:,[^{{}}]*+)?"
)
_FORMAT = (
    rf"(?:[:!](?![{_S}])[^{{}}]*+(?:\{{[^{{}}]*+\}}[^{{}}]*+)*+)?"  # C#'s, Python's and Rust's
)
# GNU's old `quoting' is text. What follows the second quote tells it from code with strings.
_GNU_QUOTED = r"`[^`'\n]+'(?:[\s.,:;!?)]|\Z)"
_PRINTF = r"""[-+\#0]*+(?:\d++|\*)?(?:\.(?:\d++|\*))?
    (?:hh?|ll?|[Lqjzt])?[diouxXeEfFgGcrsSpaA@]"""
# Of reStructuredText, before code or the text of a link.
_ROLE = rf"(?:(?<!{_W}|:):[A-Za-z0-9_.+\-]++(?::[A-Za-z0-9_.+\-]++){{0,2}}+:)?"
# Its code and Markdown's, which begins and ends without a space: TeX's ``quotes'' are text.
_CODE = r"``(?=\S|\x20`)[^`\n]+(?:`[^`\n]+)*(?:(?<!\s)|(?<=`\x20))``"
# In "$US50" and "$A1.5 million"; "$A1" is the cell of a table.
_CURRENCY = r"(?:(?:AU|CAN?|HK|NT|NZ|SG|US)(?![A-Z_])|[ACS]\d[.,]?\d)"
# Placeholders, by how they begin.
_SYMBOLS = rf"""
    (?<!\S)/(?:(?:(?:{_W}|[.\-])++|{_U}++)/)++         # a path
    (?:(?:{_W}|[.\-])*{_W}|(?!\p{{Hiragana}}){_U}++(?=[.,;:!?)]*+(?:\s|\Z)))
  | (?<!{_W}|[/.:\-~])
    (?:/(?:(?:{_W}|[.\-])++/)+|(?:\.\.?|~)/(?:(?:{_W}|[.\-])++/)*+)(?:{_W}|[.\-])*{_W}
  | {_ROLE}(?:{_CODE}|(?!{_GNU_QUOTED})(?<!`)`[^`\n]+`(?!`)(?:__?(?!{_W})|(?!{_W}|%)))
  | \[[\w\#*.\-]++\]_(?!{_W})                        # reStructuredText's footnotes
  | (?<![\w|])\|[A-Za-z][\w.\-]*+\|(?![\w|])         # and its substitutions
  | (?<=[\w.!?)\]}}%])\|(?=[\w{{%\[\]])              # Symfony, between forms of plurals
  | [\[\]]-?(?:\d++|Inf),[{_S}]?-?(?:\d++|Inf)[\[\]]  # and their numbers
  | (?<!{_W}|[:/]):[a-z+\-][a-z0-9_+\-]*+:(?!{_W}|[:/`])  # :smile:
  | (?<!{_W}|[@!:/])[@!:](?:(?i:count|attribute)|[a-z]++(?:_[a-z0-9]++)++)(?!{_W})  # Drupal's
  | (?<!{_W}|\.)@(?:\.[a-z]+)?:                       # Vue's links
    (?:\(\w[\w.]*\)|{_W}(?:(?:{_W}|\.)*{_W})?)
  | \{{\{{(?:[^{{}}]++|\{{[^{{}}]*+\}})*+\}}\}}
  | \{{[{_S}]*+\w++[{_S}]*+(?:{_ICU_CHOICE}{_INNER}|{_ICU_FORMAT})\}}
  | [$%\#]?\{{[{_S}]*+[\w.$\[\]\-]*+[{_S}]*+(?:,[{_S}]*+-?\d++)?{_FORMAT}\}}
  | (?:\{{\$\w|[$\#]\{{)[^{{}}\n]++\}}                 # Moodle, Smarty; JavaScript, Ruby
  | \$(?:\[\w+\]|\(\w+\))                          # OpenOffice
  | \$t\([^()\n]++\)                               # i18next
  | (?<!{_W}|\$)\$(?!{_CURRENCY})[A-Z][A-Z0-9_]++\$?(?!{_W})
  | \[%[^\[\]%\n]++%\]
  | \#\#\#[\w.\-]+\#\#\#                             # TYPO3
  | \*\|[^|\s]++\|\*                               # Mailchimp
  | \[\[[\w.+*${{}}\-]++\]\]
  | \[%(?:\d+\$)?[a-z]+(?::\w+)?\]                 # Lokalise
  | \[X\d+X\]                                     # Weblate, in place of what it protects
  | %\([\w.\-]+\)[-+\#0]*+[\d.]*+[a-zA-Z]         # Python
  | (?<!\d)%(?:<\w+>|&lt;\w+&gt;)[-+\#0]*+[\d.]*+[a-zA-Z]  # Ruby
  | %\d+![^!\s]++!                                 # Windows
  | %\#@\w+@                                       # Apple's stringsdict
  | (?<!\d)%[A-Za-z_]{_W}*+(?:\.{_W}++)++%(?!{_W})  # Mailgun's %recipient.name%
  | (?<!\d)%[A-Za-z_][A-Za-z0-9_]++(?:%(?!{_W}|%|[-+\#'.]?\d))?  # Symfony's %name%, Drupal's %name
  | (?<!\d)%(?:\d+\$)?{_PRINTF}
  | (?<!\d)%[\-_0^\#]?[EO]?[A-Za-z](?![A-Za-z])     # dates, as in %H:%M
  | (?<!\d)%L?(?:n(?!{_W})|[1-9]\d?(?![\d%]|[.,]\d))  # Qt and KDE, but not Turkish %3,2
  | (?<!\d)%%(?:[A-Za-z_]{_W}++%%)?
  | \\[nrt](?![a-z])
  | \p{{RI}}\p{{RI}}
"""
# What follows `&` in an entity. URLs hold it alone, or escaped, which HTML in XML is twice.
_REFERENCE = r"(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{0,31});"
_AND = r"&(?:(?:amp;)++|\#0*+38;|\#[xX]0*+26;)"
# Of a URL: ASCII, letters of words between spaces with signs within them, and others if the URL
# goes on after them. Or these end it after a / or = of its path, where white space is on both
# sides, as in https://ja.wikipedia.org/wiki/...
_IN_URL = rf"""(?:(?!&{_REFERENCE})[^\s<>\"'`{{}}\x80-\U0010ffff] | {_W}
  | (?![\x00-\x7f])[·‐–\p{{Sc}}\p{{Sm}}](?={_W}) | ’(?=\p{{Lu}})
  | {_U}++(?=/|[.?\#=_\-][A-Za-z0-9]))"""
_IN_BRACKETS = rf"(?:{_AND}|(?![()\[\]]){_IN_URL})*+"
_IN_BRACKETS = rf"(?:{_AND}|(?![()\[\]]){_IN_URL}|\({_IN_BRACKETS}\)|\[{_IN_BRACKETS}\])*+"
_URL_PART = rf"(?:{_AND} | \({_IN_BRACKETS}\) | \[{_IN_BRACKETS}\])"
_HOST = rf"(?:(?:[A-Za-z0-9\-]++\.)*+(?:{_U}++\.)++{_U}*+)"  # of such letters
_URL_STEP = rf"""(?:[.,;:!?)\]]*+
    (?:[A-Za-z0-9/=_\-%+]++|{_URL_PART}|(?![.,;:!?)\]]){_IN_URL}))"""
_LONGEST_URL = 300  # this limit keeps time linear
_REST = r"(?:[\w\u30fb\#+,%=.\-/?]|\([^()\s<>]*+\))"
_LAST = rf"""(?:(?={_U})(?!\p{{Hiragana}})(?={_REST}*+[;:!]*+(?:[\s<>\"')\]]|\Z))
    (?<=(?<!{_U})\b(?:https?|ftp)://[^\s/]{{1,{_LONGEST_URL}}}/\S{{0,{_LONGEST_URL}}}[/=])
    {_REST}*(?<=[\w)]))"""
_ZWJ = r"(?:\u200D|&(?:zwj|\#8205|\#[xX]200[dD]);)"
_PROTECTED = rf"""
    (?=[/.~`:\[\]|@!{{$%\#*\\\p{{RI}}]) (?:{_SYMBOLS})
  | (?:https?|ftp|file)://(?:{_HOST}|{_URL_STEP}){_URL_STEP}*+{_LAST}?+
  | (?:(?<![A-Za-z0-9_.+\-])(?<!{_W})(?:[A-Za-z0-9_.+\-]|{_W})++|(?<!\S){_U}++)
    @(?:(?:(?:(?:[A-Za-z0-9\-]|{_W})++|{_U}++)\.)+(?:[A-Za-z0-9\-]|{_W})++
      |(?:{_U}++\.)+{_U}++(?=[.,;:!?]*+(?:\s|\Z)))
  | [0-9\#*]\uFE0F?\u20E3
  | (?:\p{{Emoji_Presentation}}|\p{{Extended_Pictographic}}[\uFE0E\uFE0F])[\p{{EMod}}\uFE0E\uFE0F]*
    (?:{_ZWJ}\p{{Extended_Pictographic}}[\p{{EMod}}\uFE0E\uFE0F]*)*
"""
TO_LINE = str.maketrans(HIDDEN)
FROM_LINE = str.maketrans({hidden: shown for shown, hidden in HIDDEN.items()})

# Templates in a start tag may have quotes and `>`. The limit keeps time linear where they have no
# end.
_TEMPLATE = r"""<%(?:(?!%>).){0,299}+%> | <\?(?:(?!\?>).){0,299}+\?>
  | \{%(?:(?!%\}).){0,299}+%\} | \{\{(?:(?!\}\}).){0,299}+\}\}"""
_ATTRIBUTES = {
    HTML: rf"""(?: [^<>={{]++ | {_TEMPLATE} | \{{
      | =[{_S}]*+(?: "(?:[^"<{{]++|{_TEMPLATE}|[<{{])*+" | '(?:[^'<{{]++|{_TEMPLATE}|[<{{])*+'
          | [^{_S}<>"'{{][^{_S}<>{{]*+ )?
    )*+""",
    XML: r"""(?:(?:[^<>"']++|"[^"]*+"|'[^']*+')*+|[^<>]*+)""",
}
# A number is the name of a tag in messages of React: <0>text</0>.
_NAME = {
    HTML: rf"(?:[A-Za-z][^{_S}/<>]*+|\d++(?=/?>))",
    XML: rf"(?:[A-Za-z_][^{_S}/<>\"']*+|\d++(?=[{_S}/>]))",
}

# Browsers read these, though they lack the semicolon.
_UNENDED = "|".join(
    [
        r"\#[0-9]{1,7}(?![0-9])",
        r"\#[xX][0-9a-fA-F]{1,6}(?![0-9a-fA-F])",
        *sorted((name for name in html5 if name[-1] != ";"), reverse=True),  # &notin before &not
    ]
)

# Elements of HTML whose text has no tags. That of the latter nobody sees.
_SHOWN_RAW = frozenset({"iframe", "plaintext", "textarea", "xmp"})
_RAW = "|".join(sorted(_SHOWN_RAW | {"noembed", "noframes", "script", "style"}))


class _Opening(NamedTuple):
    """What begins with a string of its own and ends with another, whatever is between.

    Attributes:
        start: how it begins.
        end: how it ends.
        runs_on: whether it goes on to the end of the text where it has no end; else it is a tag
            then, or no tags at all.
    """

    start: str
    end: str
    runs_on: bool = False


# In the order in which they are tried.
_OPENINGS = {
    HTML: (
        _Opening("<!--(?!-?>)", "--!?>", True),
        _Opening(rf"<\?(?:php(?!\w)|=|[{_S}])", r"\?>", True),
        _Opening(r"<(?:[!?]|/(?![A-Za-z]|\d++>))", ">", True),
        _Opening("<%", "%>"),
        _Opening(rf"<\#[{_S}=@+-]", r"\#>"),
        _Opening(r"<[\#@][A-Za-z]", ">"),
        _Opening(r"<\{\{", r"\}\}[^<>]*+>"),
        *(
            _Opening(rf"\{{%-?[{_S}]*+{name}(?!\w)", rf"\{{%-?[{_S}]*+end{name}[{_S}]*+-?%\}}")
            for name in ("comment", "highlight", "javascript", "schema", "style", "stylesheet")
        ),
        _Opening(r"\{%(?!\w+\})", r"%\}"),
        _Opening(rf"\{{\#[{_S}-]", r"\#\}"),
    ),
    XML: (
        _Opening("<!--", "-->"),
        _Opening(r"<!\[CDATA\[", r"\]\]>"),
        _Opening(r"<\?", r"\?>"),
        _Opening(r"<!DOCTYPE[^<>\[]*+\[", rf"\][{_S}]*+>"),
    ),
}
_WITHOUT_PREFIX = regex.compile(r"\A(?!ac:).*:", regex.DOTALL)
_FLAGS = regex.VERBOSE | regex.DOTALL | regex.V0
_PLACEHOLDER = rf"(?P<protected>{_PROTECTED}) | (?P<bracketed>{BRACKETED})"
# In plain text: templates, and reStructuredText's links, `text <address>`_ and :ref:`text <label>`.
_PLAIN = rf"""(?=[<`:\x20]) (?:
    (?P<protected><%[=\-]?[{_S}][^%<>\n]++%>)
  | (?P<link>{_ROLE}`(?=[^`<>\n]*[^`<>\s]\x20<[^`<>\n]++>`))
  | (?P<linked>\x20<[^`<>\n]++>`(?:__?(?!{_W}))?)
)"""


@functools.cache
def _pattern(kind: str) -> regex.Pattern[str]:
    """Returns what finds the next tag, entity, opening or protected piece.

    Few processes need it, and each kind takes 0.05 seconds to compile.
    """
    if kind == PLACEHOLDERS:
        return regex.compile(rf"{_PLAIN} | {_PLACEHOLDER}", _FLAGS)
    starts = [opening.start for opening in _OPENINGS[kind]]
    openings = "|".join(f"(?P<opened{i}>{start})" for i, start in enumerate(starts))
    attributes, name = _ATTRIBUTES[kind], _NAME[kind]
    raw = rf"<(?P<raw>(?i:{_RAW}))(?=[{_S}/>]){attributes}> |" if kind == HTML else ""
    unended = f"| {_UNENDED}" if kind == HTML else ""
    return regex.compile(
        rf"""
            (?: (?P<opening>(?={openings})) | )
            (?: {raw} (?P<hidden> <[!?][^<>]*+> | </> )
              | <(?P<close>/)?(?P<name>{name}){attributes}>
              | (?P<entity>&(?:{_REFERENCE} {unended}))
              | {_PLACEHOLDER}
              | (?P<none>{"|".join(starts)})
            )
        """,
        _FLAGS,
    )


_ENDS = {
    opening: regex.compile(opening.end, _FLAGS) for kind in _OPENINGS for opening in _OPENINGS[kind]
}
_RAW_ENDS = {
    name: regex.compile(rf"</{name}(?=[{_S}/>])[^>]*+>?", regex.IGNORECASE)
    for name in _RAW.split("|")
}
_OUTPUT = regex.compile(r"<[%?#](?:=|-(?!-))")  # a template's, which stands for words
# In a script, a comment in which another script begins ends with that.
_SCRIPT = regex.compile(rf"<!--(?:-?>)?|-->|<(/)?script(?=[{_S}/>])", regex.IGNORECASE)

_UNQUOTED = regex.compile(r"""[^"'=]++=[^"']""")
_START_TAG = regex.compile(r"""<(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
_ATTRIBUTE = regex.compile(
    rf"""[{_S}/]([^{_S}/<>=]++)(?:[{_S}]*+=[{_S}]*+(?:"([^"]*+)"|'([^']*+)'|([^{_S}>"']*+)))?"""
)

_XML_ENTITIES = frozenset(["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"])
_NOT_PRINTABLE = "\u00a0\u202f\u200c\u200d"  # spaces that do not break, and joiners of letters
_ICU_MESSAGE = regex.compile(rf"\{{[{_S}]*+\w++[{_S}]*+{_ICU_CHOICE}")


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
    pairs = pairs_in(segment)
    for match, place, group in _found(segment, kind, pairs):
        start = match.start()
        if start > end:
            text = segment[end:start]
            yield Token(TokenKind.TEXT, text, text=text)
        yield _token(match, group, segment[start:place], kind == XML, pairs)
        end = place
    if end < len(segment):
        yield Token(TokenKind.TEXT, segment[end:], text=segment[end:])


def _found(
    segment: str, kind: str, pairs: frozenset[str]
) -> Iterator[tuple[regex.Match[str], int, str | None]]:
    """Yields the match of each token but text, where it ends, and the group of what it is."""
    # The next end of each opening. It is looked for once: where many begin and none ends, to look
    # from each would take the square of n.
    ends: dict[_Opening, regex.Match[str] | None] = {}
    place = 0
    while match := _pattern(kind).search(segment, place):
        group = match.lastgroup
        start, place = match.span()
        if group == "bracketed" and not is_code(match[0], pairs):
            place = start + 1
            continue
        is_opening = kind in _OPENINGS and match["opening"] is not None
        for i, opening in enumerate(_OPENINGS[kind] if is_opening else ()):
            if match[f"opened{i}"] is None:
                continue
            begins = match.end(f"opened{i}")
            known = ends.get(opening)
            if opening not in ends or (known and known.start() < begins):
                ends[opening] = known = _ENDS[opening].search(segment, begins)
            if known or opening.runs_on:
                place = known.end() if known else len(segment)
                group = "protected" if _OUTPUT.match(segment, start) else "hidden"
            break
        if group == "raw":
            place = _end_of_raw(segment, place, match["raw"].lower())
        if group != "none":
            yield match, place, group


def _end_of_raw(segment: str, place: int, name: str) -> int:
    """Returns where an element ends whose text has no tags, and begins at a place."""
    if name == "script":
        place = _end_of_script(segment, place)
    closing = _RAW_ENDS[name].search(segment, place) if name != "plaintext" else None
    return closing.end() if closing else len(segment)


def _end_of_script(segment: str, place: int) -> int:
    """Returns where the end tag of a script begins whose text begins at a place."""
    in_comment = in_script = False
    for match in _SCRIPT.finditer(segment, place):
        if match[0].startswith("<!--"):
            in_comment |= not match[0].endswith(">")
        elif match[0] == "-->":
            in_comment = in_script = False
        elif not match[1]:
            in_script = in_comment
        elif not in_script:
            return match.start()
        else:
            in_script = False
    return len(segment)


def _token(
    match: regex.Match[str], group: str | None, raw: str, is_xml: bool, pairs: frozenset[str]
) -> Token:
    if group in ("protected", "bracketed"):
        code = named(raw)
        if code is None or code.name not in pairs:
            return Token(TokenKind.PROTECTED, raw)
        return Token(TokenKind.CLOSE if code.closes else TokenKind.OPEN, raw, code.name)
    if group in ("link", "linked"):
        return Token(TokenKind.OPEN if group == "link" else TokenKind.CLOSE, raw, "`")
    if group == "hidden":
        return Token(TokenKind.HIDDEN, raw)
    if group == "entity":
        return _entity(raw, is_xml)
    if group == "raw":
        name = match["raw"].lower()
        return Token(TokenKind.VOID if name in _SHOWN_RAW else TokenKind.HIDDEN, raw, name)
    name = match["name"] or ""
    name = _WITHOUT_PREFIX.sub("", name) if is_xml else name.lower()
    if match["close"]:
        return Token(TokenKind.CLOSE, raw, name)
    if is_xml:
        is_void = raw.endswith("/>")
    else:
        # The value of <a href=x/> is "x/".
        *_, last = raw.split()
        is_void = name in _VOID_ELEMENTS or (raw.endswith("/>") and not _UNQUOTED.match(last))
    return Token(TokenKind.VOID if is_void else TokenKind.OPEN, raw, name)


def _entity(raw: str, is_xml: bool) -> Token:
    """Returns the token of an entity: protected, if it is unknown or shows nothing."""
    is_known = not is_xml or raw.startswith("&#") or raw in _XML_ENTITIES
    text = html.unescape(raw) if is_known else raw
    if text in ("", raw) or not (text.isprintable() or text in _NOT_PRINTABLE):
        return Token(TokenKind.PROTECTED, raw)
    return Token(TokenKind.ENTITY, raw, text=text)
