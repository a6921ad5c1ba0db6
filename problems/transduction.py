"""T2T's transduction of sequences, by algorithms of Grefenstette et al. (2015, arXiv:1506.02516).

Training sequences are short; evaluation and test sequences are up to twice as long, so that they
show whether a model generalises. T2T meant this, too, but takes its evaluation samples from the
training samples. Its text is `sym_7 sym_3 ...`.
"""

import abc
import pathlib
import random
from collections.abc import Iterator
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.text import vocabularies
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType


class TransductionProblem(Text2TextProblem):
    """Maps random symbols to the result of `transduce`; a problem's samples are always the same.

    Attributes:
        num_symbols: number of symbols.
        train_lengths: the least and the greatest length of training sequences.
        dev_lengths: those of evaluation and test sequences.
        train_size: number of training samples.
        dev_size: number of samples in each of the evaluation and test splits.
    """

    num_symbols: ClassVar[int] = 128
    train_lengths: ClassVar[tuple[int, int]] = (8, 64)
    dev_lengths: ClassVar[tuple[int, int]] = (65, 128)
    train_size: ClassVar[int] = 1_000_000
    dev_size: ClassVar[int] = 10_000

    @abc.abstractmethod
    def transduce(self, symbols: list[str]) -> list[str]:
        """Returns the targets of these inputs."""

    vocab_type = VocabType.TOKEN

    @property
    def symbols(self) -> list[str]:
        """All symbols."""
        return [f"sym_{number}" for number in range(1, self.num_symbols + 1)]

    dataset_splits = three_splits(100)  # T2T's numbers of files, and a test split

    def draw_length(self, draw: random.Random, least: int, greatest: int) -> int:
        """Returns the length of a sequence, drawn evenly."""
        return draw.randint(least, greatest)

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples of a split; each split has its own random numbers."""
        is_training = dataset_split == DatasetSplit.TRAIN
        lengths = self.train_lengths if is_training else self.dev_lengths
        draw, symbols = random.Random(f"{self.base_name}/{dataset_split}"), self.symbols
        for _ in range(self.train_size if is_training else self.dev_size):
            inputs = draw.choices(symbols, k=self.draw_length(draw, *lengths))
            yield {"inputs": " ".join(inputs), "targets": " ".join(self.transduce(inputs))}

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes the list of symbols if it is missing."""
        path = pathlib.Path(data_dir) / self.vocab_filename
        if not path.is_file():
            vocabularies.write_tokens(path, sorted(self.symbols))


class _Small(TransductionProblem):
    """The sizes of T2T's smaller problems."""

    num_symbols = 64
    train_lengths = (4, 16)
    dev_lengths = (17, 32)
    train_size = 100_000


@registry.register_problem
class CopySequence(TransductionProblem):
    """Copying a sequence."""

    def transduce(self, symbols: list[str]) -> list[str]:
        """Returns the inputs."""
        return symbols


@registry.register_problem
class CopySequenceSmall(_Small, CopySequence):
    """Copying shorter sequences of fewer symbols."""


@registry.register_problem
class ReverseSequence(TransductionProblem):
    """Reversing a sequence."""

    can_split_sources = False

    def transduce(self, symbols: list[str]) -> list[str]:
        """Returns the inputs from last to first."""
        return symbols[::-1]


@registry.register_problem
class ReverseSequenceSmall(_Small, ReverseSequence):
    """Reversing shorter sequences of fewer symbols."""


@registry.register_problem
class FlipBiGramSequence(TransductionProblem):
    """Exchanging the two symbols of each pair: 1 2 3 4 becomes 2 1 4 3."""

    can_split_sources = False

    def draw_length(self, draw: random.Random, least: int, greatest: int) -> int:
        """Returns an even length: an odd one that is drawn loses a symbol, as in T2T."""
        return draw.randint(least + least % 2, greatest) // 2 * 2

    def transduce(self, symbols: list[str]) -> list[str]:
        """Returns each pair of the inputs in the other order."""
        return [symbols[place ^ 1] for place in range(len(symbols))]
