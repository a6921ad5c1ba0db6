"""Writes the text of a problem as files of lines, and what the teacher has to translate."""

import contextlib
import pathlib
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TextIO

from t2t_lite import files
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.file_groups import file_groups
from t2t_lite.data.generation.generator import read_samples
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import DataError, UsageError
from t2t_lite.problems.text2text_tmpdir import text_files
from t2t_lite.progress import progress
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.text_encoder import require_characters
from t2t_lite.text.text_files import iterate_lines

Pair = tuple[str, str]  # source and target, one line each

_LINE_ENDS = str.maketrans("\n\r", "  ")


def check_problem(problem: object, given: str, alone: str) -> Text2TextProblem:
    """Returns a problem that consists of pairs of text.

    Args:
        problem: the problem.
        given: the flag that names it, for messages.
        alone: what a member of a mixture needs to be named by itself, for messages.

    Raises:
        UsageError: it does not.
    """
    if (
        not isinstance(problem, Text2TextProblem)
        or not problem.has_inputs
        or not problem.has_text_targets
        or problem.was_copy
        or problem.writes_files
        or problem.encodes_samples
    ):
        raise UsageError(f"{given}: this command reads only pairs of text")
    if problem.members != (problem,):
        raise UsageError(
            f"{given} is a mixture: name one of its members, such as "
            f"{problem.members[0].name}, with {alone}"
        )
    return problem


def check_direction(run: RunFolder, problem: Text2TextProblem, back: bool, flags: str) -> None:
    """Checks which way a model translates, if it was trained on the text of a problem.

    Args:
        run: that of the model.
        problem: the problem.
        back: whether to translate the problem's targets into its sources.
        flags: what needs the model, for messages.

    Raises:
        UsageError: it translates the other way.
    """
    trained_on = run.problem
    if trained_on.base_name == problem.base_name and trained_on.was_reversed != (
        problem.was_reversed != back
    ):
        raise UsageError(
            f"the model in {run.folder} was trained on {trained_on.name}: {flags} needs one of the "
            "other direction"
        )


def source_files(problem: Text2TextProblem, data_dir: str, tmp_dir: str) -> list[pathlib.Path]:
    """Returns the existing files that the text of a problem is read from, as far as it names them.

    Arguments as in `write_splits`.
    """
    groups = file_groups(problem, data_dir, tmp_dir)
    return [path for group in groups for path in problem.source_files(tmp_dir, group.source)]


def write_splits(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, folder: pathlib.Path
) -> Counter[str]:
    """Writes the pairs of every split to the files that `text2text_tmpdir` reads.

    They are those that data generation would encode, sides exchanged in a `_rev` form.

    Args:
        problem: the problem.
        data_dir: folder of the problem's data.
        tmp_dir: folder of its raw files; what is missing there is downloaded.
        folder: where to write.

    Returns:
        The number of pairs of each split.

    Raises:
        UserError: a raw file is not available.
        DataError: the raw text is unusable, or the training split is empty.
    """
    counts: Counter[str] = Counter()
    with contextlib.ExitStack() as closing, progress("reading text", unit="pairs") as advance:
        writers: dict[str, PairWriter] = {}
        for split, pair in _pairs_by_split(problem, data_dir, tmp_dir):
            if split not in writers:
                writers[split] = closing.enter_context(PairWriter(folder, split))
            writers[split].write(*pair)
            counts[split] += 1
            advance(1)
    if not counts[DatasetSplit.TRAIN]:
        raise DataError(f"{problem.name} has no training pairs in {tmp_dir}")
    return counts


class PairWriter:
    """Writes pairs to the two files of a split: a context manager.

    Args:
        folder: folder of the files.
        split: their split.
    """

    def __init__(self, folder: pathlib.Path, split: str) -> None:
        self._paths = text_files(folder, split)
        self._files: list[TextIO] = []

    def __enter__(self) -> "PairWriter":
        self._files = [path.open("w", encoding="utf-8", newline="\n") for path in self._paths]
        return self

    def __exit__(self, *_: object) -> None:
        for path, file in zip(self._paths, self._files, strict=True):
            with files.errors_of(path):
                file.close()

    def write(self, source: str, target: str) -> None:
        """Adds a pair.

        Raises:
            DataError: UTF-8 cannot encode one of the texts.
        """
        texts = source, target
        for path, text in zip(self._paths, texts, strict=True):
            require_characters(text, f"a text for {path}")
        for path, file, text in zip(self._paths, self._files, texts, strict=True):
            with files.errors_of(path):
                file.write(f"{text}\n")


def pairs_to_clean(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str, skip_bad: bool
) -> Iterator[Pair]:
    """Yields the pairs that `t2t-datagen --clean` reads, in their order.

    Args:
        problem: as in `write_splits`.
        data_dir: likewise.
        tmp_dir: likewise.
        skip_bad: whether to skip what cannot be read, as `t2t-datagen --skip_bad`.

    Raises:
        UserError: a raw file is not available.
        DataError: the raw text is unusable.
    """
    problem.check()
    problem.bad_input = BadInput(skip=skip_bad)
    problem.fetch_sources(tmp_dir, DatasetSplit.TRAIN)
    return _pairs(problem, data_dir, tmp_dir, DatasetSplit.TRAIN)


def pairs_of(folder: pathlib.Path, split: str) -> Iterator[Pair]:
    """Yields the pairs that `PairWriter` wrote."""
    inputs, targets = map(iterate_lines, text_files(folder, split))
    return zip(inputs, targets, strict=True)


def write_lines(path: pathlib.Path, lines: Iterable[str]) -> int:
    """Writes lines to a file; returns their number."""
    count = 0
    with files.errors_of(path), path.open("w", encoding="utf-8", newline="\n") as file:
        for line in lines:
            file.write(f"{one_line(line)}\n")
            count += 1
    return count


def one_line(text: str) -> str:
    """Returns a text as one line, without white space around it."""
    return text.translate(_LINE_ENDS).strip()


def _pairs_by_split(
    problem: Text2TextProblem, data_dir: str, tmp_dir: str
) -> Iterator[tuple[str, Pair]]:
    """Yields the pairs of all splits, each with its split."""
    problem.check()
    groups = file_groups(problem, data_dir, tmp_dir)
    for group in groups:
        problem.fetch_sources(tmp_dir, group.source)
    for group in groups:
        splits = list(group.files.values())  # samples are dealt to the files in turn
        pairs = _pairs(problem, data_dir, tmp_dir, group.source)
        for number, pair in enumerate(pairs):
            yield splits[number % len(splits)], pair


def _pairs(problem: Text2TextProblem, data_dir: str, tmp_dir: str, split: str) -> Iterator[Pair]:
    """Yields the pairs that are read for a split, from which cleaning drops none."""
    first, second = ("targets", "inputs") if problem.was_reversed else ("inputs", "targets")
    for sample in read_samples(problem, data_dir, tmp_dir, split, DatagenOptions()):
        yield one_line(sample[first]), one_line(sample[second])
