"""T2T's sentiment analysis: whether a review of a film is positive (Maas et al. 2011)."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data.corpora.archives import iterate_members
from t2t_lite.data.corpora.corpora import RemoteFile, existing_files
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2ClassProblem
from t2t_lite.errors import DataError
from t2t_lite.text.text_encoder import VocabType

ARCHIVE = RemoteFile(
    "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
    84_125_825,
    "7c2ac02c03563afcf9b574c7e56c153a",
)
# The folders of the archive, `aclImdb/train/neg` and so on, for each split.
_FOLDERS = {DatasetSplit.TRAIN: "train", DatasetSplit.EVAL: "test"}
_LABELS = ("neg", "pos")


@registry.register_problem("sentiment_imdb")
class SentimentIMDB(Text2ClassProblem):
    """T2T's problem of this name: 25,000 reviews to train on, and 25,000 to evaluate on.

    As in T2T, these are the published test set, and there is no other.
    """

    @property
    def dataset_splits(self) -> Sequence[dict[str, Any]]:
        """T2T's numbers of files."""
        return [
            {"split": DatasetSplit.TRAIN, "shards": 10},
            {"split": DatasetSplit.EVAL, "shards": 1},
        ]

    approx_vocab_size = 2**13  # T2T's size

    @property
    def num_classes(self) -> int:
        """Two."""
        return len(_LABELS)

    def class_labels(self, data_dir: str) -> Sequence[str]:
        """Returns `neg` and `pos`."""
        return _LABELS

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the archive, if it is there."""
        return existing_files([ARCHIVE.path(tmp_dir)])

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads the archive if it is missing."""
        return [ARCHIVE.fetch(tmp_dir)]

    def generate_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[dict[str, Any]]:
        """Yields the reviews of a split, in the order of the archive.

        Raises:
            DataError: the archive lacks the reviews of a split.
        """
        (archive,) = self.fetch_sources(tmp_dir, dataset_split)
        folder = _FOLDERS[dataset_split]
        # There are reviews without label, too.
        labels: dict[tuple[str, ...], int]
        labels = {(folder, label): number for number, label in enumerate(_LABELS)}
        found = False
        for name, lines in iterate_members(archive, (".txt",), self.bad_input):
            label = labels.get(pathlib.PurePosixPath(name).parts[-3:-1])
            text = "" if label is None else " ".join(lines).strip()
            if text and self.bad_input.is_usable(text):
                found = True
                yield {"inputs": text, "label": label}
        if not found:
            raise DataError(f"{archive} has no review in {folder}/neg or {folder}/pos")


@registry.register_problem("sentiment_imdb_characters")
class SentimentIMDBCharacters(SentimentIMDB):
    """The same in bytes."""

    vocab_type = VocabType.CHARACTER
