"""The streams of training examples of a problem, or of each problem of a mixture."""

from collections.abc import Sequence
from typing import NamedTuple

from t2t_lite.data.input_pipeline import Stream
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.records import count_records
from t2t_lite.errors import DataError


class MemberFiles(NamedTuple):
    """The training files of a member.

    Attributes:
        name: the member's.
        paths: its files.
        rate: its share of the examples.
    """

    name: str
    paths: Sequence[str]
    rate: float


def training_files(problem: Problem, data_dir: str, temperature: float) -> list[MemberFiles]:
    """Returns the training files of each of a problem's members.

    Args:
        problem: the problem.
        data_dir: folder of the data.
        temperature: the hparam `mixture_temperature`.

    Raises:
        UserError: a file is missing.
        DataError: a member of a mixture has no example.
    """
    names = [member.name for member in problem.members]
    paths = [m.existing_filepaths(data_dir, DatasetSplit.TRAIN) for m in problem.members]
    sizes = [count_records(own) for own in paths] if len(names) > 1 else [1]
    if 0 in sizes:
        raise DataError(
            f"{paths[sizes.index(0)][0]} and the files beside it have no example; delete them and "
            f"run t2t-datagen --problem={problem.generated_by} again"
        )
    rates = problem.rates(sizes, temperature)
    return [MemberFiles(*member) for member in zip(names, paths, rates, strict=True)]


def streams(members: Sequence[MemberFiles]) -> list[Stream]:
    """Returns how the input pipeline mixes the files of all members, one after the other."""
    return [Stream(len(member.paths), member.rate) for member in members]
