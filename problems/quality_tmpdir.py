"""How good outputs are for their sources: data that `t2t-eval --segment_scores=FILE` writes.

Put its file as `scores.train.jsonl` into the folder `--tmp_dir`; `scores.eval.jsonl` is optional.
"""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite import json_files, registry
from t2t_lite.data import holding_out
from t2t_lite.data.corpora import corpora
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Sample, Text2TextProblem, TextConcat2RealProblem
from t2t_lite.errors import DataError, quoted
from t2t_lite.text.number_encoder import text_of
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import VocabType
from t2t_lite.text.text_files import iterate_lines

# chrF, from 0 to 100 there.
_SCORE, _BEST = "chrf", 100


@registry.register_problem
class QualityTmpdir(TextConcat2RealProblem):
    """A source and an output, and the output's chrF as a number from 0 to 1."""

    CONCAT_TOKEN = None  # EOS stands between the two, as `transformer_estimator` needs it.
    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 8_000

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training and evaluation."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 10},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    def split_settings(self, tmp_dir: str) -> dict[str, Any]:
        """Where the dev outputs come from, as long as there are any."""
        if corpora.find_file(_path(tmp_dir, DatasetSplit.EVAL)):
            return {"dev split": "a file of its own"}
        is_there = corpora.find_file(_path(tmp_dir, DatasetSplit.TRAIN))
        return {"dev split": "held out of training"} if is_there else {}

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
        return holding_out.by_source(
            lambda: self._read(train), _source_of, is_training, str(train), str(dev)
        )

    def _read(self, path: pathlib.Path) -> Iterator[Sample]:
        """Yields the outputs of a file; those without text are left out.

        Raises:
            DataError: a line is something else.
        """
        lines = self.bad_input.counted(iterate_lines(path, self.bad_input), str(path))
        for number, line in enumerate(lines, 1):
            if not self.bad_input.is_usable(line):
                continue
            try:
                *texts, score = _fields(line)
            except ValueError as error:
                self.bad_input(
                    DataError(
                        f"{path}, line {number}: expected an object with source, output and "
                        f"{_SCORE}, as t2t-eval --segment_scores writes it, got {quoted(line)}: "
                        f"{error}"
                    )
                )
                continue
            if all(map(has_text, texts)):
                yield {"inputs": "\t".join(texts), "targets": text_of([score])}


def _path(tmp_dir: str, split: str) -> pathlib.Path:
    return pathlib.Path(tmp_dir, f"scores.{split}.jsonl")


def _fields(line: str) -> tuple[str, str, float]:
    """Returns a source, an output and its score, from 0 to 1.

    Raises:
        ValueError: they are not in the line; the message says why.
    """
    found = json_files.parse_object(line.encode("utf-8", "surrogatepass"))
    source, output = found.get("source"), found.get("output")
    score: Any = found.get(_SCORE)
    if not (isinstance(source, str) and isinstance(output, str)):
        raise ValueError("source and output must be texts")
    # Rounded, since the best score that is computed may be a little more.
    if not (json_files.is_number(score) and 0 <= round(score, 6) <= _BEST):
        raise ValueError(f"{_SCORE} must be a number from 0 to {_BEST}")
    return source.replace("\t", " "), output.replace("\t", " "), score / _BEST


def _source_of(sample: Sample) -> str:
    return sample["inputs"].partition("\t")[0]
