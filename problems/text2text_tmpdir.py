"""Your own aligned text files, without any code.

Put `inputs.train.txt`, `targets.train.txt`, `inputs.eval.txt` and `targets.eval.txt` into the
folder `--tmp_dir`, one sentence per line, line n of the targets belonging to line n of the inputs;
`inputs.test.txt` and `targets.test.txt` are optional. Each may be compressed (`.gz`, `.bz2`). Pairs
with an empty side are dropped.
"""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.corpora import corpora
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.text import text_encoder, vocabularies
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType
from t2t_lite.text.text_files import iterate_lines


def text_files(folder: str | os.PathLike[str], split: str) -> list[pathlib.Path]:
    """Returns the paths of the sources and of the targets of a split."""
    return [pathlib.Path(folder) / f"{side}.{split}.txt" for side in ("inputs", "targets")]


@registry.register_problem
class Text2textTmpdir(Text2TextProblem):
    """T2T's problem of this name: a subword vocabulary, 100 training files."""

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """Training, evaluation and, if its files exist, test."""
        return [*super().dataset_splits, {"split": DatasetSplit.TEST, "shards": 1}]

    def splits_to_generate(self, tmp_dir: str) -> Sequence[dict[str, Any]]:
        """Returns all splits, except a test split without any file."""
        has_test = any(map(corpora.find_file, text_files(tmp_dir, DatasetSplit.TEST)))
        return [
            entry
            for entry in self.dataset_splits
            if has_test or entry["split"] != DatasetSplit.TEST
        ]

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the existing files of both sides."""
        return corpora.existing_files(text_files(tmp_dir, dataset_split))

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the files of both sides."""
        inputs, targets = text_files(tmp_dir, dataset_split)
        return [
            corpora.require_file(inputs, "it should contain the sources, one sentence per line"),
            corpora.require_file(targets, "it should contain the targets, one sentence per line"),
        ]

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the pairs of a split."""
        inputs, targets = self.fetch_sources(tmp_dir, dataset_split)
        return corpora.aligned_pairs(inputs, targets, self.bad_input)


@registry.register_problem
class Text2textTmpdirBpe(Text2textTmpdir):
    """The same with a SentencePiece BPE vocabulary, recommended for new work."""

    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 8_000  # a size for tens to hundreds of thousands of pairs


@registry.register_problem
class Text2textTmpdirTokens(Text2textTmpdir):
    """The same with words separated by white space, listed in `vocab.txt` in `--tmp_dir`.

    The list has one token per line; padding, EOS and `<UNK>` for unlisted words are added.
    """

    vocab_type = VocabType.TOKEN  # tokens separated by white space
    oov_token = "<UNK>"  # T2T's token for unlisted words

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns the list of tokens, if it exists."""
        return corpora.existing_files([_user_list(tmp_dir)])

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes the vocabulary from the user's list if it is missing."""
        path = pathlib.Path(data_dir) / self.vocab_filename
        if not path.is_file():
            user_list = corpora.require_file(
                _user_list(tmp_dir), "it should contain your tokens, one per line"
            )
            text_encoder.TokenTextEncoder(user_list)  # checks the list
            tokens = map(str.strip, iterate_lines(user_list))
            vocabularies.write_tokens(path, [self.oov_token, *tokens])


def _user_list(tmp_dir: str) -> pathlib.Path:
    return pathlib.Path(tmp_dir) / "vocab.txt"
