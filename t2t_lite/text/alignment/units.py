"""Words of a text, and how those of a translation align to those of its source."""

import bisect
import collections
import difflib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import regex

from t2t_lite.text.scripts import UNSPACED

# A letter of a script without spaces between words; a word; any other character; with their
# combining marks.
_UNIT = regex.compile(
    rf"[{UNSPACED}]\p{{M}}*"
    r"|(?:[\p{L}\p{N}_][\p{M}\u200c\u200d]*+)++(?:['’\-](?:[\p{L}\p{N}_][\p{M}\u200c\u200d]*+)++)*+"
    r"|\S[\p{M}\u200c\u200d\ufe0f]*+",
    regex.V0,
)
_HIDDEN_TOKENS = frozenset(["<pad>", "<EOS>"])
# How a text is matched with its tokens where these differ.
_ANCHOR = 3  # characters in a row that show where both go on
_MOST_BYTES = 4  # of a character, each of which may be shown as one
_ASIDE = 16  # characters that tokens may show for none of a text, such as "<UNK>"
_MOST_COMPARED = 2**10  # characters of a part of the text times those of its tokens
_COPY = 10.0  # by how much more a word aligns to an equal one
_MOST_UNITS = 2048  # of a text; of more words, neighbours are taken together
_SPREAD = 0.5  # of an alignment by position, in target words


class Unit(NamedTuple):
    """A word, or a part of it, from one character of a text to another."""

    start: int
    end: int


def units_of(text: str, borders: Iterable[int] = ()) -> list[Unit]:
    """Returns the words of a text in order, cut where a border is within one."""
    units = _cut([Unit(*match.span()) for match in _UNIT.finditer(text)], sorted(set(borders)))
    size = -(-len(units) // _MOST_UNITS) or 1
    groups = [units[i : i + size] for i in range(0, len(units), size)]
    return [Unit(group[0].start, group[-1].end) for group in groups]


def _cut(words: Sequence[Unit], cuts: Sequence[int]) -> list[Unit]:
    """Returns words that are cut where it is said, in order."""
    units, i = [], 0
    for start, end in words:
        while i < len(cuts) and cuts[i] <= start:
            i += 1
        while i < len(cuts) and cuts[i] < end:
            units.append(Unit(start, cuts[i]))
            start, i = cuts[i], i + 1
        units.append(Unit(start, end))
    return units


def align_units(
    source: str,
    source_units: Sequence[Unit],
    target: str,
    target_units: Sequence[Unit],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    attention: np.ndarray | None,
) -> np.ndarray:
    """Returns how much each of U target words corresponds to each of V source words.

    Args:
        source: the source text.
        source_units: its V words.
        target: the target text.
        target_units: its U words.
        source_tokens: S tokens of the source as text, EOS included.
        target_tokens: T tokens of the target.
        attention: [T, S], to the source; None: words align by their position.

    Returns:
        [U, V]; each row sums to 1.
    """
    size = len(target_units), len(source_units)
    if attention is None or not all(size):
        return _by_position(*size)
    to_tokens = word_attention(target, target_units, target_tokens, attention)  # [U, S]
    found = word_attention(source, source_units, source_tokens, to_tokens.T).T  # [U, V]
    np.nan_to_num(found, copy=False, posinf=0.0, neginf=0.0)
    known: dict[str, int] = {}
    kinds, target_kinds = (
        np.array([known.setdefault(text[start:end], len(known)) for start, end in units])
        for text, units in ((source, source_units), (target, target_units))
    )
    np.multiply(found, _COPY, out=found, where=target_kinds[:, None] == kinds)
    total = found.sum(axis=1, keepdims=True)
    unknown = ~(total[:, 0] > 0)
    if unknown.any():
        found[unknown], total[unknown] = _by_position(*size)[unknown], 1.0
    found /= total
    return found


def word_attention(
    text: str, units: Sequence[Unit], tokens: Sequence[str], attention: np.ndarray
) -> np.ndarray:
    """Returns the attention of words, the sum of that of their tokens.

    Args:
        text: the text.
        units: its U words.
        tokens: its T tokens.
        attention: [T, ...].

    Returns:
        [U, ...]; of a token in several words, each has its share.
    """
    owner = token_of_characters(text, tokens)
    sizes = collections.Counter(owner)
    found = np.zeros([len(units), *attention.shape[1:]])
    for row, (start, end) in zip(found, units, strict=True):
        for token, count in collections.Counter(owner[start:end]).items():
            if token >= 0:
                row += count / sizes[token] * attention[token].astype(float)
    return found


def _by_position(targets: int, sources: int) -> np.ndarray:
    """Returns an alignment [U, V] along the diagonal."""
    if not targets or not sources:
        return np.zeros([targets, sources])
    rows = (np.arange(targets) + 0.5)[:, None] / targets
    columns = (np.arange(sources) + 0.5)[None] / sources
    nearness = np.exp(-np.abs(rows - columns) * max(targets, sources) / _SPREAD)
    return nearness / nearness.sum(axis=1, keepdims=True)


def token_of_characters(text: str, tokens: Sequence[str]) -> list[int]:
    """Returns for each character of a text the token that it comes from; -1 for white space.

    Tokens, whatever vocabulary they are of, differ from the text in white space, and where a
    character is made of several: each is then shown as U+FFFD. What cannot be matched belongs to
    the token of the character before it, and the first ones to the first token; a long part is
    spread over its tokens by position.
    """
    owners = [
        number
        for number, token in enumerate(tokens)
        if token not in _HIDDEN_TOKENS
        for _ in range(len("".join(token.split())))
    ]
    letters = "".join("".join(t.split()) for t in tokens if t not in _HIDDEN_TOKENS)
    places = [i for i, character in enumerate(text) if not character.isspace()]
    found = [-1] * len(text)
    for i, letter in _matched("".join(text.split()), letters):
        found[places[i]] = owners[letter]
    last = owners[0] if owners else -1
    for place in places:
        last = found[place] = found[place] if found[place] >= 0 else last
    return found


def _matched(text: str, letters: str) -> Iterator[tuple[int, int]]:
    """Yields the places of equal characters of two nearly equal texts, in order.

    Where they differ, the next ones that both have in a row are looked for: this takes n log n.
    """
    anchors: dict[str, list[int]] = collections.defaultdict(list)
    i = j = 0
    while i < len(text) and j < len(letters):
        if text[i] == letters[j]:
            yield i, j
            i, j = i + 1, j + 1
            continue
        if not anchors:
            for place in range(j, len(letters)):
                anchors[letters[place : place + _ANCHOR]].append(place)
        end, other_end = _next_anchor(text, i, anchors, j) or (len(text), len(letters))
        for k, letter in _compared(text[i:end], letters[j:other_end]):
            yield i + k, j + letter
        i, j = end, other_end


def _next_anchor(
    text: str, start: int, anchors: dict[str, list[int]], least: int
) -> tuple[int, int] | None:
    """Returns where a text and its letters go on to be equal; None: nowhere.

    Args:
        text: the text.
        start: where they begin to differ.
        anchors: the places of all characters in a row among the letters.
        least: where the letters begin to differ.
    """
    for i in range(start, len(text)):
        places = anchors.get(text[i : i + _ANCHOR], [])
        k = bisect.bisect_left(places, least)
        if k < len(places) and places[k] - least <= _MOST_BYTES * (i - start) + _ASIDE:
            return i, places[k]
    return None


def _compared(text: str, letters: str) -> Iterable[tuple[int, int]]:
    """Returns the places of equal characters; by position, if there are many to compare."""
    if len(text) * len(letters) > _MOST_COMPARED:
        return ((i, i * len(letters) // len(text)) for i in range(len(text)))
    blocks = difflib.SequenceMatcher(None, text, letters, autojunk=False).get_matching_blocks()
    return ((block.a + i, block.b + i) for block in blocks for i in range(block.size))
