"""How good outputs are for their sources: data that `t2t-eval --segment_scores=FILE` writes.

Put its file as `scores.train.jsonl` into the folder `--tmp_dir`; `scores.eval.jsonl` is optional.
"""

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data import holding_out
from t2t_lite.data.corpora import corpora
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Sample, Text2TextProblem, TextConcat2RealProblem
from t2t_lite.errors import DataError, quoted
from t2t_lite.text.number_encoder import text_of
from t2t_lite.text.text_encoder import VocabType
from t2t_lite.text.text_files import iterate_lines

# chrF, from 0 to 100 there.
_SCORE, _BEST = "chrf", 100


@registry.register_problem
class QualityTmpdir(TextConcat2RealProblem):
    """A source and an output, and the output's chrF as a number from 0 to 1."""

    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 8_000

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training and evaluation."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 10},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the file of a split; that of training, if dev has none."""
        own = corpora.existing_files([_path(tmp_dir, dataset_split)])
        return own or corpora.existing_files([_path(tmp_dir, DatasetSplit.TRAIN)])

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the file of a split.

        Raises:
            UserError: it is missing.
        """
        found = self.source_files(tmp_dir, dataset_split)
        missing = _path(tmp_dir, DatasetSplit.TRAIN)
        return found or [corpora.require_file(missing, "t2t-eval --segment_scores writes it")]

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples, which are text already."""
        return iter(Text2TextProblem.text_samples(self, data_dir, tmp_dir, dataset_split))

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the outputs of a split."""
        (train,) = self.fetch_sources(tmp_dir, DatasetSplit.TRAIN)
        dev = _path(tmp_dir, DatasetSplit.EVAL)
        is_training = dataset_split == DatasetSplit.TRAIN
        if found := corpora.find_file(dev):
            return self._read(train if is_training else found)
        return holding_out.training_or_held_out(
            lambda: self._read(train), is_training, str(train), str(dev)
        )

    def _read(self, path: pathlib.Path) -> Iterator[Sample]:
        """Yields the outputs of a file; those without text are left out.

        Raises:
            DataError: a line is something else.
        """
        for number, line in enumerate(iterate_lines(path, self.bad_input), 1):
            if not self.bad_input.is_usable(line):
                continue
            try:
                found = json.loads(line)
                texts = [found[side].replace("\t", " ") for side in ("source", "output")]
                score = float(found[_SCORE]) / _BEST
            except (ValueError, TypeError, KeyError, AttributeError):
                raise DataError(
                    f"{path}, line {number}: expected an object with source, output and {_SCORE}, "
                    f"as t2t-eval --segment_scores writes it, got {quoted(line)}"
                ) from None
            if all(map(str.strip, texts)):
                yield {"inputs": "\t".join(texts), "targets": text_of([score])}


def _path(tmp_dir: str, split: str) -> pathlib.Path:
    return pathlib.Path(tmp_dir, f"scores.{split}.jsonl")
