"""Subword sampling: another segmentation of the same text, drawn at random.

A model that sees a word cut in several ways learns what its parts mean, which small corpora alone
do not teach. BPE vocabularies use BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267): while a
word is merged, each possible merge is skipped with some probability. Unigram vocabularies draw from
all segmentations of a word in proportion to their probability, raised to a power (Kudo 2018,
arXiv:1804.10959, with all segmentations as candidates).

SentencePiece's own sampler cannot be seeded per call. This one takes the random numbers from
outside. It needs no text: the pieces of a segmentation, joined, are the text as SentencePiece has
normalised it. No piece crosses the boundary of a word, so words are drawn one by one; most of them
recur, and what is known of a word is kept.

Notation: n ids of several lines, u units (words; or lines, if pieces may contain spaces), and the
symbols of a unit, which are characters.
"""

import abc
import itertools
from collections.abc import Callable, Iterable
from typing import ClassVar

import numpy as np

from t2t_lite.errors import UsageError
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.sentencepiece_model import PieceKind
from t2t_lite.text.text_encoder import SPACE

# Returns as many random numbers (uint32) for each line as are asked for (int64), line after line.
Draw = Callable[[np.ndarray], np.ndarray]

# Stands for the unknown id; no text contains it.
_UNKNOWN = "\ud800"
RANGE = 2**32  # of random numbers


class SubwordSampler(abc.ABC):
    """Draws other segmentations of lines.

    Attributes:
        ids: the ids of the pieces, except control, unknown and bytes, by their text.
        scores: their scores.
        kind: the `VocabType` of its vocabularies.
        hparam: the hyperparameter that asks for it.

    Args:
        encoder: the vocabulary.

    Raises:
        UsageError: the vocabulary has pieces that SentencePiece treats in a way of its own.
    """

    kind: ClassVar[str]
    hparam: ClassVar[str]

    def __init__(self, encoder: SentencePieceEncoder) -> None:
        pieces = encoder.pieces()
        kinds = np.array([piece.kind for piece in pieces])
        if set(kinds) & {PieceKind.USER_DEFINED, PieceKind.UNUSED}:
            raise UsageError(
                f"hparam {self.hparam}: subwords cannot be sampled from a SentencePiece model with "
                f"user-defined or unused pieces: set {self.hparam}=0, or train a model without them"
            )
        self._texts = [piece.text for piece in pieces]
        self._bytes = {
            i: int(piece.text[3:5], 16)
            for i, piece in enumerate(pieces)
            if piece.kind == PieceKind.BYTE
        }
        self._byte_ids = {byte: i for i, byte in self._bytes.items()}
        self.ids = {p.text: i for i, p in enumerate(pieces) if p.kind == PieceKind.NORMAL}
        self.scores = {p.text: p.score for p in pieces if p.kind == PieceKind.NORMAL}
        self._unknown_id = int(np.flatnonzero(kinds == PieceKind.UNKNOWN)[0])
        self._is_control = kinds == PieceKind.CONTROL
        crosses_words = any(SPACE in text[1:] for text in self.ids)
        starts_word = np.array([text.startswith(SPACE) for text in self._texts])
        self._starts_unit = self._is_control | (starts_word & (not crosses_words))
        self._symbols = np.array([self._count_symbols(i) for i in range(len(pieces))])

    def _count_symbols(self, piece: int) -> int:
        """Returns the characters of a piece; the first of a character's bytes counts for all."""
        if piece in self._bytes:
            return int(not 0x80 <= self._bytes[piece] < 0xC0)
        is_text = self._texts[piece] in self.ids
        return len(self._texts[piece]) if is_text else 1

    def __call__(
        self, ids: np.ndarray, splits: np.ndarray, draw: Draw
    ) -> tuple[np.ndarray, np.ndarray]:
        """Draws a segmentation of each line.

        Args:
            ids: lines as SentencePiece segments them, with or without EOS, int64 `[n]`.
            splits: where each line starts, and the end of the last one, int64 `[lines + 1]`.
            draw: the source of randomness.

        Returns:
            The same for the new segmentations.
        """
        if not len(ids):
            return ids, splits
        starts, symbols = self._units(ids, splits)  # both [u]
        ends = np.append(starts[1:], len(ids))
        counts = np.where(symbols > 1, self._draws(symbols), 0)
        offsets = np.concatenate([[0], counts.cumsum()])  # [u + 1]
        of_lines = offsets[np.searchsorted(starts, splits)]  # [lines + 1]
        numbers = self._reduced(draw(np.diff(of_lines)))
        changed = self._may_change(numbers, offsets)
        old, keys, size = ids.tolist(), ids.tobytes(), ids.itemsize
        new: list[int] = []
        growth = np.zeros(len(ids) + 1, np.int64)
        done = 0
        spans = (span[changed].tolist() for span in (starts, ends, offsets[:-1], offsets[1:]))
        for start, end, first, last in zip(*spans, strict=True):
            # A unit that is not UTF-8 has no other segmentation.
            found = self._redrawn(keys[size * start : size * end], numbers[first:last])
            found = found or old[start:end]
            new += old[done:start]
            new += found
            growth[end] += len(found) - (end - start)
            done = end
        new += old[done:]
        return np.array(new, np.int64), splits + growth.cumsum()[splits]

    def _units(self, ids: np.ndarray, splits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns where each unit starts, and its number of symbols, both `[u]`."""
        is_start = self._starts_unit[ids]  # [n]
        is_start[1:] |= self._is_control[ids[:-1]]
        is_start[splits[splits < len(ids)]] = True
        starts = np.flatnonzero(is_start)
        return starts, np.add.reduceat(self._symbols[ids], starts)

    def symbols_of(self, unit: bytes) -> list[str]:
        """Returns the characters of a unit, given its ids as bytes; none if it is not UTF-8."""
        symbols: list[str] = []
        ids = np.frombuffer(unit, np.int64).tolist()
        for is_bytes, group in itertools.groupby(ids, self._bytes.__contains__):
            if not is_bytes:
                symbols += itertools.chain.from_iterable(
                    self._texts[i] if self._texts[i] in self.ids else _UNKNOWN for i in group
                )
                continue
            try:
                symbols += bytes(map(self._bytes.__getitem__, group)).decode()
            except UnicodeDecodeError:
                return []
        return symbols

    def ids_of(self, pieces: Iterable[str]) -> list[int]:
        """Returns the ids of pieces; without ids of bytes, one id for adjacent unknown pieces."""
        ids: list[int] = []
        for piece in pieces:
            if piece in self.ids:
                ids.append(self.ids[piece])
            elif self._byte_ids and piece != _UNKNOWN:
                ids += [self._byte_ids[byte] for byte in piece.encode()]
            elif ids[-1:] != [self._unknown_id]:
                ids.append(self._unknown_id)
        return ids

    @abc.abstractmethod
    def _redrawn(self, unit: bytes, numbers: np.ndarray) -> list[int]:
        """Returns other ids for a unit's, given as bytes, from its reduced random numbers."""

    @abc.abstractmethod
    def _draws(self, symbols: np.ndarray) -> np.ndarray:
        """Returns how many random numbers units of so many symbols take."""

    @abc.abstractmethod
    def _reduced(self, numbers: np.ndarray) -> np.ndarray:
        """Reduces the random numbers to what matters of them, so that results recur."""

    @abc.abstractmethod
    def _may_change(self, numbers: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Whether each unit, whose numbers start at its offset, may get another segmentation."""
