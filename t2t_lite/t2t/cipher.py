"""T2T's ciphers, to derive from; themselves they are registered in `problems.cipher`."""

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from t2t_lite.problems import cipher as native
from t2t_lite.t2t.algorithmic import AlgorithmicProblem

__all__ = [
    "AlgorithmicCipherShift5",
    "AlgorithmicCipherShift200",
    "AlgorithmicCipherVigenere5",
    "AlgorithmicCipherVigenere200",
    "encipher_shift",
    "encipher_vigenere",
    "generate_plaintext_random",
]


class _CipherProblem(AlgorithmicProblem):
    """Symbols of uneven frequencies; all texts have the greatest length."""

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        return len(native.AlgorithmicCipherShift5.frequencies)

    @property
    def distribution(self) -> Sequence[float]:
        """The frequencies of the symbols, which sum to 1."""
        return native.AlgorithmicCipherShift5.frequencies

    @property
    def dev_length(self) -> int:  # type: ignore[override]
        """As in training."""
        return self.train_length


class _Of200(_CipherProblem):
    """Symbols as frequent as their numbers."""

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        return len(native.AlgorithmicCipherShift200.frequencies)

    @property
    def distribution(self) -> Sequence[float]:
        """The frequencies of the symbols, which sum to 1."""
        total = sum(range(self.num_symbols))
        return [number / total for number in range(self.num_symbols)]


class AlgorithmicCipherShift5(_CipherProblem):
    """A shift cipher on 5 symbols."""

    train_length = native.AlgorithmicCipherShift5.train_length
    shift = native.AlgorithmicCipherShift5.key[0]

    def generator(
        self, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[dict[str, Sequence[int]]]:
        """Yields texts and their ciphers."""
        encipher = functools.partial(encipher_shift, shift=self.shift)
        return _cases(encipher, range(nbr_symbols), self.distribution, max_length, nbr_cases)


class AlgorithmicCipherShift200(_Of200, AlgorithmicCipherShift5):
    """A shift cipher on 200 symbols."""


class AlgorithmicCipherVigenere5(_CipherProblem):
    """Vigenère's cipher on 5 symbols."""

    train_length = native.AlgorithmicCipherVigenere5.train_length
    key = native.AlgorithmicCipherVigenere5.key

    def generator(
        self, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[dict[str, Sequence[int]]]:
        """Yields texts and their ciphers."""
        encipher = functools.partial(encipher_vigenere, key=self.key)
        return _cases(encipher, range(nbr_symbols), self.distribution, max_length, nbr_cases)


class AlgorithmicCipherVigenere200(_Of200, AlgorithmicCipherVigenere5):
    """Vigenère's cipher on 200 symbols."""


def _cases(
    encipher: Callable[[list[list[int]], Sequence[int]], list[list[int]]],
    vocab: Sequence[int],
    distribution: Sequence[float],
    length: int,
    number: int,
) -> Iterator[dict[str, Sequence[int]]]:
    for _ in range(number):
        texts = generate_plaintext_random(vocab, distribution, 1, length)
        yield {"inputs": texts[0], "targets": encipher(texts, vocab)[0]}


def generate_plaintext_random(
    plain_vocab: Sequence[Any],
    distribution: Sequence[float] | None,
    train_samples: int,
    length: int,
) -> list[list[int]]:
    """Returns texts of random places in a list of symbols, drawn by their frequencies."""
    places = range(len(plain_vocab))
    return [random.choices(places, distribution, k=length) for _ in range(train_samples)]


def encipher_shift(
    plaintext: Iterable[Iterable[Any]], plain_vocab: Iterable[Any], shift: int
) -> list[list[Any]]:
    """Returns texts with each symbol moved back in the list of symbols, around its end."""
    return encipher_vigenere(plaintext, plain_vocab, [shift])


def encipher_vigenere(
    plaintext: Iterable[Iterable[Any]], plain_vocab: Iterable[Any], key: Sequence[int]
) -> list[list[Any]]:
    """Returns texts with symbol number i moved back by entry i of the key, which is repeated."""
    symbols = list(plain_vocab)
    places = {symbol: place for place, symbol in enumerate(symbols)}
    return [
        [
            symbols[(places[symbol] - key[number % len(key)]) % len(symbols)]
            for number, symbol in enumerate(text)
        ]
        for text in plaintext
    ]
