"""How texts are spelled in the ids of a vocabulary, and where its ids begin and end words."""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.terms.word_borders import is_border
from t2t_lite.text.text_encoder import EOS_ID, RESERVED_TOKENS, TextEncoder

# What may stand before and after a term, where a vocabulary spells it in another way: a subword
# that begins a word, say, includes the space before it. At the start of a line, a vocabulary may
# leave out this space.
_BEFORE = ("", "(", '"', "-", "a ")
_AFTER = ("", ".")

_KEPT = 1024  # texts whose spellings are kept

_MOST_BYTES = 4  # of a character, each of which may be an id that is shown as one

# Of so many ids with one letter, two show how ids join.
_LETTERS = 50


class IdBorders(NamedTuple):
    """Which ids begin and end words.

    There is a border between two ids if the first one ends or the second one begins a word.
    """

    begins: np.ndarray  # [V], bool
    ends: np.ndarray  # [V], bool


class Speller:
    """Spells texts in the ids of a vocabulary.

    Args:
        encoder: the vocabulary.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self.spellings = functools.lru_cache(_KEPT)(self._spellings)

    @property
    def vocab_size(self) -> int:
        """V."""
        return self._encoder.vocab_size

    def _spellings(self, text: str) -> Sequence[tuple[int, ...]]:
        """Returns the ids of a text, in each way that its surroundings may require.

        There are none if the vocabulary cannot spell it.
        """
        contexts = itertools.product(_BEFORE, _AFTER)
        found = (self._between(before, text, after) for before, after in contexts)
        return [*dict.fromkeys(filter(None, found))]

    def _between(self, before: str, text: str, after: str) -> tuple[int, ...]:
        """Returns the ids of a text between others; () if its borders are within an id."""
        ids = self._encoder.encode_text(before + text + after)
        # Both are looked for from their sides: to decode from each place takes the square of n.
        starts = self._places(ids, before.rstrip(), range(len(ids) + 1))
        ends = self._places(ids, before + text, range(len(ids), -1, -1))
        if not starts or not ends or self._encoder.oov_id in ids:
            return ()
        # A space with an id of its own is not a part of the term.
        start = max(starts) if before.endswith(" ") else min(starts)
        return tuple(ids[start : min(ends)])

    def _places(self, ids: Sequence[int], text: str, places: range) -> list[int]:
        """Returns the first places before which ids are a text, all of them neighbours.

        Args:
            ids: the ids.
            text: the text.
            places: those to try, from one that is nearly the text's.
        """
        found: list[int] = []
        for place in places:
            decoded = self._encoder.decode(ids[:place]).strip()
            if decoded == text:
                found.append(place)
            elif found or (len(decoded) - len(text)) * places.step > _MOST_BYTES:
                break
        return found

    @functools.cached_property
    def borders(self) -> IdBorders:
        """Which ids begin and end words."""
        size, decode = self._encoder.vocab_size, self._encoder.decode
        begins, ends = np.ones(size, bool), np.ones(size, bool)
        pair = self._joined_letters()
        if pair is None:  # ids are whole words
            return IdBorders(begins, ends)
        first, second = pair
        for i in range(len(RESERVED_TOKENS), size):
            begins[i] = is_border(decode([first, i]), 1)
            text = decode([i, second])
            ends[i] = is_border(text, len(text) - 1)
        begins[EOS_ID] = ends[EOS_ID] = True
        return IdBorders(begins, ends)

    def _joined_letters(self) -> tuple[int, int] | None:
        """Returns two ids of a letter each that make one word; None: no ids do."""
        decode = self._encoder.decode
        ids = range(len(RESERVED_TOKENS), self._encoder.vocab_size)
        single = (i for i in ids if len(text := decode([i]).strip()) == 1 and text.isalpha())
        for first, second in itertools.product([*itertools.islice(single, _LETTERS)], repeat=2):
            text = decode([first, second])
            if len(text) == 2 and not is_border(text, 1):
                return first, second
        return None
