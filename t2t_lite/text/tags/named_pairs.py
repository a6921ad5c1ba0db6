"""Codes in brackets and braces, of which some open and close as the tags of an element do.

Such are shortcodes and BBCode, `[button class="x"]text[/button]`, and pairs of placeholders,
`%{linkStart}text%{linkEnd}`.
"""

from typing import NamedTuple

import regex

from t2t_lite.text.tags.kinds import SPACE as _S

# A code, or a word in brackets.
BRACKETED = rf"\[/?[A-Za-z][\w\-]*+(?:[=:{_S}][^\[\]<>\n]*+)?\]"
_SIDE = r"(?P<side>start|begin|open|end|close)"
_OF = r"""(?P<of>(?:\w+[_\-])?(?:[abiu]|em)|\w*?(?:anchor|bold|button|code|emphasis|italics?
    |kbd|link|span|strong|tag|underline|url))"""
_NAMED = regex.compile(
    rf"""
      \[(?P<closes>/)?(?P<name>[A-Za-z][\w\-]*+)(?P<rest>[=:{_S}][^\[\]<>\n]*+)?\]
    | [%$\#]?\{{\{{?[{_S}]*+(?:{_OF}[_\-]?{_SIDE}|{_SIDE}[_\-]?{_OF})[{_S}]*+\}}\}}?
    """,
    regex.VERBOSE | regex.IGNORECASE,
)
# As in [a=1], [a b="1"] and [a /]; or as in Drupal's [site:name].
_ATTRIBUTES = regex.compile(
    rf"=[^{_S}]|[{_S}]+[\w\-:]+=[^{_S}]|.*[{_S}]/\Z|(?::[a-z][\w\-]*+)+\Z", regex.DOTALL
)


class Named(NamedTuple):
    """A code with a name.

    Attributes:
        name: what it shares with its partner.
        closes: whether it is the second one of a pair.
    """

    name: str
    closes: bool


def named(code: str) -> Named | None:
    """Returns what a code says of itself; None: it belongs to no pair."""
    match = _NAMED.fullmatch(code)
    return _of(match) if match else None


def pairs_in(text: str) -> frozenset[str]:
    """Returns the names of codes that both open and close in a text."""
    if "[/" not in text and "{" not in text:
        return frozenset()
    codes = {*map(_of, _NAMED.finditer(text))}
    closed = {code.name for code in codes if code.closes}
    return frozenset(code.name for code in codes if not code.closes and code.name in closed)


def is_code(bracketed: str, pairs: frozenset[str]) -> bool:
    """Returns whether brackets hold a code, and not words.

    Args:
        bracketed: the brackets and what is in them.
        pairs: from `pairs_in`.
    """
    match = _NAMED.fullmatch(bracketed)
    assert match, "it has brackets"
    name, closes = _of(match)
    has_key = "_" in match["name"] and match["name"].isascii()  # not [délka_periody]
    is_alone = bool(closes or has_key or _ATTRIBUTES.match(match["rest"] or ""))
    return is_alone or name in pairs


def _of(match: regex.Match[str]) -> Named:
    if match["name"]:
        return Named(f"[{match['name'].lower()}]", bool(match["closes"]))
    return Named(f"{{{match['of'].lower()}}}", match["side"].lower() in ("end", "close"))
