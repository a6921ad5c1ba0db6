"""BPE-dropout: a SentencePiece BPE model's merges, some of which are skipped at random."""

from collections.abc import Iterable, Sequence

import numpy as np

from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_sampler import RANGE, SubwordSampler
from t2t_lite.text.text_encoder import VocabType

# Skipped merges are counted up to here: few lines have so many merges to choose from.
_MOST_SKIPPED = 2**16 - 1
CACHED = 2**17  # segmentations that are kept, unfinished ones too; some 60 MB


class BpeDropout(SubwordSampler):
    """BPE-dropout, as algorithm 1 of Provilkov et al.: each step skips each possible merge anew.

    That is the same as to skip the best merges of a step, a geometrically distributed number of
    them: so a step takes one random number. A word ends when all merges are skipped.

    Args:
        encoder: a BPE vocabulary.
        rate: probability of skipping a merge: 0 gives SentencePiece's segmentation, 1 characters.
    """

    kind = VocabType.SENTENCEPIECE_BPE
    hparam = "bpe_dropout"

    def __init__(self, encoder: SentencePieceEncoder, rate: float) -> None:
        super().__init__(encoder)
        limits = np.round(rate ** np.arange(1, _MOST_SKIPPED + 1) * RANGE).astype(np.int64)
        # A random number below the i-th greatest of these skips i merges or more.
        self._limits = limits[limits > 0][::-1]
        self._states: dict[tuple[str, ...], _Merging] = {}
        self._starts: dict[bytes, _Merging] = {}  # by the ids of a unit

    def segment(self, symbols: Sequence[str], skipped: Iterable[int]) -> list[str]:
        """Joins characters to pieces.

        Args:
            symbols: the characters.
            skipped: for each merge, how many better ones are skipped before it.
        """
        return [*self._merged(self._state(tuple(symbols)), skipped).pieces]

    def _redrawn(self, unit: bytes, numbers: np.ndarray) -> list[int]:
        start = self._starts.get(unit)
        if start is None:
            start = self._state(tuple(self.symbols_of(unit)))
            if self._has_room:
                self._starts[unit] = start
        end = self._merged(start, numbers.tolist())
        if end.ids is None:
            end.ids = self.ids_of(end.pieces)
        return end.ids

    def _merged(self, state: "_Merging", skipped: Iterable[int]) -> "_Merging":
        """Returns the state in which merging ends."""
        for number in skipped:
            if number >= len(state.merges):
                break
            following = state.following[number]
            if following is None:
                first, pieces = state.merges[number], state.pieces
                joined = pieces[first] + pieces[first + 1]
                following = self._state((*pieces[:first], joined, *pieces[first + 2 :]))
                if self._has_room:
                    state.following[number] = following
            state = following
        return state

    def _state(self, pieces: tuple[str, ...]) -> "_Merging":
        """Returns the state of a partly merged unit."""
        state = self._states.get(pieces)
        if state is None:
            scores = self.scores
            pairs = enumerate(map(str.__add__, pieces, pieces[1:]))
            merges = sorted((-scores[pair], i) for i, pair in pairs if pair in scores)
            state = _Merging(pieces, [i for _, i in merges])
            if self._has_room:
                self._states[pieces] = state
        return state

    @property
    def _has_room(self) -> bool:
        """Whether to keep another state; those of frequent words are among the first."""
        return len(self._states) < CACHED

    def _draws(self, symbols: np.ndarray) -> np.ndarray:
        return symbols - 1  # a merge each

    def _reduced(self, numbers: np.ndarray) -> np.ndarray:
        above = np.searchsorted(self._limits, numbers.astype(np.int64), side="right")
        skipped: np.ndarray = (len(self._limits) - above).astype(np.uint16)
        return skipped

    def _may_change(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        before = np.concatenate([[0], (numbers > 0).cumsum()])[offsets]  # [u + 1]
        is_any: np.ndarray = np.diff(before) > 0
        return is_any


class _Merging:
    """A partly merged unit.

    Attributes:
        pieces: its present pieces.
        merges: first pieces of the possible merges, the best merge first.
        following: the state after each of these merges; None: not known yet.
        ids: the ids of the pieces; None: not known yet.
    """

    __slots__ = ("following", "ids", "merges", "pieces")

    def __init__(self, pieces: tuple[str, ...], merges: Sequence[int]) -> None:
        self.pieces = pieces
        self.merges = merges
        self.following: list[_Merging | None] = [None] * len(merges)
        self.ids: list[int] | None = None
