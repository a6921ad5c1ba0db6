"""Text problems of T2T's, as this package calls them."""

import logging
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.data import text_problems
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.t2t import bad_lines
from t2t_lite.t2t.adapter import ProblemAdapter, adapted, module_of, overrides
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import EOS_ID

log = logging.getLogger(__name__)


def _users(name: str) -> Any:
    """Returns a property that has the value of the user's."""
    return property(operator.attrgetter(f"upstream.{name}"))


class TextAdapter(ProblemAdapter, text_problems.Text2TextProblem):
    """Pairs of text from `generate_samples` or `generate_encoded_samples`."""

    is_generate_per_split: Any = _users("is_generate_per_split")
    dataset_splits: Any = _users("dataset_splits")
    vocab_type: Any = _users("vocab_type")
    approx_vocab_size: Any = _users("approx_vocab_size")
    additional_reserved_tokens: Any = _users("additional_reserved_tokens")
    max_subtoken_length: Any = _users("max_subtoken_length")
    max_samples_for_vocab: Any = _users("max_samples_for_vocab")
    oov_token: Any = _users("oov_token")
    inputs_prefix: Any = _users("inputs_prefix")
    targets_prefix: Any = _users("targets_prefix")
    vocab_filename: Any = _users("vocab_filename")

    # ---- samples

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterable[Sample]:
        """Returns the user's samples."""
        bad_lines.receive(self.bad_input)
        samples: Iterable[Sample] = self.upstream.generate_samples(data_dir, tmp_dir, dataset_split)
        return samples

    @property
    def encodes_samples(self) -> bool:
        """Whether `generate_encoded_samples` is the user's."""
        return overrides(self.upstream, "generate_encoded_samples")

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterable[Mapping[str, Sequence[int]]]:
        """Returns the user's samples of ids."""
        bad_lines.receive(self.bad_input)
        samples: Iterable[Mapping[str, Sequence[int]]] = self.upstream.generate_encoded_samples(
            data_dir, tmp_dir, dataset_split
        )
        return samples

    def encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[Mapping[str, Sequence[int]]]:
        """Yields what T2T's own `generate_encoded_samples` does."""
        self.build_vocab(data_dir, tmp_dir)
        encoders = self.feature_encoders(data_dir)
        for sample in self.prefixed(self.text_samples(data_dir, tmp_dir, dataset_split)):
            yield {
                side: [*encoder.encode(sample[side]), EOS_ID] for side, encoder in encoders.items()
            }

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Drops training pairs of which one side is empty."""
        dropped = 0
        for sample in super().text_samples(data_dir, tmp_dir, dataset_split):
            source = not self.has_inputs or self.inputs_prefix + sample["inputs"]
            target = self.targets_prefix + sample["targets"]
            if (source and target) or dataset_split != DatasetSplit.TRAIN:
                yield sample
            else:
                dropped += 1
        if dropped:
            log.warning("%s: dropped %d pairs: one side is empty", self.base_name, dropped)

    # ---- files

    def check(self) -> None:
        """Refuses, too, what this package lacks."""
        self.require_supported()
        super().check()

    @property
    def writes_files(self) -> bool:
        """Whether `generate_data` is another than that of pairs of text."""
        return module_of(self.upstream, "generate_data") != f"{__package__}.text2text_problem"

    def _number_of_files(self, data_dir: str, split: str) -> int:
        """Returns how many files a split has; a user's `generate_data` may choose other numbers."""
        is_users = overrides(self.upstream, "generate_data")
        if is_users and (count := self._existing_files(data_dir, split)):
            return count
        return len(text_problems.Text2TextProblem.filepaths(self, data_dir, split))

    def existing_filepaths(self, data_dir: str, split: str) -> list[str]:
        """Returns the data files of a split; T2T reads those of another tool, of any number."""
        if not any(map(os.path.isfile, self.filepaths(data_dir, split))):
            count = ProblemAdapter._number_of_files(self, data_dir, split)
            paths = self._shards(data_dir, split, count)
            if all(map(os.path.isfile, paths)):
                return paths
        return super().existing_filepaths(data_dir, split)

    # ---- vocabulary

    @property
    def use_vocab_from_other_problem(self) -> Any:
        """The user's, as this package calls it."""
        return adapted(self.upstream.use_vocab_from_other_problem)

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Returns the user's text."""
        return iter(self.upstream.generate_text_for_vocab(data_dir, tmp_dir))

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Lets the user's class write its vocabulary."""
        bad_lines.receive(self.bad_input)
        self.upstream.get_or_create_vocab(data_dir, tmp_dir)

    def other_vocab(self, data_dir: str, tmp_dir: str, force_get: bool) -> Any:
        """Returns a vocabulary of a kind that T2T does not have."""
        if not force_get:
            text_problems.Text2TextProblem.build_vocab(self, data_dir, tmp_dir)
        return self.load_vocab(data_dir)
