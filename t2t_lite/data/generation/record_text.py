"""The text of problems that encode their samples or write their files themselves.

Their text is known only from the records, which are read, and decoded.
"""

import contextlib
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence

from t2t_lite.data import records
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.file_groups import FileGroup
from t2t_lite.data.generation.generator import generate_data
from t2t_lite.data.problem import SPLIT_FILE_NAMES, Problem
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UserError
from t2t_lite.text.number_encoder import number_id
from t2t_lite.text.sample import Sample
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder

# A side's ids, with EOS.
Ids = Mapping[str, Sequence[int]]


def is_needed(problem: Problem) -> bool:
    """Whether the samples of a problem are known only from its records."""
    if not isinstance(problem, Text2TextProblem):
        return True
    return problem.encodes_samples or problem.writes_files


@contextlib.contextmanager
def folder(problem: Problem, data_dir: str, tmp_dir: str, options: DatagenOptions) -> Iterator[str]:
    """Yields the data folder, or a temporary one for which the missing data is generated.

    Args:
        problem: the problem.
        data_dir: the data folder; its vocabularies are used if there are any.
        tmp_dir: folder of the raw files.
        options: how to generate.
    """
    if data_dir and _groups(problem, data_dir):
        yield data_dir
        return
    with tempfile.TemporaryDirectory() as temporary:
        for name in problem.vocab_files():
            path = pathlib.Path(data_dir, name)
            if data_dir and path.is_file():
                shutil.copy(path, pathlib.Path(temporary, name))
        generate_data(problem, temporary, tmp_dir, options)
        yield temporary


def groups(problem: Problem, data_dir: str) -> list[FileGroup]:
    """Returns the splits that have files.

    Raises:
        UserError: no split has files.
    """
    if found := _groups(problem, data_dir):
        return found
    raise UserError(
        f"{problem.base_name} wrote none of the files of its dataset_splits, from "
        "which the report would read the samples"
    )


def _groups(problem: Problem, data_dir: str) -> list[FileGroup]:
    found = []
    for split in dict.fromkeys(entry["split"] for entry in problem.dataset_splits):
        paths = [pathlib.Path(path) for path in problem.filepaths(data_dir, split)]
        if all(path.is_file() for path in paths):
            name = SPLIT_FILE_NAMES[split]
            files = dict.fromkeys(paths, split)
            found.append(FileGroup(problem.dataset_filename(), name, split, files, problem.sides))
    return found


def samples(
    problem: Problem, encoders: Mapping[str, TextEncoder], group: FileGroup
) -> Iterator[tuple[Sample, Ids]]:
    """Yields the samples of a split as text, with their ids."""
    for example in records.read_examples(group.files, problem.float_sides):
        ids = {side: example.get(side, []) for side in problem.sides}
        ids |= {side: [*map(number_id, ids[side]), EOS_ID] for side in problem.float_sides}
        text = {side: encoders[side].decode(ids[side]) for side in problem.sides}
        yield {"inputs": "", **text}, ids
