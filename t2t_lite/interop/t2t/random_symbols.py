"""T2T's problems of random symbols: algorithmic ones, ciphers and transduction, to derive from.

Themselves they are registered in `problems`. Those of arithmetic are left out: their symbols here
include a separator, which T2T forgets.
"""

import functools
import inspect
import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite.data.problem import DatasetSplit
from t2t_lite.interop.t2t import generator_utils
from t2t_lite.interop.t2t.adapter import needs
from t2t_lite.interop.t2t.hparam import HParams
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.interop.t2t.problem import Problem, SpaceID
from t2t_lite.interop.t2t.text_encoder import EOS_ID, NUM_RESERVED_TOKENS, TokenTextEncoder
from t2t_lite.interop.t2t.text_problems import Text2TextProblem
from t2t_lite.problems import algorithmic, cipher, transduction
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType


class AlgorithmicProblem(Problem):
    """Sequences of symbols from `generator`."""

    train_length = 40
    dev_length = 400
    train_size = 100_000
    dev_size = 10_000
    num_shards = 10

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        raise needs(self, "num_symbols")

    def generator(
        self, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterable[dict[str, Sequence[int]]]:
        """Yields cases: symbols from 0 of inputs and targets."""
        raise needs(self, "generator(nbr_symbols, max_length, nbr_cases)")

    def generate_data(self, data_dir: str, tmp_dir: str, task_id: Any = -1) -> None:
        """Writes training and evaluation files."""
        del tmp_dir, task_id
        generator_utils.generate_dataset_and_shuffle(
            self._cases(self.train_length, self.train_size),
            self.training_filepaths(data_dir, self.num_shards, shuffled=True),
            self._cases(self.dev_length, self.dev_size),
            self.dev_filepaths(data_dir, 1, shuffled=True),
            shuffle=False,
        )

    def _cases(self, length: int, number: int) -> Iterator[dict[str, list[int]]]:
        for case in self.generator(self.num_symbols, length, number):
            yield {
                side: [*(symbol + NUM_RESERVED_TOKENS for symbol in symbols), EOS_ID]
                for side, symbols in case.items()
            }

    def hparams(self, defaults: HParams, model_hparams: HParams) -> None:
        """Sets the vocabulary sizes, and the kinds of symbols."""
        del model_hparams
        sides = ("inputs", "targets")
        defaults.modality = dict.fromkeys(sides, ModalityType.SYMBOL)
        defaults.vocab_size = dict.fromkeys(sides, self.num_symbols + NUM_RESERVED_TOKENS)
        defaults.input_space_id = SpaceID.DIGIT_0
        defaults.target_space_id = SpaceID.DIGIT_1


def _algorithmic(problem: type[algorithmic.AlgorithmicProblem]) -> Any:
    """Returns T2T's class for a registered problem."""

    def generator(
        self: AlgorithmicProblem, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[dict[str, list[int]]]:
        ours = type(problem.__name__, (problem,), {"num_symbols": nbr_symbols})()
        draw = random.Random(random.random())  # the global numbers are seeded for each problem
        for _ in range(nbr_cases):
            inputs = ours.draw_inputs(draw, max_length)
            yield {"inputs": inputs, "targets": ours.solve(inputs)}

    # The properties depend on each other alone, so that they work in the other class, too.
    settings = ("dev_length", "num_symbols", "train_length")
    members = {name: inspect.getattr_static(problem, name) for name in settings}
    members |= {"__doc__": problem.__doc__, "__module__": __name__, "generator": generator}
    return type(problem.__name__, (AlgorithmicProblem,), members)


_DERIVED = {
    name: _algorithmic(problem)
    for name, problem in vars(algorithmic).items()
    if name.startswith("Algorithmic")
    and name != "AlgorithmicProblem"
    and not issubclass(problem, algorithmic.ArithmeticProblem)
}
globals().update(_DERIVED)


class _CipherProblem(AlgorithmicProblem):
    """Symbols of uneven frequencies; all texts have the greatest length."""

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        return len(cipher.AlgorithmicCipherShift5.frequencies)

    @property
    def distribution(self) -> Sequence[float]:
        """The frequencies of the symbols, which sum to 1."""
        return cipher.AlgorithmicCipherShift5.frequencies

    @property
    def dev_length(self) -> int:  # type: ignore[override]
        """As in training."""
        return self.train_length


class _Of200(_CipherProblem):
    """Symbols as frequent as their numbers."""

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        return len(cipher.AlgorithmicCipherShift200.frequencies)

    @property
    def distribution(self) -> Sequence[float]:
        """The frequencies of the symbols, which sum to 1."""
        total = sum(range(self.num_symbols))
        return [number / total for number in range(self.num_symbols)]


class AlgorithmicCipherShift5(_CipherProblem):
    """A shift cipher on 5 symbols."""

    train_length = cipher.AlgorithmicCipherShift5.train_length
    shift = cipher.AlgorithmicCipherShift5.key[0]

    def generator(
        self, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[dict[str, Sequence[int]]]:
        """Yields texts and their ciphers."""
        encipher = functools.partial(encipher_shift, shift=self.shift)
        return _enciphered(encipher, range(nbr_symbols), self.distribution, max_length, nbr_cases)


class AlgorithmicCipherShift200(_Of200, AlgorithmicCipherShift5):
    """A shift cipher on 200 symbols."""


class AlgorithmicCipherVigenere5(_CipherProblem):
    """Vigenère's cipher on 5 symbols."""

    train_length = cipher.AlgorithmicCipherVigenere5.train_length
    key = cipher.AlgorithmicCipherVigenere5.key

    def generator(
        self, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[dict[str, Sequence[int]]]:
        """Yields texts and their ciphers."""
        encipher = functools.partial(encipher_vigenere, key=self.key)
        return _enciphered(encipher, range(nbr_symbols), self.distribution, max_length, nbr_cases)


class AlgorithmicCipherVigenere200(_Of200, AlgorithmicCipherVigenere5):
    """Vigenère's cipher on 200 symbols."""


def _enciphered(
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


class TransductionProblem(Text2TextProblem):
    """Random symbols, and what `transpose_sequence` makes of them.

    As in T2T, the samples of training are dealt out to all splits, unless a subclass has
    `is_generate_per_split`.

    Args:
        was_reversed: as for `Problem`.
        was_copy: as for `Problem`.

    Attributes:
        vocab: the symbols.
    """

    is_generate_per_split = False
    vocab_type = VocabType.TOKEN
    # The registered problem with the same sizes.
    _t2t_lite_native: ClassVar[Any] = transduction.TransductionProblem

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        self.vocab = self.build_vocab()

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        return self._t2t_lite_native.num_symbols

    def min_sequence_length(self, dataset_split: str) -> int:
        """Returns the least length of a sequence."""
        return _setting(self._t2t_lite_native, "lengths", dataset_split)[0]

    def max_sequence_length(self, dataset_split: str) -> int:
        """Returns the greatest length of a sequence."""
        return _setting(self._t2t_lite_native, "lengths", dataset_split)[1]

    def num_samples(self, dataset_split: str) -> int:
        """Returns the number of samples."""
        return _setting(self._t2t_lite_native, "size", dataset_split)

    def sequence_length(self, dataset_split: str) -> int:
        """Draws the length of a sequence."""
        least = self.min_sequence_length(dataset_split)
        return random.randint(least, self.max_sequence_length(dataset_split))

    def build_vocab(self) -> list[str]:
        """Returns the symbols."""
        return [f"sym_{number}" for number in range(1, self.num_symbols + 1)]

    def get_or_create_vocab(self, data_dir: str, tmp_dir: str, force_get: bool = False) -> Any:
        """Returns the vocabulary; unless `force_get`, it is written if it is missing."""
        path = os.path.join(data_dir, self.vocab_filename)
        if not (force_get or os.path.exists(path)):
            TokenTextEncoder(None, vocab_list=sorted(self.vocab)).store_to_file(path)
        return super().get_or_create_vocab(data_dir, tmp_dir, force_get)

    def generate_random_sequence(self, dataset_split: str) -> list[str]:
        """Returns the inputs of a sample."""
        return random.choices(self.vocab, k=self.sequence_length(dataset_split))

    def transpose_sequence(self, input_sequence: list[str]) -> list[str]:
        """Returns the targets of these inputs."""
        raise needs(self, "transpose_sequence(input_sequence)")

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples of a split."""
        for _ in range(self.num_samples(dataset_split)):
            inputs = self.generate_random_sequence(dataset_split)
            targets = self.transpose_sequence(inputs)
            yield {"inputs": " ".join(inputs), "targets": " ".join(targets)}


def _setting(problem: type[transduction.TransductionProblem], name: str, dataset_split: str) -> Any:
    """Returns a setting of a registered problem for a split."""
    kind = "train" if dataset_split == DatasetSplit.TRAIN else "dev"
    return getattr(problem, f"{kind}_{name}")


def _transduction(problem: type[transduction.TransductionProblem], **members: Any) -> Any:
    """Returns T2T's class for a registered problem."""
    ours = problem()

    def transpose_sequence(self: TransductionProblem, input_sequence: list[str]) -> list[str]:
        return ours.transduce(input_sequence)

    members |= {
        "__doc__": problem.__doc__,
        "__module__": __name__,
        "_t2t_lite_native": problem,
        "transpose_sequence": transpose_sequence,
    }
    return type(problem.__name__, (TransductionProblem,), members)


def _even_length(self: TransductionProblem, dataset_split: str) -> int:
    """Draws an even length of a sequence."""
    least = self.min_sequence_length(dataset_split)
    greatest = self.max_sequence_length(dataset_split)
    return 2 * random.randint((least + 1) // 2, greatest // 2)


CopySequence = _transduction(transduction.CopySequence)
CopySequenceSmall = _transduction(transduction.CopySequenceSmall)
ReverseSequence = _transduction(transduction.ReverseSequence)
ReverseSequenceSmall = _transduction(transduction.ReverseSequenceSmall)
FlipBiGramSequence = _transduction(transduction.FlipBiGramSequence, sequence_length=_even_length)


_OWN = """
    AlgorithmicCipherShift5 AlgorithmicCipherShift200 AlgorithmicCipherVigenere5
    AlgorithmicCipherVigenere200 AlgorithmicProblem CopySequence CopySequenceSmall
    FlipBiGramSequence ReverseSequence ReverseSequenceSmall TransductionProblem encipher_shift
    encipher_vigenere generate_plaintext_random
"""
__all__ = sorted([*_DERIVED, *_OWN.split()])
