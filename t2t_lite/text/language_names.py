"""Names of languages: which code of a model a user means who writes "German", "de" or "deu".

Models name languages by ISO 639-1 (`de`), by ISO 639-3 (`deu`), and with a script (`deu_Latn`). The
table of names and equal codes is in `language_names.json`, with its source and licence.
"""

import functools
import json
import pathlib
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from t2t_lite.errors import UsageError, closest

_SEPARATOR = re.compile("[-_]")
_CODE = re.compile("[A-Za-z]+(?:[-_][A-Za-z0-9]+)*")

# How alike a name and its misspelling are at least: "Deutsch" and "Dutch" are 0.83 alike.
_LIKE_NAMES = 0.85


class _Tag(NamedTuple):
    """A code in one spelling for all standards, in lower case."""

    language: str  # by ISO 639-1 if it has such a code; an individual language as its macrolanguage
    region: str
    script: str


# What two tags may share for one to mean the other, strictest first.
_LIKENESSES: tuple[Callable[[_Tag], Any], ...] = (
    lambda tag: tag,
    lambda tag: (tag.language, tag.region),
    lambda tag: tag.language,
)


def require_code(flag: str, code: str) -> None:
    """Raises UsageError unless a flag's value may be the code of a language."""
    if not _CODE.fullmatch(code):
        raise UsageError(f"--{flag}={code}: expected the code of a language, such as en")


def english_name(code: str) -> str:
    """Returns the English name of the language with a code; "" if the table has none."""
    names, language = _table()["names"], _SEPARATOR.split(code)[0].lower()
    tag = _tag(code)
    known = (f"{tag.language}_{tag.script.title()}", language, _canonical(language), tag.language)
    return next((names[key] for key in known if key in names), "")


def meant(text: str, codes: Iterable[str]) -> list[str]:
    """Returns those of a model's codes that a text may mean.

    Args:
        text: a code of another standard, an English name, or a misspelling of these or of a code.
        codes: the model's.

    Returns:
        All codes of the same language; else those of its kinds (Norwegian has two); else, unless
        the text is right and the model does not know the language, the one spelled most alike.
    """
    known, names = sorted(codes), _table()["names"]
    words = _words(english_name(text) or text)
    named = [code for code, name in names.items() if _words(name) == words]
    for code in (text, *named):
        if alike := same_language(code, known):
            return alike
    if named:
        return [code for code in known if words < _words(english_name(code))]
    by_name = {name.casefold(): code for code in known if (name := english_name(code))}
    by_code = {code.casefold(): code for code in known}
    given = text.casefold()
    return [by_name[name] for name in closest(given, by_name, _LIKE_NAMES)] or [
        by_code[code] for code in closest(given, by_code)
    ]


def same_language(code: str, codes: Iterable[str]) -> list[str]:
    """Returns those of some codes that stand for the language of a code of any standard.

    Script and region count if they can: `pt_PT` is not `pt_BR` where both are among the codes.
    """
    tag, known = _tag(code), sorted(codes)
    for likeness in _LIKENESSES:
        if alike := [other for other in known if likeness(_tag(other)) == likeness(tag)]:
            return alike
    return []


def base_code(code: str) -> str:
    """Returns a code's language alone, by ISO 639-1 if it has such a code: `de` of `deu_Latn`."""
    return _tag(code).language


@functools.cache
def _table() -> dict[str, Any]:
    """Returns "names" by code, and "aliases": the code of the names for each of its synonyms."""
    path = pathlib.Path(__file__).with_suffix(".json")
    return json.loads(path.read_text(encoding="utf-8"))


def _canonical(language: str) -> str:
    return _table()["aliases"].get(language, language)


def _tag(code: str) -> _Tag:
    language, *others = _SEPARATOR.split(code.lower())
    language, *implied = _SEPARATOR.split(_canonical(language).lower())
    region = script = ""
    for part in (*implied, *others):
        if len(part) == 4 and part.isalpha():
            script = part
        else:
            region = part
    return _Tag(language, region, script)


def _words(name: str) -> frozenset[str]:
    """Returns the words of a name, so that "Chinese (simplified)" is "Simplified Chinese"."""
    return frozenset(re.findall(r"\w+", name.casefold()))
