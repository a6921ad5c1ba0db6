"""The groups of files to generate for a problem, each from one sequence of samples."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem

# Name of the only group of a problem that spreads its samples over all splits.
ALL_SPLITS = "all"


@dataclasses.dataclass(frozen=True)
class FileGroup:
    """Files that are generated from one sequence of samples.

    Attributes:
        problem: `dataset_filename` of the problem.
        name: the group's name in the problem's fingerprint.
        source: the split for which `generate_samples` yields the samples.
        files: the split of each file, in the order in which samples go to the files.
        sides: those that the samples have.
        without_text: of these, those that never have text.
        keeps_order: whether files of training keep the order of the samples.
    """

    problem: str
    name: str
    source: str
    files: Mapping[pathlib.Path, str]
    sides: Sequence[str]
    without_text: Sequence[str] = ()
    keeps_order: bool = False

    @property
    def title(self) -> str:
        """The problem and its splits, for messages."""
        return f"{self.problem} {' and '.join(dict.fromkeys(self.files.values()))}"

    @property
    def is_complete(self) -> bool:
        """Whether all its files exist."""
        return all(path.is_file() for path in self.files)


def file_groups(problem: Text2TextProblem, data_dir: str, tmp_dir: str) -> list[FileGroup]:
    """Returns the groups to generate: one per split, or one for all splits."""
    per_split = problem.is_generate_per_split
    splits = [entry["split"] for entry in problem.splits_to_generate(tmp_dir)]
    return [
        FileGroup(
            problem=problem.dataset_filename(),
            name=SPLIT_FILE_NAMES[group[0]] if per_split else ALL_SPLITS,
            source=group[0] if per_split else DatasetSplit.TRAIN,
            files={
                pathlib.Path(path): split
                for split in group
                for path in problem.filepaths(data_dir, split)
            },
            sides=problem.sides,
            without_text=problem.sides_without_text,
            keeps_order=bool(problem.already_shuffled),
        )
        for group in ([[split] for split in splits] if per_split else [splits])
    ]
