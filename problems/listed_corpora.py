"""Problems whose text is a list of corpora, downloaded or taken from `--tmp_dir`."""

import abc
import pathlib
from collections.abc import Iterator, Sequence

from t2t_lite.data.corpora.corpora import Corpus, RemoteFile, chained
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.text.sample import Sample


class ListedCorpora(Text2TextProblem):
    """Base class: a subclass lists the corpora of each split."""

    @abc.abstractmethod
    def corpora(self, dataset_split: str) -> tuple[Corpus, ...]:
        """Returns the corpora of a split, in the order in which they are read."""

    def corpora_in(self, tmp_dir: str, dataset_split: str) -> tuple[Corpus, ...]:
        """Returns `corpora`, and optional ones whose archives are in `tmp_dir`."""
        return self.corpora(dataset_split)

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the existing archives."""
        paths = [file.path(tmp_dir) for file in self._archives(tmp_dir, dataset_split)]
        return [path for path in paths if path.is_file()]

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads missing archives."""
        return [file.fetch(tmp_dir) for file in self._archives(tmp_dir, dataset_split)]

    def _archives(self, tmp_dir: str, dataset_split: str) -> Sequence[RemoteFile]:
        corpora = self.corpora_in(tmp_dir, dataset_split)
        files = [file for corpus in corpora for file in corpus.files]
        return list(dict.fromkeys(files))

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Downloads the archives of a split, then returns an iterator over its pairs."""
        return chained(self.corpora_in(tmp_dir, dataset_split), tmp_dir, self.bad_input)

    def samples_by_corpus(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[tuple[str, Iterator[Sample]]]:
        """Yields the name and the pairs of each corpus; errors as in `generate_samples`."""
        for corpus in self.corpora_in(tmp_dir, dataset_split):
            yield corpus.name, corpus.pairs(tmp_dir, self.bad_input)
