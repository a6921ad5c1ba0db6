"""Your own aligned text files, without any code.

Put `inputs.train.txt` and `targets.train.txt` into the folder `--tmp_dir`, one sentence per line,
line n of the targets belonging to line n of the inputs; `inputs.eval.txt`, `targets.eval.txt`,
`inputs.test.txt` and `targets.test.txt` are optional. Each may be compressed (`.gz`, `.bz2`). Pairs
with an empty side are dropped. Instead of two text files, a split may be a table: `train.parquet`,
or as `data/corpora/table_folders.py` describes. Without `eval` files, the last pairs of training
are held out as dev split, 5 % but at most 2,000, and neither they nor their equals train.
"""

import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data import holding_out
from t2t_lite.data.corpora import corpora, table_folders, tables
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UserError
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

    def optional_files(self, split: str) -> Sequence[str]:
        """Returns the names of the files of the test split."""
        return [path.name for path in self._files("", split)] if split == DatasetSplit.TEST else []

    def split_settings(self, tmp_dir: str) -> dict[str, Any]:
        """Where the dev pairs come from, as long as there are any."""
        if self._has_files(tmp_dir, DatasetSplit.EVAL):
            return {"dev split": "files of its own"}
        is_there = self._has_files(tmp_dir, DatasetSplit.TRAIN)
        return {"dev split": "held out of training"} if is_there else {}

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the existing files of all sides, or the tables."""
        split = self._read_split(tmp_dir, dataset_split)
        return [
            *corpora.existing_files(self._files(tmp_dir, split)),
            *table_folders.with_columns_file(tmp_dir, self._tables(tmp_dir, split)),
        ]

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the files of all sides, or the tables.

        Raises:
            UserError: a file is missing, or there are both.
        """
        split = self._read_split(tmp_dir, dataset_split)
        paths = self._files(tmp_dir, split)
        found = self._tables(tmp_dir, split)
        if not found:
            return [corpora.require_file(path, self._contents(path)) for path in paths]
        if texts := corpora.existing_files(paths):
            raise UserError(
                f"{texts[0]} and {found[0]} are both of the split {split!r}: leave one in {tmp_dir}"
            )
        return table_folders.with_columns_file(tmp_dir, found)

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the pairs of a split."""
        paths = self.fetch_sources(tmp_dir, dataset_split)
        is_table = table_folders.is_table(paths[0])
        held_out = self._read_split(tmp_dir, DatasetSplit.EVAL) == DatasetSplit.TRAIN
        if not held_out or dataset_split == DatasetSplit.TEST:
            if not is_table:
                return self.read(paths)
            train = self._tables(tmp_dir, DatasetSplit.TRAIN)
            return table_folders.pairs(paths, self.bad_input, train)
        return holding_out.training_or_held_out(
            lambda: self.read(paths),
            training=dataset_split == DatasetSplit.TRAIN,
            name=tables.named(paths) if is_table else " and ".join(map(str, paths)),
            dev_files="validation.parquet"
            if is_table
            else " and ".join(map(str, self._files(tmp_dir, DatasetSplit.EVAL))),
        )

    def read(self, paths: Sequence[pathlib.Path]) -> Iterator[Sample]:
        """Yields the pairs of the files of both sides, or of tables."""
        if table_folders.is_table(paths[0]):
            return table_folders.pairs(paths, self.bad_input)
        inputs, targets = paths
        return corpora.aligned_pairs(inputs, targets, self.bad_input)

    def _files(self, tmp_dir: str, split: str) -> list[pathlib.Path]:
        """Returns the paths of the files of a split, whether they exist or not."""
        return text_files(tmp_dir, split)

    def _tables(self, tmp_dir: str, split: str) -> list[pathlib.Path]:
        """Returns the tables of a split: none for text that has no pairs."""
        return table_folders.table_files(tmp_dir, split) if self.has_inputs else []

    def _has_files(self, tmp_dir: str, split: str) -> bool:
        texts = any(map(corpora.find_file, self._files(tmp_dir, split)))
        return texts or bool(self._tables(tmp_dir, split))

    def _read_split(self, tmp_dir: str, split: str) -> str:
        """Returns the split whose files are read for a split."""
        if split == DatasetSplit.EVAL and not self._has_files(tmp_dir, split):
            return DatasetSplit.TRAIN
        return split

    def _contents(self, path: pathlib.Path) -> str:
        """Returns what a missing file should contain, for the error."""
        side = "sources" if path.name.startswith("inputs") else "targets"
        table = path.with_name("train.parquet")
        return f"it should contain the {side}, one sentence per line; or put a table there, {table}"


@registry.register_problem
class Text2textTmpdirBpe(Text2textTmpdir):
    """The same with a SentencePiece BPE vocabulary, recommended for new work."""

    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 8_000  # for thousands to hundreds of thousands of pairs


@registry.register_problem
class Text2textTmpdirUnigram(Text2textTmpdirBpe):
    """The same with a SentencePiece unigram vocabulary, which Bergamot's engine needs."""

    vocab_type = VocabType.SENTENCEPIECE_UNIGRAM


@registry.register_problem
class Text2textTmpdirBpe2k(Text2textTmpdirBpe):
    """The same with a small BPE vocabulary; docs/choosing.md compares it."""

    approx_vocab_size = 2_000


@registry.register_problem
class Text2textTmpdirBpe32k(Text2textTmpdirBpe):
    """The same with a BPE vocabulary for millions of pairs."""

    approx_vocab_size = 32_000


@registry.register_problem
class Text2textTmpdirUnigram32k(Text2textTmpdirUnigram):
    """The same with a unigram vocabulary for millions of pairs."""

    approx_vocab_size = 32_000


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
