"""Texts in which words are replaced or inserted, and what becomes of the alignment of their ids."""

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from t2t_lite.text.alignment.units import token_of_characters

_Value = TypeVar("_Value")


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

    def moved_tokens(self, before: Sequence[str], after: Sequence[str]) -> "MovedTokens":
        """Returns which tokens before and after have a character in common, or stand for it.

        Args:
            before: the tokens of the text before, as text.
            after: those of the text after.
        """
        old = token_of_characters(self._before, before)
        new = token_of_characters(self.text, after)
        moved = MovedTokens({}, {})
        for i, place in enumerate(self._places):
            if min(old[i], new[place]) >= 0:
                moved.new_of.setdefault(old[i], new[place])
                moved.old_of.setdefault(new[place], old[i])
        with_spaces(moved.new_of, before)
        with_spaces(moved.old_of, after)
        return moved


class MovedTokens(NamedTuple):
    """Places of tokens before and after some edits, from 0; tokens without a character lack."""

    new_of: dict[int, int]
    old_of: dict[int, int]


def with_spaces(of_tokens: dict[int, _Value], tokens: Sequence[str]) -> None:
    """Adds what tokens of white space alone have: the same as the token after them."""
    for i in range(len(tokens) - 2, -1, -1):
        if i not in of_tokens and i + 1 in of_tokens and not tokens[i].strip():
            of_tokens[i] = of_tokens[i + 1]


def moved_alignment(
    alignment: Sequence[int],
    source: MovedTokens,
    target: MovedTokens,
    source_size: int,
    target_size: int,
) -> list[int]:
    """Returns the alignment of edited texts.

    Args:
        alignment: for each target id before the place of its source id, from 1; that of EOS last.
        source: the tokens of the source.
        target: those of the target.
        source_size: ids of the source after, EOS included.
        target_size: ids of the target after, EOS included.

    Returns:
        The place for each target id after: that of EOS, if to no word. An id without a character
        goes with the one before it.
    """
    new_places = [0]  # by the places before, which count from 1
    for old in range(alignment[-1] - 1):
        known = source.new_of.get(old)
        new_places.append(max(new_places[-1], 1) if known is None else known + 1)
    new_places.append(source_size)
    found: list[int] = []
    for new in range(target_size - 1):
        known = target.old_of.get(new)
        if known is not None:
            found.append(new_places[alignment[known]])
        else:
            found.append(found[-1] if found else source_size)
    return [*found, source_size]
