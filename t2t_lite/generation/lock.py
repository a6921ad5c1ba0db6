"""Locks of data generation: only one process at a time generates the files of a problem."""

import contextlib
import pathlib
from collections.abc import Iterator

from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.lock import locked


@contextlib.contextmanager
def exclusive(problem: Text2TextProblem, data_dir: str) -> Iterator[None]:
    """Keeps other processes from generating a problem, and one whose vocabulary it uses.

    On a file system without locks, a warning is logged.

    Args:
        problem: the problem whose files are generated within the block.
        data_dir: their folder; created if missing.
    """
    folder = pathlib.Path(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    names = [problem.dataset_filename()]
    while other := problem.use_vocab_from_other_problem:
        problem = other
        names.append(problem.dataset_filename())
    with contextlib.ExitStack() as locks:
        for name in dict.fromkeys(names):
            doing = f"is generating {name} in {folder}"
            locks.enter_context(locked(folder / f".{name}.lock", "t2t-datagen", doing))
        yield
