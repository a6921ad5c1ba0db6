"""Codes of XLIFF and TMX that open and close by their ids, as the tags of an element do."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from t2t_lite.text.tags.kinds import XML
from t2t_lite.text.tags.tokens import Token, TokenKind, tokens_of

# What opens and what closes, with the attributes that name the pair, the first one that is there.
_PAIRS = {
    "bpt": ("ept", ("rid", "id", "i"), ("rid", "id", "i")),
    "bx": ("ex", ("rid", "id"), ("rid", "id")),
    "sc": ("ec", ("id",), ("startref",)),
    "sm": ("em", ("id",), ("startref",)),
}
_CLOSING = {closing: opening for opening, (closing, *_) in _PAIRS.items()}
_POSITIONS = {
    "open": TokenKind.OPEN,
    "begin": TokenKind.OPEN,
    "close": TokenKind.CLOSE,
    "end": TokenKind.CLOSE,
}
_ANGULAR = {"START_": TokenKind.OPEN, "CLOSE_": TokenKind.CLOSE}
_NUMBER = re.compile(r"_\d+\Z")  # START_LINK and START_LINK_1 both end at CLOSE_LINK
# What a `ph` says of itself: <ph id="1">&lt;b class="x"&gt;</ph>; for "&", another character may
# stand there.
_TAG = re.compile(r"<[^<>]*>\s*(?:<!\[CDATA\[<|.lt;)(/?)([A-Za-z][\w:.-]*)(?:[^/]|/(?!>|.gt;))*")
_NAMES = frozenset([*_PAIRS, *_CLOSING, "it", "ph", "x"])
CODES = frozenset(["bpt", "ept", "it", "ph"])  # those that hold something


class _Code(NamedTuple):
    """A code: one of a pair, or whatever else stands there.

    Attributes:
        tokens: all of it.
        side: whether it opens or closes; None: neither.
        pair: what it shares with its partner alone.
    """

    tokens: Sequence[Token]
    side: TokenKind | None = None
    pair: str = ""


def paired(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yields tokens in which codes with a partner are the start and the end tags of elements."""
    codes = [*_codes([*tokens])]
    partners: set[int] = set()
    opened: dict[str, list[int]] = defaultdict(list)
    for i, code in enumerate(codes):
        if code.side is TokenKind.OPEN:
            opened[code.pair].append(i)
        elif code.side and opened[code.pair]:
            partners |= {i, opened[code.pair].pop()}
    for i, code in enumerate(codes):
        if i in partners and code.side:
            yield Token(code.side, "".join(token.raw for token in code.tokens), code.pair)
        else:
            yield from code.tokens


def in_order(text: str, source: str) -> str:
    """Returns a translation in which no code closes before its partner opens.

    This can happen to pairs that overlap, which no elements can be.

    Args:
        text: a translation in XML.
        source: what it is the translation of; what closes before it opens there may do so.
    """
    with_partner = {token.raw for token in paired(tokens_of(source, XML)) if " " in token.name}
    if not with_partner:
        return text
    codes = [*_codes([*tokens_of(text, XML)])]
    raws = ["".join(token.raw for token in code.tokens) for code in codes]
    opened = Counter[str]()
    closed: dict[str, list[int]] = defaultdict(list)  # where one closes that is not open
    for i, code in enumerate(codes):
        if raws[i] not in with_partner or not code.side:
            continue
        if code.side is TokenKind.OPEN and closed[code.pair]:
            other = closed[code.pair].pop()
            raws[i], raws[other] = raws[other], raws[i]
        elif code.side is TokenKind.OPEN:
            opened[code.pair] += 1
        elif opened[code.pair]:
            opened[code.pair] -= 1
        else:
            closed[code.pair].append(i)
    return "".join(raws)


def _codes(tokens: Sequence[Token]) -> Iterator[_Code]:
    place = 0
    while place < len(tokens):
        token, end = tokens[place], place + 1
        if token.name in _NAMES and token.kind is TokenKind.OPEN:
            closing = TokenKind.CLOSE, token.name
            if token.name in CODES:
                while end < len(tokens) and tokens[end - 1][::2] != closing:
                    end += 1
            elif tokens[end : end + 1] and tokens[end][::2] == closing:
                end += 1  # else it is HTML's <em>, say
        if token.name in _NAMES and token.kind in (TokenKind.OPEN, TokenKind.VOID):
            yield _Code(tokens[place:end], *_side(token, tokens[place + 1 : end]))
        else:
            yield _Code([token])
        place = end


def _side(token: Token, rest: Sequence[Token]) -> tuple[TokenKind | None, str]:
    """Returns whether a code opens or closes, and the name of its pair; it has no space in tags.

    Args:
        token: its tag.
        rest: what follows in it.
    """
    given, name = token.attributes(), token.name
    if name == "ph":
        tag = _TAG.fullmatch(token.raw + "".join(one.raw for one in rest))
        side = (TokenKind.CLOSE if tag[1] else TokenKind.OPEN) if tag else None
        return side, f"ph {tag[2] if tag else ''}"
    if name == "x":
        number = given.get("id", "")
        return _ANGULAR.get(number[:6]), f"x {_NUMBER.sub('', number[6:])}"
    if name == "it":
        number = given.get("rid") or given.get("id", "")
        return _POSITIONS.get(given.get("pos", "")), f"it {number}"
    opening = _CLOSING.get(name, name)
    side = TokenKind.OPEN if name == opening else TokenKind.CLOSE
    keys = _PAIRS[opening][1 if side is TokenKind.OPEN else 2]
    number = next((given[key] for key in keys if key in given), "")
    return side if number else None, f"{opening} {number}"
