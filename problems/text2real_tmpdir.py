"""Your own text files with numbers, without any code.

Put `inputs.train.txt` and `targets.train.txt` into the folder `--tmp_dir`: a text a line, and in
line n of the targets the numbers of line n of the inputs, separated by tabs. Other splits are as
those of `text2text_tmpdir`.
"""

import pathlib
from collections.abc import Iterator, Sequence

from t2t_lite import files, registry
from t2t_lite.data.corpora import corpora
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Sample, Text2RealProblem, Text2TextProblem
from t2t_lite.errors import DataError, UserError
from t2t_lite.problems.text2text_tmpdir import Text2textTmpdir
from t2t_lite.text.number_encoder import NumberEncoder, counted, numbers_of_line, text_of
from t2t_lite.text.source_form import has_text
from t2t_lite.text.text_encoder import TextEncoder, VocabType
from t2t_lite.text.text_files import iterate_lines


@registry.register_problem
class Text2realTmpdir(Text2RealProblem, Text2textTmpdir):
    """Lines of text with numbers, as many in each line as in the first."""

    vocab_type = VocabType.SENTENCEPIECE_BPE
    approx_vocab_size = 8_000

    @property
    def count_file(self) -> str:
        """The name of the file in the data folder that says how many numbers a text has."""
        return f"{self.vocab_filename}.numbers"

    def vocab_files(self) -> list[str]:
        """Returns the vocabulary, and that file."""
        return [*super().vocab_files(), self.count_file]

    def build_vocab(self, data_dir: str, tmp_dir: str) -> None:
        """Writes both."""
        super().build_vocab(data_dir, tmp_dir)
        path = pathlib.Path(data_dir, self.count_file)
        if not path.is_file():
            count = self._count_in(self.fetch_sources(tmp_dir, DatasetSplit.TRAIN))
            files.write_text(path, f"{count}\n")

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        """Returns the encoder of text, and that of as many numbers.

        Raises:
            UserError: the file that says how many is missing.
        """
        encoders = super().feature_encoders(data_dir)
        return {**encoders, "targets": NumberEncoder(self._count(data_dir))}

    def _count(self, data_dir: str) -> int:
        """Returns how many numbers a text has."""
        path = pathlib.Path(data_dir, self.count_file)
        try:
            return int(path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            raise UserError(
                f"{path} does not say how many numbers each text has: generate the data with "
                f"t2t-datagen --problem={self.name} --data_dir={data_dir}"
            ) from None

    def _count_in(self, paths: Sequence[pathlib.Path]) -> int:
        """Returns how many numbers the lines of a split have: all of them as many as the first."""
        return len(next(self.read(paths))["targets"].split())

    def text_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the samples, whose numbers are text already."""
        return iter(Text2TextProblem.text_samples(self, data_dir, tmp_dir, dataset_split))

    def generate_samples(self, data_dir: str, tmp_dir: str, dataset_split: str) -> Iterator[Sample]:
        """Yields the pairs of a split.

        Raises:
            DataError: it has more or fewer numbers than training.
        """
        if pathlib.Path(data_dir, self.count_file).is_file():
            paths, count = self.fetch_sources(tmp_dir, dataset_split), self._count(data_dir)
            if (own := self._count_in(paths)) != count:
                raise DataError(
                    f"{paths[1]}: expected {counted(count)} in each line, as in training, got {own}"
                )
        return super().generate_samples(data_dir, tmp_dir, dataset_split)

    def read(self, paths: Sequence[pathlib.Path]) -> Iterator[Sample]:
        """Yields the pairs of two files.

        Raises:
            DataError: a line has no numbers, or more or fewer than the first.
        """
        inputs, targets = paths
        names = f"{inputs} and {targets}"
        lines = [iterate_lines(path, self.bad_input) for path in paths]
        pairs = corpora.aligned(lines[0], lines[1], names, self.bad_input)
        return corpora.with_text(self._checked(pairs, targets), names, self.bad_input)

    def _checked(
        self, pairs: Iterator[tuple[str, str]], path: pathlib.Path
    ) -> Iterator[tuple[str, str]]:
        first = count = 0
        for line, (text, written) in enumerate(pairs, 1):
            if not self.bad_input.is_usable(text, written) or not has_text(text + written):
                yield text, written
                continue
            try:
                # White space may stand between the thousands of one number.
                numbers = numbers_of_line(written, path, line, "\t")
                first, count = first or line, count or len(numbers)
                if len(numbers) != count:
                    raise DataError(
                        f"{path}, line {line}: expected {counted(count)}, as in line {first}, got "
                        f"{written.strip()!r}"
                    )
            except DataError as error:
                self.bad_input(error)
                continue
            yield text, text_of(numbers)

    def _tables(self, tmp_dir: str, split: str) -> list[pathlib.Path]:
        """Returns none: tables have text in both columns."""
        return []

    def _contents(self, path: pathlib.Path) -> str:
        """Returns what a missing file should contain, for the error."""
        if path.name.startswith("inputs"):
            return "it should contain the texts, one per line"
        return "it should contain the numbers of each text, one text per line, with tabs between"
