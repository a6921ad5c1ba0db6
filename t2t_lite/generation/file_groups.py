"""What there is to generate for a problem: rows of samples, and the files that each goes to."""

import dataclasses
import pathlib
from collections.abc import Mapping

from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem

# Name of the one run of a problem that deals its samples out over all splits.
ALL_SPLITS = "all"


@dataclasses.dataclass(frozen=True)
class FileGroup:
    """Files that are made from one row of samples.

    Attributes:
        problem: base name of the problem.
        name: what the run is called in the problem's fingerprint.
        source: the split of `generate_samples` that gives the samples.
        files: the split that each file belongs to, in the order in which samples go to the files.
    """

    problem: str
    name: str
    source: str
    files: Mapping[pathlib.Path, str]

    @property
    def title(self) -> str:
        """Problem and splits, for messages."""
        return f"{self.problem} {' and '.join(dict.fromkeys(self.files.values()))}"

    @property
    def is_complete(self) -> bool:
        """Whether all its files exist."""
        return all(path.is_file() for path in self.files)


def file_groups(problem: Text2TextProblem, data_dir: str, tmp_dir: str) -> list[FileGroup]:
    """Returns what there is to generate: a run for each split, or one for all of them."""
    per_split = problem.is_generate_per_split
    splits = [entry["split"] for entry in problem.splits_to_generate(tmp_dir)]
    return [
        FileGroup(
            problem=problem.base_name,
            name=SPLIT_FILE_NAMES[group[0]] if per_split else ALL_SPLITS,
            source=group[0] if per_split else DatasetSplit.TRAIN,
            files={
                pathlib.Path(path): split
                for split in group
                for path in problem.filepaths(data_dir, split)
            },
        )
        for group in ([[split] for split in splits] if per_split else [splits])
    ]
