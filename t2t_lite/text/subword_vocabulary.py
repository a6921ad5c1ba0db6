"""Selects the substrings of a text that become T2T's subtokens.

Each pass splits every word into the current subtokens; the candidates are all substrings that
start where a subtoken starts. Longest first, each candidate that occurs often enough is chosen,
and its occurrences no longer count for its prefixes.

T2T counts all substrings. But no substring is more frequent than its prefixes, and one that is rare
everywhere is rare where subtokens start: only frequent `_Substrings`, found length by length,
matter. Each is linked to its prefix, so the longest one at a place represents all that start there,
and all words are processed in parallel.

Shapes: C places (characters) of all words, N substrings.
"""

import itertools
from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

# No longer substrings are tried once there are so many. Text in words stays far below; words of
# 100,000 letters, of which each begins 200 substrings, would take minutes and gigabytes.
_MOST_SUBSTRINGS = 2**23


class _Text(NamedTuple):
    """Concatenated words.

    Attributes:
        characters: `[C]`, the number of each character, below `alphabet_size`.
        alphabet_size: number of distinct characters.
        starts: `[words]`, first place of each word.
        ends: `[C]`, end (exclusive) of the word that contains the place.
        counts: `[C]`, occurrences of that word.
        joined: the words as one string.
    """

    characters: np.ndarray
    alphabet_size: int
    starts: np.ndarray
    ends: np.ndarray
    counts: np.ndarray
    joined: str

    @classmethod
    def of(cls, words: Mapping[str, int]) -> "_Text":
        joined = "".join(words)
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
        alphabet, characters = np.unique(codes, return_inverse=True)
        lengths = np.fromiter(map(len, words), np.int64, len(words))
        ends = np.cumsum(lengths)
        counts = np.fromiter(words.values(), np.int64, len(words))
        return cls(
            characters,
            len(alphabet),
            ends - lengths,
            np.repeat(ends, lengths),
            np.repeat(counts, lengths),
            joined,
        )


class _Substrings(NamedTuple):
    """Substrings, ordered by length.

    Attributes:
        bounds: those of length n have the numbers `bounds[n - 1]` to `bounds[n] - 1`.
        counts: `[N]`, occurrences of each.
        places: `[N]`, one place where each occurs.
        prefixes: `[N]`, number of the substring without its last character; 0 for characters.
        longest_at: `[C]`, number of the longest substring that starts at each place.
    """

    bounds: list[int]
    counts: np.ndarray
    places: np.ndarray
    prefixes: np.ndarray
    longest_at: np.ndarray

    def by_length(self) -> list[slice]:
        """Returns the range of the substrings of each length, from 1 character up."""
        return [slice(*bounds) for bounds in itertools.pairwise(self.bounds)]


def choose_subtokens(
    words: Mapping[str, int],
    reserved: Collection[str],
    min_count: int,
    num_iterations: int,
    longest: int,
) -> list[tuple[int, str]]:
    """Returns the subtokens of two or more characters, and the characters, with their counts.

    Args:
        words: escaped tokens with their occurrences.
        reserved: escaped tokens that are subtokens however rare they are.
        min_count: least occurrences of a subtoken; characters may be rarer.
        num_iterations: number of passes; the first splits words into characters.
        longest: characters of the longest subtoken.
    """
    # Reserved tokens must be among the substrings, so they are added as words of count 0.
    reserved_words = dict.fromkeys(reserved, 0)
    text = _Text.of({**reserved_words, **words})
    substrings = _frequent_substrings(text, len(reserved_words), min_count, longest)
    always = np.zeros(len(substrings.counts), bool)
    always[: substrings.bounds[1]] = True
    always[substrings.longest_at[text.starts[: len(reserved_words)]]] = True
    chosen, counts = _select(substrings, substrings.counts, min_count, longest)
    for _ in range(num_iterations - 1):
        counts = _count_at_subtokens(text, substrings, chosen | always)
        chosen, counts = _select(substrings, counts, min_count, longest)
    chosen[: substrings.bounds[1]] = True
    return [
        (int(counts[i]), text.joined[substrings.places[i] : substrings.places[i] + length])
        for length, numbers in enumerate(substrings.by_length(), 1)
        for i in np.flatnonzero(chosen[numbers]) + numbers.start
    ]


def _frequent_substrings(text: _Text, reserved: int, min_count: int, longest: int) -> _Substrings:
    """Finds substrings that occur `min_count` times, characters, and prefixes of reserved words.

    If there are more than `_MOST_SUBSTRINGS`, only those up to a shorter length are found.
    """
    needed = np.zeros(len(text.characters), np.int64)
    needed[text.starts[:reserved]] = 1  # a prefix has the same start
    longest_at = np.zeros_like(needed)
    active = np.arange(len(needed))  # places where a frequent substring of this length starts
    bounds = [0]
    found = []
    for length in itertools.count(1):
        active = active[active + length <= text.ends[active]]
        keys = longest_at[active] * text.alphabet_size + text.characters[active + length - 1]
        keys, first, group = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.zeros(len(keys), np.int64)
        np.add.at(counts, group, text.counts[active])
        kept = np.bincount(group, needed[active], len(keys)) > 0
        if length == 1:
            kept[:] = True
        elif length <= longest and bounds[-1] <= _MOST_SUBSTRINGS:
            kept |= counts >= min_count
        if not kept.any():
            break
        found.append((counts[kept], active[first[kept]], keys[kept] // text.alphabet_size))
        numbers = bounds[-1] + np.cumsum(kept) - 1
        active = active[kept[group]]
        longest_at[active] = numbers[group[kept[group]]]
        bounds.append(bounds[-1] + int(kept.sum()))
    counts, places, prefixes = map(np.concatenate, zip(*found, strict=True))
    return _Substrings(bounds, counts, places, prefixes, longest_at)


def _count_at_subtokens(text: _Text, substrings: _Substrings, subtokens: np.ndarray) -> np.ndarray:
    """Splits words into the longest matching subtokens and counts substrings at their starts.

    Args:
        text: the words.
        substrings: the substrings to count.
        subtokens: bool `[N]`, which of them are subtokens; includes all characters.

    Returns:
        int64 `[N]`.
    """
    advance = np.zeros_like(substrings.counts)  # length of the longest matching subtoken
    for length, numbers in enumerate(substrings.by_length(), 1):
        shorter = advance[substrings.prefixes[numbers]]
        advance[numbers] = np.where(subtokens[numbers], length, shorter)
    counts = np.zeros_like(substrings.counts)
    places = text.starts
    ends = text.ends[places]
    while len(places):
        numbers = substrings.longest_at[places]
        np.add.at(counts, numbers, text.counts[places])
        places = places + advance[numbers]
        inside = places < ends
        places, ends = places[inside], ends[inside]
    for numbers in substrings.by_length()[:0:-1]:
        np.add.at(counts, substrings.prefixes[numbers], counts[numbers])
    return counts


def _select(
    substrings: _Substrings, counts: np.ndarray, min_count: int, longest: int
) -> tuple[np.ndarray, np.ndarray]:
    """Picks the subtokens of two to `longest` characters, longest first.

    Returns:
        Which substrings are chosen, bool `[N]`, and `counts` minus the occurrences inside longer
        chosen ones, int64 `[N]`.
    """
    chosen = np.zeros(len(counts), bool)
    left = counts.copy()
    used = np.zeros_like(counts)
    for numbers in substrings.by_length()[longest - 1 : 0 : -1]:
        left[numbers] -= used[numbers]
        chosen[numbers] = left[numbers] >= min_count
        used[numbers] += np.where(chosen[numbers], left[numbers], 0)
        np.add.at(used, substrings.prefixes[numbers], used[numbers])
    characters = slice(substrings.bounds[1])
    left[characters] -= used[characters]
    return chosen, left
