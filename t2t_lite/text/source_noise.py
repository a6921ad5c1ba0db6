"""Noise in training sources: what people type differs from edited text.

Casing, typing errors and missing final punctuation are drawn anew in every epoch, from random
numbers that come from outside, as in `subword_sampler`.
"""

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from t2t_lite.errors import UsageError
from t2t_lite.text.imported_encoder import ImportedEncoder
from t2t_lite.text.marks import SUGGESTION
from t2t_lite.text.subword_sampler import RANGE, Draw
from t2t_lite.text.text_encoder import (
    EOS_ID,
    ClassLabelEncoder,
    TabEncoder,
    TextEncoder,
    TokenTextEncoder,
)

_PER_LINE = 3  # random numbers: whether to change the casing, how, and whether to cut punctuation
_PER_WORD = 3  # whether to err, how, and where
# What ends sentences and clauses in several scripts, and spaces; not what belongs to a word: 5%.
_FINAL = ".,;:!?…。，、；：！？؟،؛۔। \u00a0\u202f\u3000"
_SUGGESTED = "\x02"  # while the rest of a line is changed
_OF_WORDS = "makes words that a vocabulary of whole words lacks"
_REFUSED = {
    TokenTextEncoder: _OF_WORDS,
    ImportedEncoder: _OF_WORDS,  # without a SentencePiece model
    ClassLabelEncoder: "makes labels that the problem lacks",
    TabEncoder: "does not know where one of several texts on a line ends",
}


@dataclasses.dataclass(frozen=True)
class SourceNoise:
    """Changes lines, with these probabilities.

    Attributes:
        encoder: the vocabulary; but for unknown ids, its `decode` is the inverse of `encode`.
        casing: that a line becomes lower case or upper case, each in half of the cases.
        typos: that a word has two neighbouring letters exchanged, one dropped or one doubled.
        punctuation: that a line loses the punctuation at its end.

    Raises:
        UsageError: the vocabulary cannot encode what noise makes of a line.
    """

    encoder: TextEncoder
    casing: float = 0.0
    typos: float = 0.0
    punctuation: float = 0.0

    def __post_init__(self) -> None:
        has_pieces = isinstance(self.encoder, ImportedEncoder) and self.encoder.model
        for kind, reason in _REFUSED.items():
            if isinstance(self.encoder, kind) and not has_pieces:
                raise UsageError(
                    f"source noise (hparams source_casing_noise={self.casing:g}, "
                    f"source_typo_noise={self.typos:g}, "
                    f"source_punctuation_noise={self.punctuation:g}) {reason}: set them to 0, or "
                    "choose a problem whose sources are single texts of subwords"
                )

    def __call__(
        self, ids: np.ndarray, splits: np.ndarray, draw: Draw
    ) -> tuple[np.ndarray, np.ndarray]:
        """Changes lines of ids; one with unknown ids stays, since its text is not known.

        Args:
            ids: lines with EOS, int64 `[n]`.
            splits: where each line starts, and the end of the last one, int64 `[lines + 1]`.
            draw: the source of randomness.

        Returns:
            The same for the changed lines; the others keep their ids.
        """
        rows = [ids[start:end].tolist() for start, end in itertools.pairwise(splits)]
        lines = [self.encoder.decode(row) for row in rows]
        counts = [_PER_LINE + _PER_WORD * (1 + line.count(" ")) for line in lines]
        numbers = draw(np.array(counts, np.int64)) / RANGE
        ends = np.cumsum(counts)
        for i, line in enumerate(lines):
            changed = self.line(line, numbers[ends[i] - counts[i] : ends[i]].tolist())
            if changed != line and self.encoder.unknown_id not in rows[i]:
                start = self.encoder.start_of(rows[i])
                rows[i] = [*start, *self.encoder.encode_text(changed), EOS_ID]
        lengths = [len(row) for row in rows]
        return np.array([i for row in rows for i in row], np.int64), np.cumsum([0, *lengths])

    def line(self, text: str, numbers: Sequence[float]) -> str:
        """Changes a line; one that would become empty stays, and so do suggestions.

        Args:
            text: the line.
            numbers: random numbers in [0, 1): three, and three for each word.
        """
        suggested = SUGGESTION.findall(text)
        if suggested:
            changed = self.line(SUGGESTION.sub(_SUGGESTED, text), numbers)
            parts = itertools.zip_longest(changed.split(_SUGGESTED), suggested, fillvalue="")
            return "".join(itertools.chain.from_iterable(parts))
        to_case, case, cut = numbers[:_PER_LINE]
        words = text.split(" ")
        for i, word in enumerate(words):
            err, kind, place = numbers[_PER_LINE + _PER_WORD * i :][:_PER_WORD]
            if err < self.typos:
                words[i] = _mistyped(word, kind, place)
        changed = " ".join(words)
        if cut < self.punctuation:
            changed = _without_final_punctuation(changed)
        if to_case < self.casing:
            changed = changed.lower() if case < 0.5 else changed.upper()
        return changed if changed.strip() else text


def _mistyped(word: str, kind: float, place: float) -> str:
    """Exchanges two letters, drops one or doubles one; a word with one letter or none stays."""
    letters = [i for i, character in enumerate(word) if character.isalpha()]
    pairs = [i for i in letters[:-1] if word[i + 1].isalpha()]
    if not pairs:
        return word
    if kind < 1 / 3:
        at = pairs[int(place * len(pairs))]
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    at = letters[int(place * len(letters))]
    return word[:at] + word[at] * (2 if kind < 2 / 3 else 0) + word[at + 1 :]


def _without_final_punctuation(text: str) -> str:
    return text.rstrip(_FINAL)
