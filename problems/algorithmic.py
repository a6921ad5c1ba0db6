"""T2T's algorithmic tasks: copying and reversing random symbols, a basic test of learning.

A sample's text is its symbols as numbers separated by spaces, such as `3 1 4`.
"""

import abc
import random
from collections.abc import Iterator, Sequence
from typing import Any

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
            DataError: a word is not one of the symbols.
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

    @property
    @abc.abstractmethod
    def num_symbols(self) -> int:
        """Number of symbols."""

    @abc.abstractmethod
    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the targets of these inputs."""

    @property
    def train_length(self) -> int:
        """Greatest length of training inputs; lengths are drawn from 1 to this."""
        return 40

    @property
    def dev_length(self) -> int:
        """Greatest length of evaluation and test inputs; lengths are drawn from 1 to this."""
        return 400

    @property
    def train_size(self) -> int:
        """Number of training samples."""
        return 100_000

    @property
    def dev_size(self) -> int:
        """Number of samples in each of the evaluation and test splits."""
        return 10_000

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """T2T's numbers of files, and a test split."""
        return three_splits(10)

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples of a split; each split has its own random numbers."""
        is_training = dataset_split == DatasetSplit.TRAIN
        max_length = self.train_length if is_training else self.dev_length
        draw = random.Random(f"{self.base_name}/{dataset_split}")
        for _ in range(self.train_size if is_training else self.dev_size):
            symbols = draw.choices(range(self.num_symbols), k=draw.randint(1, max_length))
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

    def get_or_create_vocab(self, data_dir: str, tmp_dir: str) -> TextEncoder:
        """Returns the encoder of the symbols; there is nothing to build."""
        return self.load_vocab(data_dir)


@registry.register_problem
class AlgorithmicIdentityBinary40(AlgorithmicProblem):
    """Copying zeros and ones."""

    @property
    def num_symbols(self) -> int:
        """Two."""
        return 2

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the inputs."""
        return symbols


@registry.register_problem
class AlgorithmicIdentityDecimal40(AlgorithmicIdentityBinary40):
    """Copying decimal digits."""

    @property
    def num_symbols(self) -> int:
        """Ten."""
        return 10


@registry.register_problem
class AlgorithmicReverseBinary40(AlgorithmicProblem):
    """Reversing zeros and ones."""

    @property
    def can_split_sources(self) -> bool:
        """No: reversing a sequence also reverses the order of its pieces."""
        return False

    @property
    def num_symbols(self) -> int:
        """Two."""
        return 2

    def solve(self, symbols: list[int]) -> list[int]:
        """Returns the inputs from last to first."""
        return symbols[::-1]


@registry.register_problem
class AlgorithmicReverseDecimal40(AlgorithmicReverseBinary40):
    """Reversing decimal digits."""

    @property
    def num_symbols(self) -> int:
        """Ten."""
        return 10
