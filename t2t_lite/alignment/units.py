"""Words of a text, and how those of a translation align to those of its source."""

import difflib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import regex

# A letter of a script without spaces; a word; any other character; with their combining marks.
_UNIT = regex.compile(
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*"
    r"|(?:[\p{L}\p{N}_][\p{M}\u200c\u200d]*+)++(?:['’\-](?:[\p{L}\p{N}_][\p{M}\u200c\u200d]*+)++)*+"
    r"|\S[\p{M}\u200c\u200d\ufe0f]*+",
    regex.V0,
)
_HIDDEN_TOKENS = frozenset(["<pad>", "<EOS>"])
_MOST_COMPARED = 2**22  # characters of the text times those of its tokens
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
    by_position = _by_position(len(target_units), len(source_units))
    if attention is None or not by_position.size:
        return by_position
    to_tokens = word_attention(target, target_units, target_tokens, attention)  # [U, S]
    found = word_attention(source, source_units, source_tokens, to_tokens.T).T  # [U, V]
    found = np.where(np.isfinite(found), found, 0.0)
    words = np.array([source[start:end] for start, end in source_units])
    for number, (start, end) in enumerate(target_units):
        found[number, words == target[start:end]] *= _COPY
    total = found.sum(axis=1, keepdims=True)
    return np.where(total > 0, found / np.where(total > 0, total, 1.0), by_position)


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
    return _shares(text, units, tokens) @ attention.astype(np.float64)


def _by_position(targets: int, sources: int) -> np.ndarray:
    """Returns an alignment [U, V] along the diagonal."""
    if not targets or not sources:
        return np.zeros([targets, sources])
    rows = (np.arange(targets) + 0.5)[:, None] / targets
    columns = (np.arange(sources) + 0.5)[None] / sources
    nearness = np.exp(-np.abs(rows - columns) * max(targets, sources) / _SPREAD)
    return nearness / nearness.sum(axis=1, keepdims=True)


def _shares(text: str, units: Sequence[Unit], tokens: Sequence[str]) -> np.ndarray:
    """Returns which share of each of N tokens' characters is in each of U words, [U, N]."""
    owner = token_of_characters(text, tokens)
    shares = np.zeros([len(units), len(tokens)])
    for number, (start, end) in enumerate(units):
        for token in owner[start:end]:
            if token >= 0:
                shares[number, token] += 1.0
    return shares / np.maximum(shares.sum(axis=0), 1.0)


def token_of_characters(text: str, tokens: Sequence[str]) -> list[int]:
    """Returns for each character of a text the token that it comes from; -1 for white space.

    Tokens, whatever vocabulary they are of, differ from the text in white space, and where a
    character is made of several: each is then shown as U+FFFD. What cannot be matched belongs to
    the token of the character before it, and the first ones to the first token.
    """
    letters: list[str] = []
    owners: list[int] = []
    for number, token in enumerate(tokens):
        if token not in _HIDDEN_TOKENS:
            visible = "".join(token.split())
            letters += visible
            owners += [number] * len(visible)
    places = [i for i, character in enumerate(text) if not character.isspace()]
    wanted = [text[i] for i in places]
    found = [-1] * len(text)
    if wanted == letters:
        matched: Iterable[tuple[int, int]] = enumerate(range(len(places)))
    elif len(wanted) * len(letters) > _MOST_COMPARED:
        scale = len(letters) / max(len(places), 1)
        matched = ((i, int(i * scale)) for i in range(len(places)) if letters)
    else:
        blocks = difflib.SequenceMatcher(None, wanted, letters, autojunk=False)
        matched = (
            (block.a + i, block.b + i)
            for block in blocks.get_matching_blocks()
            for i in range(block.size)
        )
    for i, letter in matched:
        found[places[i]] = owners[letter]
    last = owners[0] if owners else -1
    for place in places:
        last = found[place] = found[place] if found[place] >= 0 else last
    return found
