"""T2T's base class of translation problems."""

import json
import os
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from t2t_lite import files
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.interop.t2t import datasets as data_sets
from t2t_lite.interop.t2t import generator_utils
from t2t_lite.interop.t2t.adapter import needs_samples, overrides
from t2t_lite.interop.t2t.text_adapter import TextAdapter
from t2t_lite.interop.t2t.text_iterators import text2text_txt_iterator
from t2t_lite.interop.t2t.text_problems import Text2TextProblem
from t2t_lite.text.sample import Sample

__all__ = ["TranslateProblem", "compile_data"]

_SEGMENT = re.compile("<seg[^>]*>(.*)</seg>")


class TranslateAdapter(TextAdapter):
    """Translation, as this package calls it: its files are known before they are read."""

    def source_files(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Returns the files of the data sets that exist."""
        paths = (file.path(tmp_dir) for file in self._files(tmp_dir, dataset_split))
        return [path for path in paths if path.is_file()]

    def fetch_sources(self, tmp_dir: str, dataset_split: str) -> Sequence[pathlib.Path]:
        """Downloads what is missing."""
        return [file.fetch(tmp_dir) for file in self._files(tmp_dir, dataset_split)]

    def vocab_source_files(self, tmp_dir: str) -> Sequence[pathlib.Path]:
        """Returns the files of training that exist; none if the subclass reads other text."""
        if overrides(self.upstream, "generate_text_for_vocab"):
            return []
        return super().vocab_source_files(tmp_dir)

    def _files(self, tmp_dir: str, dataset_split: str) -> list[Any]:
        """Returns the files of the data sets; none if the subclass reads others."""
        reads_others = overrides(self.upstream, "generate_samples") or self.encodes_samples
        if reads_others or not overrides(self.upstream, "source_data_files"):
            return []
        entries = self.upstream.source_data_files(dataset_split)
        found = [
            file for entry in data_sets.listed(entries) for file in data_sets.files(entry, tmp_dir)
        ]
        return list(dict.fromkeys(found))


class TranslateProblem(Text2TextProblem):
    """Translation of lists of data sets; see `datasets.py` for their form."""

    _t2t_lite_adapter: ClassVar[Any] = TranslateAdapter

    # Kinds of training data, of "txt", "tsv" and "tmx", to clean by `clean_en_xx_pairs`.
    datatypes_to_clean: Collection[str] | None = None

    @property
    def additional_training_datasets(self) -> Sequence[data_sets.Entry]:
        """Training data that a subclass adds."""
        return []

    def source_data_files(self, dataset_split: str) -> Sequence[data_sets.Entry]:
        """Returns the data sets of a split.

        Raises:
            UserError: the subclass does not define them.
        """
        raise needs_samples(self, "source_data_files(dataset_split), or generate_samples")

    def vocab_data_files(self) -> Iterable[data_sets.Entry]:
        """Returns the data sets of the vocabulary."""
        return self.source_data_files(DatasetSplit.TRAIN)

    def generate_samples(
        self,
        data_dir: str,
        tmp_dir: str,
        dataset_split: str,
        custom_iterator: Callable[[str, str], Any] = text2text_txt_iterator,
    ) -> Iterable[Sample]:
        """Yields the pairs of a split.

        Args:
            data_dir: folder of the results.
            tmp_dir: folder of the raw files and downloads.
            dataset_split: the split.
            custom_iterator: reads the pairs from two files that `compile_data` writes; by default
                they are read from the data sets themselves.
        """
        del data_dir
        if custom_iterator is text2text_txt_iterator:
            entries = self.source_data_files(dataset_split)
            return data_sets.pairs(entries, tmp_dir, _cleaned(self, dataset_split))
        path = _compiled(self, tmp_dir, dataset_split)
        return custom_iterator(f"{path}.lang1", f"{path}.lang2")

    def generate_text_for_vocab(self, data_dir: str, tmp_dir: str) -> Iterator[str]:
        """Yields T2T's sample of `vocab_data_files`, which may name files of `compile_data`."""
        del data_dir
        entries = data_sets.listed(self.vocab_data_files())
        compiled = f"{self.name}-compiled-train"
        members = (name for entry in entries if data_sets.kind_of(entry) for name in entry[1])
        if any(str(member).startswith(compiled) for member in members):
            _compiled(self, tmp_dir, DatasetSplit.TRAIN)
        return generator_utils.generate_lines_for_vocab(tmp_dir, entries)


def _preprocess_sgm(line: str, is_sgm: bool) -> str:
    """Returns the text of a segment of an SGM file, "" for its other lines; text as it is."""
    if not is_sgm:
        return line
    segment = _SEGMENT.fullmatch(line.strip())
    return segment[1] if segment else ""


def _cleaned(problem: TranslateProblem, dataset_split: str) -> Collection[str]:
    """Returns the kinds of data that are cleaned."""
    return (dataset_split == DatasetSplit.TRAIN and problem.datatypes_to_clean) or ()


def _compiled(problem: TranslateProblem, tmp_dir: str, dataset_split: str) -> str:
    """Returns the path of a split's files of `compile_data`, which are written."""
    tag = "train" if dataset_split == DatasetSplit.TRAIN else "dev"
    entries = problem.source_data_files(dataset_split)
    name = f"{problem.name}-compiled-{tag}"
    return compile_data(tmp_dir, entries, name, _cleaned(problem, dataset_split))


def compile_data(
    tmp_dir: str,
    datasets: Sequence[data_sets.Entry],
    filename: str,
    datatypes_to_clean: Collection[str] | None = None,
) -> str:
    """Writes the pairs of data sets to `filename.lang1` and `.lang2` in `tmp_dir`.

    Files that were written from the same data sets are kept, and so are those that have no record
    (`filename.datasets.json`) of where they came from.

    Returns:
        The path without `.lang1`.
    """
    path = os.path.join(tmp_dir, filename)
    sides = [pathlib.Path(f"{path}.lang{number}") for number in (1, 2)]
    record = pathlib.Path(f"{path}.datasets.json")
    clean = sorted(datatypes_to_clean or ())
    now = json.dumps([data_sets.listed(datasets), clean])
    exist = all(side.is_file() for side in sides)
    if exist and (not record.is_file() or record.read_text(encoding="utf-8") == now):
        return path
    for old in (*sides, record):
        old.unlink(missing_ok=True)
    with files.whole_file(sides[0]) as one:
        with (
            files.whole_file(sides[1]) as other,
            one.open("w", encoding="utf-8") as sources,
            other.open("w", encoding="utf-8") as targets,
        ):
            for pair in data_sets.pairs(datasets, tmp_dir, clean=clean):
                sources.write(pair["inputs"] + "\n")
                targets.write(pair["targets"] + "\n")
        files.write_text(record, now)  # before the last file: both have a record if both exist
    return path
