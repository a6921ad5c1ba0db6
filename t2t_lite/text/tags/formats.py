"""Placeholders by the rules of one programming language, as gettext's flags name it."""

import collections
import functools
import itertools
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.parsers import expat

import regex

from t2t_lite.text.tags.kinds import PLACEHOLDERS, WORD
from t2t_lite.text.tags.tokens import TokenKind, tokens_of


class Format(NamedTuple):
    """The placeholders of a language.

    Attributes:
        directive: what matches one.
        special: characters that stand for nothing but (a part of) a directive.
        has_numbers: whether `%2$s` is the second argument, wherever it stands.
        has_names: whether each says which argument it is.
    """

    directive: re.Pattern[str] | regex.Pattern[str]
    special: str = ""
    has_numbers: bool = False
    has_names: bool = False


_WIDTH = r"(?:\d++|\*(?:\d+\$)?)?"
_PRINTF = (
    rf"%(?:\d+\$|\d+:|\([^()\n]+\)|<(?!PRI)\w+>)?(?:[-+ #0'I]|,(?=\S))*+{_WIDTH}(?:\.{_WIDTH})?"
    r"(?:<PRI\w+>|(?:hh|ll|[hlLqjztZ])?[diouxXeEfFgGaAcCsSpnmbBr@%]|[tT][A-Za-z]?|vd|[jqO]"
    r"|\{\w+\})"
)
_printf = Format(re.compile(_PRINTF), "%")
_numbered = Format(re.compile(_PRINTF), "%", has_numbers=True)
_gcc = Format(re.compile(r"%[-+ #0.*\d$]*[qlw]*(?:hh|[a-zA-Z<>'%])"), "%")
_BRACES = r"\{(?:[^{}]++|\{[^{}]*+\})*+\}"
_braces = Format(re.compile(rf"\{{\{{|\}}\}}|{_BRACES}"), "{}")
# Java doubles an apostrophe; what stands between single ones is not a placeholder.
_quoting = Format(re.compile(rf"''|'[^']+'|{_BRACES}"), "{}'", has_names=True)
_arguments = Format(re.compile(r"%L?\d+|%L?n\b", re.ASCII))
_go = Format(
    re.compile(r"%[-+ #0]*+(?:\[\d+\])?(?:\d++|\*)?(?:\.[\d*]*+)?(?:\[\d+\])?[a-zA-Z%]"), "%"
)
_tildes = Format(re.compile(r"~(?:[-+\d,#v:@]|'.)*[a-zA-Z%&|~$<>^(){}\[\];?*]"), "~")

FORMATS = {
    **dict.fromkeys(("c", "objc", "php", "perl", "java-printf", "sh-printf"), _numbered),
    **dict.fromkeys(("python", "ruby", "awk", "lua", "tcl", "elisp", "librep", "d"), _printf),
    **dict.fromkeys(("object-pascal", "modula2", "javascript", "ocaml"), _printf),
    **dict.fromkeys(("gcc-internal", "gfc-internal"), _gcc),
    **dict.fromkeys(("python-brace", "perl-brace", "rust", "c++"), _braces),
    "java": _quoting,
    **dict.fromkeys(("csharp", "c-sharp", "vue"), _braces),
    **dict.fromkeys(("qt", "qt-plural", "kde", "kde-kuit"), _arguments),
    **dict.fromkeys(("smalltalk", "ycp"), Format(re.compile(r"%[\d%]"), "%")),
    **dict.fromkeys(("lisp", "scheme"), _tildes),
    "go": _go,
    "boost": Format(re.compile(rf"%\|[^|]*\||%\d+%|{_PRINTF}"), "%"),
    **dict.fromkeys(("sh", "dart"), Format(re.compile(r"\$\w+|\$\{[^{}]+\}", re.ASCII), "$")),
    "drupal": Format(
        regex.compile(rf"(?<!{WORD}|[@%!:/])[@%!:][A-Za-z][A-Za-z0-9_-]*"), has_names=True
    ),
    "laravel": Format(regex.compile(rf"(?<!{WORD}|[:/]):[A-Za-z][A-Za-z0-9_]*"), has_names=True),
    "mediawiki": Format(re.compile(r"\$\d+"), has_names=True),
}
_FLAG = re.compile(r"(?<![\w-])(?:possible-)?(?!no-|impossible-)([\w+-]+)-format(?![\w-])")
_NAMED = re.compile(r"%\|?\d+[$:]|%L?(?:\d+|n)$|%[(<{]|%\d+%|\{\w|\$")  # says which argument it is
_SPACED = re.compile(r"%[-+#0']* ")
_MARK = re.compile(r"\[X\d+X\]")
_LITERAL = ("%%", "~~", "{{", "}}", "''")
_UNCOUNTED = (*_LITERAL, "%m", "%n")  # no arguments


def format_of(flags: str) -> str:
    """Returns the name of the format that flags such as `fuzzy, c-format` name; "": none."""
    for name in _FLAG.findall(flags):
        if name in FORMATS:
            return name
    return ""


def format_of_file(head: str, plurals: Iterable[str]) -> str:
    """Returns the name of the format of messages without flags; "": it is not known.

    Args:
        head: the header of a .po file, with the comments before it.
        plurals: its texts for many.
    """
    if "Drupal" in head or any("@count" in plural for plural in plurals):
        return "drupal"
    return "mediawiki" if "MediaWiki" in head or "translatewiki" in head else ""


def stood_in(text: str, name: str) -> tuple[str, dict[str, str]]:
    """Returns a text with plain placeholders for those of a format, and what they stand for.

    Those that are placeholders in every text stay as they are, and so does C's in `100% of`. The
    apostrophes of Java's messages are as people write them.
    """
    if not name:
        return text, {}
    taken = {*_MARK.findall(text)}
    free = (mark for n in itertools.count() if (mark := f"[X{n}X]") not in taken)
    meant: dict[str, str] = {}

    def stand_in(match: re.Match[str]) -> str:
        directive, start = match[0], match.start()
        before = text[max(start - 1, 0) : start]
        if directive == "''":
            return "'"
        if _SPACED.match(directive) or ("'" not in directive and _is_protected(before, directive)):
            return directive
        meant[mark := next(free)] = directive
        return mark

    return FORMATS[name].directive.sub(stand_in, text), meant


@functools.lru_cache(1 << 12)
def _is_protected(before: str, directive: str) -> bool:
    """Whether a directive is a placeholder in every text, after another character."""
    *_, last = tokens_of(before + directive, PLACEHOLDERS)
    return last.kind is TokenKind.PROTECTED and last.raw == directive


def agreeing(source: str, target: str, name: str, meant: Mapping[str, str]) -> str | None:
    """Returns a translation with the placeholders of its source, numbered if their order differs.

    Args:
        source: what was translated, before `stood_in`.
        target: its translation.
        name: of the format; "": none.
        meant: from `stood_in`.

    Returns:
        None: it has other placeholders, tags that are no longer well-formed (of KDE's markup), or
        needs numbers that the format does not have.
    """
    if not name:
        return target
    form = FORMATS[name]
    if form is _quoting:
        target = target.replace("'", "''")
    target = _MARK.sub(lambda match: meant.get(match[0], match[0]), target)
    if name == "kde-kuit" and _is_xml(source) and not _is_xml(target):
        return None
    wanted, found = form.directive.findall(source), form.directive.findall(target)
    known = "".join(found)
    if any(target.count(character) != known.count(character) for character in form.special):
        return None
    if "'" in form.special and source.count("'") != "".join(wanted).count("'"):
        return None  # all that follows a single apostrophe is quoted
    if found == wanted:
        return target
    wanted, found = ([one for one in all if one not in _LITERAL] for all in (wanted, found))
    if sorted(found) != sorted(wanted):
        return None
    if found == wanted or form.has_names or all(map(_NAMED.match, wanted)):
        return target
    if not form.has_numbers or any("*" in one or _NAMED.match(one) for one in wanted):
        return None
    places = collections.defaultdict[str, collections.deque[int]](collections.deque)
    for place, one in enumerate((one for one in wanted if one not in _UNCOUNTED), 1):
        places[one].append(place)

    def numbered(match: re.Match[str]) -> str:
        one = match[0]
        return one if one in _UNCOUNTED else f"%{places[one].popleft()}${one[1:]}"

    return form.directive.sub(numbered, target)


def _is_xml(text: str) -> bool:
    """Returns whether the tags of a text are well-formed; it may have any `&`."""
    try:
        expat.ParserCreate().Parse(f"<t>{text.replace('&', '&amp;')}</t>", True)
    except expat.ExpatError:
        return False
    return True
