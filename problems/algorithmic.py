"""T2T's algorithmic tasks: what a model can learn of them, and whether it works on longer inputs.

A sample's text is its symbols as numbers separated by spaces, such as `3 1 4`.
"""

import abc
import functools
import itertools
import random
from collections.abc import Iterator, Sequence

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import RESERVED_TOKENS, TextEncoder


class NumberTextEncoder(TextEncoder):
    """Encodes symbols 0 to `num_symbols - 1`, written as numbers; ids follow padding and EOS.

    Args:
        num_symbols: number of symbols.
    """

    def __init__(self, num_symbols: int) -> None:
        words = map(str, range(num_symbols))
        self._ids = {word: id_ for id_, word in enumerate(words, len(RESERVED_TOKENS))}
        self._words = {id_: word for word, id_ in self._ids.items()}

    @property
    def vocab_size(self) -> int:
        """Number of symbols, plus padding and EOS."""
        return len(self._ids) + len(RESERVED_TOKENS)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of numbers separated by white space.

        Raises:
            DataError: a word is not a number, or is too large.
        """
        try:
            return [self._ids[word] for word in text.split()]
        except KeyError as error:
            raise DataError(
                f"{error} in {text!r} is not a symbol: write numbers from 0 to "
                f"{len(self._ids) - 1}, separated by spaces"
            ) from None

    def decode(self, ids: Sequence[int]) -> str:
        """Returns the numbers, separated by spaces."""
        return " ".join(self._words[id_] for id_ in self._text_ids(ids))


class AlgorithmicProblem(Text2TextProblem):
    """Maps random symbols to the result of `solve`; a problem's samples are always the same."""

    train_length = 40  # greatest length of training inputs; lengths are drawn from 1 to this
    train_size = 100_000  # number of training samples
    dev_size = 10_000  # number of samples in each of the evaluation and test splits
    dataset_splits = three_splits(10)  # T2T's numbers of files, and a test split
    space_ids = 10, 11  # T2T's two kinds of digits, `DIGIT_0` and `DIGIT_1`

    @property
    @abc.abstractmethod
    def num_symbols(self) -> int:
        """Number of symbols."""

    @abc.abstractmethod
    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the targets of these inputs."""

    def draw_inputs(self, draw: random.Random, max_length: int) -> list[int]:
        """Returns the inputs of a sample, drawn evenly: their number first, then each symbol."""
        return draw.choices(range(self.num_symbols), k=draw.randint(1, max_length))

    @property
    def dev_length(self) -> int:
        """Greatest length of evaluation and test inputs; lengths are drawn from 1 to this."""
        return 400

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples of a split; each split has its own random numbers."""
        is_training = dataset_split == DatasetSplit.TRAIN
        max_length = self.train_length if is_training else self.dev_length
        draw = random.Random(f"{self.base_name}/{dataset_split}")
        for _ in range(self.train_size if is_training else self.dev_size):
            symbols = self.draw_inputs(draw, max_length)
            yield {
                "inputs": " ".join(map(str, symbols)),
                "targets": " ".join(map(str, self.solve(symbols))),
            }

    def vocab_files(self) -> list[str]:
        """Returns none: the vocabulary follows from `num_symbols`."""
        return []

    def load_vocab(self, data_dir: str) -> TextEncoder:
        """Returns the encoder of the symbols."""
        return NumberTextEncoder(self.num_symbols)


@registry.register_problem
class AlgorithmicIdentityBinary40(AlgorithmicProblem):
    """Copying zeros and ones."""

    num_symbols = 2

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the inputs."""
        return symbols


@registry.register_problem
class AlgorithmicIdentityDecimal40(AlgorithmicIdentityBinary40):
    """Copying decimal digits."""

    num_symbols = 10


@registry.register_problem
class AlgorithmicReverseBinary40(AlgorithmicProblem):
    """Reversing zeros and ones."""

    can_split_sources = False  # reversing a sequence also reverses the order of its pieces
    num_symbols = 2

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the inputs from last to first."""
        return symbols[::-1]


@registry.register_problem
class AlgorithmicReverseDecimal40(AlgorithmicReverseBinary40):
    """Reversing decimal digits."""

    num_symbols = 10


@registry.register_problem
class AlgorithmicShiftDecimal40(AlgorithmicProblem):
    """Replacing each of ten symbols by another symbol of its own."""

    shift = 10
    num_symbols = 20  # ten that are read, and ten that are written
    dev_length = 80  # greatest length of evaluation and test inputs: twice that of training

    def draw_inputs(self, draw: random.Random, max_length: int) -> list[int]:
        """Returns symbols of the lower half."""
        return draw.choices(range(self.num_symbols - self.shift), k=draw.randint(1, max_length))

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the counterparts of the inputs, in the upper half."""
        return [symbol + self.shift for symbol in symbols]


@registry.register_problem
class AlgorithmicSortProblem(AlgorithmicProblem):
    """Sorting up to 10 numbers in training, and up to 20 in evaluation."""

    can_split_sources = False  # pieces would be sorted by themselves
    train_length = 10

    @property
    def num_symbols(self) -> int:
        """As many as the longest input has."""
        return max(self.train_length, self.dev_length)

    @property
    def dev_length(self) -> int:
        """Greatest length of evaluation and test inputs: twice that of training."""
        return 2 * self.train_length

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the inputs in ascending order."""
        return sorted(symbols)


@registry.register_problem
class AlgorithmicReverseNlplike8k(AlgorithmicReverseBinary40):
    """Reversing sequences with lengths and frequencies like those of words in sentences."""

    zipf_exponent = 1.3  # the frequency of the n-th symbol is in proportion to n^-zipf_exponent
    num_symbols = 8_000
    train_length = 70  # twice the mean length of the inputs, which are normally distributed
    dev_length = 70  # as in training

    def draw_inputs(self, draw: random.Random, max_length: int) -> list[int]:
        """Returns symbols by Zipf's law; the deviation of the length is a tenth of `max_length`."""
        length = int(abs(draw.gauss(max_length / 2, max_length / 10)) + 1)
        return draw.choices(range(self.num_symbols), cum_weights=self._frequencies, k=length)

    @functools.cached_property
    def _frequencies(self) -> list[float]:
        ranks = range(1, self.num_symbols + 1)
        return list(itertools.accumulate(rank**-self.zipf_exponent for rank in ranks))


@registry.register_problem
class AlgorithmicReverseNlplike32k(AlgorithmicReverseNlplike8k):
    """The same with 32,000 symbols, of which rare ones occur more often."""

    zipf_exponent = 1.05
    num_symbols = 32_000


class ArithmeticProblem(AlgorithmicProblem):
    """Two numbers, each from its lowest digit to its highest, with a separator between them.

    The separator is the symbol after the highest digit. T2T has the same symbols, but a vocabulary
    without the separator.
    """

    can_split_sources = False  # the result follows from both numbers

    @property
    @abc.abstractmethod
    def base(self) -> int:
        """Base of the numbers: 2 or 10."""

    @abc.abstractmethod
    def calculate(self, one: int, other: int) -> int:
        """Returns the result."""

    @property
    def num_symbols(self) -> int:
        """The digits and the separator."""
        return self.base + 1

    def draw_inputs(self, draw: random.Random, max_length: int) -> list[int]:
        """Returns two numbers without leading zeros; the first has at most half of the length."""
        one = draw.randint(1, max_length // 2)
        other = draw.randint(1, max_length - one - 1)
        return [*self._draw_number(draw, one), self.base, *self._draw_number(draw, other)]

    def _draw_number(self, draw: random.Random, length: int) -> list[int]:
        highest = draw.randrange(1 if length > 1 else 0, self.base)
        return [*draw.choices(range(self.base), k=length - 1), highest]

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the digits of the result, from the lowest."""
        border = symbols.index(self.base)
        one, other = (
            int("".join(map(str, reversed(digits))), self.base)
            for digits in (symbols[:border], symbols[border + 1 :])
        )
        digits = format(self.calculate(one, other), "b" if self.base == 2 else "d")
        return [int(digit) for digit in reversed(digits)]


@registry.register_problem
class AlgorithmicAdditionBinary40(ArithmeticProblem):
    """Adding binary numbers."""

    base = 2

    def calculate(self, one: int, other: int) -> int:
        """Returns the sum."""
        return one + other


@registry.register_problem
class AlgorithmicAdditionDecimal40(AlgorithmicAdditionBinary40):
    """Adding decimal numbers."""

    base = 10


@registry.register_problem
class AlgorithmicMultiplicationBinary40(ArithmeticProblem):
    """Multiplying binary numbers."""

    base = 2

    def calculate(self, one: int, other: int) -> int:
        """Returns the product."""
        return one * other


@registry.register_problem
class AlgorithmicMultiplicationDecimal40(AlgorithmicMultiplicationBinary40):
    """Multiplying decimal numbers."""

    base = 10
