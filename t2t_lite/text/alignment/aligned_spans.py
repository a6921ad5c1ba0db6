"""Spans of words that are aligned to each other and to nothing else, as in phrase extraction."""

import collections
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from t2t_lite.text.alignment.units import Unit

_LONGEST_SOURCE, _LONGEST_TARGET = 3, 4  # words


class AlignedSpan(NamedTuple):
    """Characters of both sides, which are whole words."""

    source: Unit
    target: Unit


def aligned_spans(
    source: str,
    source_words: Sequence[Unit],
    target: str,
    target_words: Sequence[Unit],
    links: Iterable[tuple[int, int]],
) -> list[AlignedSpan]:
    """Returns the short spans that are consistent with an alignment (Och et al. 1999).

    A span begins and ends with a word that has a link, no link leaves it on either side, and no
    punctuation is in it.

    Args:
        source: the source text.
        source_words: its words and marks of punctuation, in order.
        target: the target text.
        target_words: likewise.
        links: the places of words that are aligned.
    """
    of_source, of_target = collections.defaultdict(set), collections.defaultdict(set)
    for one, other in links:
        of_source[one].add(other)
        of_target[other].add(one)
    is_source_word = [_is_word(source, unit) for unit in source_words]
    is_target_word = [_is_word(target, unit) for unit in target_words]
    found = []
    for first in of_source:
        for last in range(first, min(first + _LONGEST_SOURCE, len(source_words))):
            if last not in of_source or not all(is_source_word[first : last + 1]):
                continue
            linked = set().union(*(of_source[i] for i in range(first, last + 1) if i in of_source))
            start, end = min(linked), max(linked)
            back = set().union(*(of_target[j] for j in range(start, end + 1) if j in of_target))
            if (
                end - start < _LONGEST_TARGET
                and first <= min(back)
                and max(back) <= last
                and all(is_target_word[start : end + 1])
            ):
                words = source_words[first], source_words[last]
                others = target_words[start], target_words[end]
                found.append(AlignedSpan(*(Unit(a.start, b.end) for a, b in (words, others))))
    return sorted(found)


def equal_spans(
    source: str, source_words: Sequence[Unit], target: str, target_words: Sequence[Unit]
) -> list[AlignedSpan]:
    """Returns the words that are equal on both sides, and stand once on each."""
    once = []
    for text, words in ((source, source_words), (target, target_words)):
        by_text = collections.defaultdict(list)
        for unit in words:
            if _is_word(text, unit):
                by_text[text[unit.start : unit.end]].append(unit)
        once.append({word: units[0] for word, units in by_text.items() if len(units) == 1})
    one, other = once
    return [AlignedSpan(unit, other[word]) for word, unit in one.items() if word in other]


def _is_word(text: str, unit: Unit) -> bool:
    return any(map(str.isalnum, text[unit.start : unit.end]))
