"""T2T's transduction problems, to derive from; themselves they are registered in `problems`."""

import os
import random
from collections.abc import Iterator
from typing import Any, ClassVar

from t2t_lite.data.problem import DatasetSplit
from t2t_lite.problems import transduction as native
from t2t_lite.t2t.adapter import needs
from t2t_lite.t2t.text_encoder import TokenTextEncoder
from t2t_lite.t2t.text_problems import Text2TextProblem
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType

__all__ = [
    "CopySequence",
    "CopySequenceSmall",
    "FlipBiGramSequence",
    "ReverseSequence",
    "ReverseSequenceSmall",
    "TransductionProblem",
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

    # The registered problem with the same sizes.
    _t2t_lite_native: ClassVar[Any] = native.TransductionProblem

    def __init__(self, was_reversed: bool = False, was_copy: bool = False) -> None:
        super().__init__(was_reversed, was_copy)
        self.vocab = self.build_vocab()

    @property
    def is_generate_per_split(self) -> bool:
        """No."""
        return False

    @property
    def vocab_type(self) -> str:
        """Tokens: the symbols."""
        return VocabType.TOKEN

    @property
    def num_symbols(self) -> int:
        """Number of symbols."""
        return self._t2t_lite_native.num_symbols

    def min_sequence_length(self, dataset_split: str) -> int:
        """Returns the least length of a sequence."""
        return _of(self._t2t_lite_native, "lengths", dataset_split)[0]

    def max_sequence_length(self, dataset_split: str) -> int:
        """Returns the greatest length of a sequence."""
        return _of(self._t2t_lite_native, "lengths", dataset_split)[1]

    def num_samples(self, dataset_split: str) -> int:
        """Returns the number of samples."""
        return _of(self._t2t_lite_native, "size", dataset_split)

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


def _of(problem: type[native.TransductionProblem], name: str, dataset_split: str) -> Any:
    """Returns a setting of a registered problem for a split."""
    kind = "train" if dataset_split == DatasetSplit.TRAIN else "dev"
    return getattr(problem, f"{kind}_{name}")


def _to_derive_from(problem: type[native.TransductionProblem], **members: Any) -> Any:
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


CopySequence = _to_derive_from(native.CopySequence)
CopySequenceSmall = _to_derive_from(native.CopySequenceSmall)
ReverseSequence = _to_derive_from(native.ReverseSequence)
ReverseSequenceSmall = _to_derive_from(native.ReverseSequenceSmall)
FlipBiGramSequence = _to_derive_from(native.FlipBiGramSequence, sequence_length=_even_length)
