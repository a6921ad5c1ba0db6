"""T2T's ciphers: symbols of uneven frequencies, each moved along the alphabet by a key.

Every sample has the greatest length. They are written as in `algorithmic`.
"""

import abc
import random
from collections.abc import Sequence
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.problems.algorithmic import AlgorithmicProblem


class CipherProblem(AlgorithmicProblem):
    """Moves symbol number i back by entry i of a key that is repeated, around the alphabet.

    Attributes:
        key: the distances; one of them is a shift cipher, several are Vigenère's.
    """

    key: ClassVar[Sequence[int]]

    @property
    @abc.abstractmethod
    def frequencies(self) -> Sequence[float]:
        """The frequency of each symbol, in proportion."""

    @property
    def num_symbols(self) -> int:
        """As many as there are frequencies."""
        return len(self.frequencies)

    @property
    def dev_length(self) -> int:
        """As in training."""
        return self.train_length

    @property
    def can_split_sources(self) -> bool:
        """Only if the key has one entry: with more, the first symbol of a piece tells its place."""
        return len(self.key) == 1

    def draw_inputs(self, draw: random.Random, max_length: int) -> list[int]:
        """Returns `max_length` symbols by their frequencies."""
        return draw.choices(range(self.num_symbols), self.frequencies, k=max_length)

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the symbols enciphered."""
        return [
            (symbol - self.key[place % len(self.key)]) % self.num_symbols
            for place, symbol in enumerate(symbols)
        ]


@registry.register_problem
class AlgorithmicCipherShift5(CipherProblem):
    """A shift cipher on 5 symbols."""

    key = (1,)
    frequencies: Sequence[float] = (0.4, 0.3, 0.2, 0.08, 0.02)
    train_length = 100


@registry.register_problem
class AlgorithmicCipherShift200(AlgorithmicCipherShift5):
    """A shift cipher on 200 symbols, each as frequent as its number; the first never occurs."""

    frequencies = range(200)


@registry.register_problem
class AlgorithmicCipherVigenere5(CipherProblem):
    """Vigenère's cipher on 5 symbols."""

    key = (1, 3)
    frequencies: Sequence[float] = (0.4, 0.3, 0.2, 0.08, 0.02)
    train_length = 200


@registry.register_problem
class AlgorithmicCipherVigenere200(AlgorithmicCipherVigenere5):
    """Vigenère's cipher on 200 symbols, each as frequent as its number; the first never occurs."""

    frequencies = range(200)
