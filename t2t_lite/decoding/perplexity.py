"""The perplexity of a text, from the log-probabilities of its lines."""

import math
from collections.abc import Iterable
from typing import NamedTuple

from t2t_lite.decoding.text_codec import TextCodec


class Perplexity(NamedTuple):
    """What a language model says of a text; the end of a line is a token, word and character."""

    log_prob: float  # in nats, of the whole text
    tokens: int
    words: int  # separated by white space
    characters: int

    @property
    def per_token(self) -> float:
        """exp(-Σ log-probability / Σ tokens)."""
        return self._per(self.tokens)

    @property
    def per_word(self) -> float:
        """The same per word."""
        return self._per(self.words)

    @property
    def bits_per_character(self) -> float:
        """-Σ log2 of the probability / Σ characters."""
        return -self.log_prob / math.log(2) / max(self.characters, 1)

    @property
    def report(self) -> str:
        """One line for users."""
        return (
            f"perplexity {self.per_token:.4f} per token ({self.tokens:,} tokens), "
            f"{self.per_word:.4f} per word ({self.words:,} words); "
            f"{self.bits_per_character:.4f} bits per character ({self.characters:,} characters)"
        )

    def _per(self, units: int) -> float:
        try:
            return math.exp(-self.log_prob / max(units, 1))
        except OverflowError:
            return math.inf


def perplexity(scores: Iterable[float], lines: Iterable[str], text: TextCodec) -> Perplexity:
    """Adds up the log-probabilities of lines.

    Args:
        scores: the log-probability of each line, EOS included.
        lines: the text of each line.
        text: encodes the lines.
    """
    total, tokens, words, characters = 0.0, 0, 0, 0
    for number, (score, line) in enumerate(zip(scores, lines, strict=True), 1):
        (ids,) = text.encode_targets([line], "line", number)
        total += score
        tokens += len(ids) + 1
        words += len(line.split()) + 1
        characters += len(line.strip()) + 1
    return Perplexity(total, tokens, words, characters)
