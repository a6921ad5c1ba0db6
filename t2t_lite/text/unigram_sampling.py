"""Unigram sampling: segmentations drawn by their probability in a SentencePiece unigram model."""

import bisect
import itertools
import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_sampler import RANGE, SubwordSampler
from t2t_lite.text.text_encoder import VocabType

# What SentencePiece takes from the lowest score to score an unknown character.
_UNKNOWN_PENALTY = 10.0
CACHED = 2**20  # characters of the words that are kept; some 80 MB


class UnigramSampling(SubwordSampler):
    """Unigram sampling: segmentations of a word, in proportion to their probability to a power.

    Drawn exactly, by forward filtering and backward sampling: the last piece from the total weight
    of all segmentations that end with it, then the one before it, and so on.

    Args:
        encoder: a unigram vocabulary.
        alpha: the power, more than 0; below 1, unlikely segmentations become more frequent.
    """

    kind = VocabType.SENTENCEPIECE_UNIGRAM
    hparam = "unigram_alpha"

    def __init__(self, encoder: SentencePieceEncoder, alpha: float) -> None:
        super().__init__(encoder)
        self._alpha = alpha
        self._longest = max(map(len, self.ids), default=1)
        self._lowest = min(self.scores.values(), default=0.0)
        self._lattices: dict[bytes, Lattice] = {}
        self._cached = 0  # characters of their words

    def lattice(self, symbols: Sequence[str]) -> "Lattice":
        """Returns all segmentations of a unit, given its characters."""
        text, scores, alpha = "".join(symbols), self.scores, self._alpha
        totals = [0.0]  # log weight of all segmentations of the text up to each position
        found = Lattice(text, array("I", [0]), array("I"), array("Q"))
        for end in range(1, len(text) + 1):
            edges = {  # log weights of the last piece and what may precede it, by the piece's start
                start: totals[start] + alpha * scores[text[start:end]]
                for start in range(max(0, end - self._longest), end)
                if text[start:end] in scores
            }
            if text[end - 1] not in scores:
                edges[end - 1] = totals[end - 1] + alpha * (self._lowest - _UNKNOWN_PENALTY)
            greatest = max(edges.values())
            weights = [math.exp(edge - greatest) for edge in edges.values()]
            total = math.fsum(weights)
            totals.append(greatest + math.log(total))
            shares = itertools.accumulate(weights[:-1])
            found.starts.extend(edges)
            found.limits.extend(round(share / total * RANGE) for share in shares)
            found.limits.append(RANGE)
            found.bounds.append(len(found.starts))
        return found

    def _redrawn(self, unit: bytes, numbers: np.ndarray) -> list[int]:
        lattice = self._lattices.get(unit)
        if lattice is None:
            lattice = self.lattice(self.symbols_of(unit))
            if self._cached < CACHED:  # frequent words are among the first
                self._lattices[unit] = lattice
                self._cached += len(lattice.text)
        return self.ids_of(lattice.walk(numbers.tolist()))

    def _draws(self, symbols: np.ndarray) -> np.ndarray:
        return symbols  # one for each position at which a piece may end

    def _reduced(self, numbers: np.ndarray) -> np.ndarray:
        return numbers

    def _may_change(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        is_any: np.ndarray = np.diff(offsets) > 0
        return is_any


class Lattice(NamedTuple):
    """All segmentations of a text, with their probabilities.

    Attributes:
        text: the text.
        bounds: the last piece of the text up to position i has the choices `bounds[i - 1]` to
            `bounds[i]`.
        starts: where the piece of each choice starts.
        limits: the random number below which the choice is this one, or an earlier one.
    """

    text: str
    bounds: "array[int]"
    starts: "array[int]"
    limits: "array[int]"

    def walk(self, numbers: Sequence[int]) -> list[str]:
        """Draws a segmentation.

        Args:
            numbers: a random number for each position after a character.
        """
        pieces = []
        end = len(self.text)
        while end:
            first, stop = self.bounds[end - 1 : end + 1]
            start = self.starts[bisect.bisect_right(self.limits, numbers[end - 1], first, stop)]
            pieces.append(self.text[start:end])
            end = start
        return pieces[::-1]
