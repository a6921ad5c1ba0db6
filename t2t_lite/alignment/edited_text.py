"""Texts in which words are replaced or inserted, and what becomes of the alignment of their ids."""

from collections.abc import Sequence
from typing import NamedTuple

from t2t_lite.alignment.units import token_of_characters


class Edit(NamedTuple):
    """Puts a text into the place of the characters `start` to `end`, excluded."""

    start: int
    end: int
    text: str


class EditedText:
    """A text after some edits.

    Args:
        text: the text before.
        edits: do not overlap.
    """

    def __init__(self, text: str, edits: Sequence[Edit]) -> None:
        self._before = text
        parts, done, size = [], 0, 0
        self._places: list[int] = []  # of each character of the text before, in the text after
        for start, end, new in sorted(edits):
            parts += [text[done:start], new]
            at = size + start - done
            self._places += [*range(size, at), *[at] * (end - start)]
            size, done = at + len(new), end
        parts.append(text[done:])
        self._places += range(size, size + len(text) - done)
        self.text = "".join(parts)

    def moved_tokens(self, before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
        """Returns which tokens before and after have a character in common, or stand for it.

        Args:
            before: the tokens of the text before, as text.
            after: those of the text after.
        """
        old = token_of_characters(self._before, before)
        new = token_of_characters(self.text, after)
        pairs = ((old[i], new[place]) for i, place in enumerate(self._places))
        return [*dict.fromkeys(pair for pair in pairs if min(pair) >= 0)]


def moved_alignment(
    alignment: Sequence[int],
    sources: Sequence[tuple[int, int]],
    targets: Sequence[tuple[int, int]],
    source_size: int,
    target_size: int,
) -> list[int]:
    """Returns the alignment of edited texts.

    Args:
        alignment: for each target id before the place of its source id, from 1; that of EOS last.
        sources: the `moved_tokens` of the source.
        targets: those of the target.
        source_size: ids of the source after, EOS included.
        target_size: ids of the target after, EOS included.

    Returns:
        The place for each target id after: that of EOS, if to no word. An id without a character
        goes with the one before it.
    """
    firsts: dict[int, int] = {}
    for old, new in sources:
        firsts.setdefault(old, new)
    new_places = [0]  # by the places before, which count from 1
    for old in range(alignment[-1] - 1):
        new_places.append(firsts[old] + 1 if old in firsts else max(new_places[-1], 1))
    new_places.append(source_size)
    old_of: dict[int, int] = {}
    for old, new in targets:
        old_of.setdefault(new, old)
    found: list[int] = []
    for target in range(target_size - 1):
        if target in old_of:
            found.append(new_places[alignment[old_of[target]]])
        else:
            found.append(found[-1] if found else source_size)
    return [*found, source_size]
