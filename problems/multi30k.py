"""Multi30k: captions of photographs, English with German and French translations."""

import pathlib
from collections.abc import Iterator, Sequence
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.data.corpora import corpora
from t2t_lite.data.corpora.download import download
from t2t_lite.data.problem import DatasetSplit, three_splits
from t2t_lite.data.text_problems import TranslateProblem
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import VocabType

_URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
_OWN_FOLDER = "multi30k"
_FILES = {
    DatasetSplit.TRAIN: "train",
    DatasetSplit.EVAL: "val",
    DatasetSplit.TEST: "test_2016_flickr",
}
_SHA256 = {
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.fr.gz": "622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.fr.gz": "ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.fr.gz": "6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90",
}


class TranslateMulti30k(TranslateProblem):
    """English to `targets_language`: 29,000 training, 1,014 evaluation and 1,000 test pairs.

    Uses the files in `tmp_dir/multi30k` or `tmp_dir`, compressed or not, and downloads missing
    ones. Source: the raw files of task 1 at github.com/multi30k/dataset (Elliott et al. 2016,
    arXiv:1605.00459; French: Elliott et al. 2017, arXiv:1710.07177).
    """

    targets_language: ClassVar[str]

    licence = "for research and education, non-commercial use only"
    vocab_type = VocabType.SENTENCEPIECE_BPE  # one for both languages
    approx_vocab_size = 10_000  # a size that suits 29,000 short pairs
    dataset_splits = three_splits(10)  # `train`, `val` and `test_2016_flickr`

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the existing files of both languages."""
        found = [_find_raw_file(tmp_dir, name) for name in self._names(dataset_split)]
        return [path for path in found if path]

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads missing files; returns the file of the sources, then that of the targets."""
        return [_raw_file(tmp_dir, name) for name in self._names(dataset_split)]

    def _names(self, dataset_split: str) -> list[str]:
        return [f"{_FILES[dataset_split]}.{language}" for language in ("en", self.targets_language)]

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the pairs of a split."""
        inputs, targets = self.fetch_sources(tmp_dir, dataset_split)
        return corpora.aligned_pairs(inputs, targets, self.bad_input)


@registry.register_problem
class TranslateEndeMulti30k(TranslateMulti30k):
    """English-German; see `TranslateMulti30k` for source and licence (non-commercial)."""

    targets_language = "de"


@registry.register_problem
class TranslateEnfrMulti30k(TranslateMulti30k):
    """English-French; see `TranslateMulti30k` for source and licence (non-commercial)."""

    targets_language = "fr"


def _raw_file(tmp_dir: str, name: str) -> pathlib.Path:
    """Returns the path of a file such as `train.en`; downloads it if it is missing."""
    found = _find_raw_file(tmp_dir, name)
    if found:
        return found
    path = pathlib.Path(tmp_dir) / _OWN_FOLDER / f"{name}.gz"
    download(_URL + path.name, path, _SHA256[path.name])
    return path


def _find_raw_file(tmp_dir: str, name: str) -> pathlib.Path | None:
    folders = (pathlib.Path(tmp_dir) / _OWN_FOLDER, pathlib.Path(tmp_dir))
    return next(iter(corpora.existing_files(folder / name for folder in folders)), None)
