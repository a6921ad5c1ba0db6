"""One process at a time makes the files of a problem."""

import contextlib
import logging
import os
import pathlib
from collections.abc import Iterator

from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UserError

log = logging.getLogger(__name__)


@contextlib.contextmanager
def exclusive(problem: Text2TextProblem, data_dir: str) -> Iterator[None]:
    """Keeps other processes from making files of a problem, or of one whose vocabulary it uses.

    The kernel gives a dead process's locks back, so what is left of a lock file blocks nobody.
    Where nothing can be locked, the log says so.

    Args:
        problem: whose files are made within the block.
        data_dir: their folder; made if missing.

    Raises:
        UserError: another process makes them.
    """
    folder = pathlib.Path(data_dir)
    folder.mkdir(parents=True, exist_ok=True)
    names = [problem.base_name]
    while other := problem.use_vocab_from_other_problem:
        problem = other
        names.append(problem.base_name)
    with contextlib.ExitStack() as locks:
        for name in dict.fromkeys(names):
            locks.enter_context(_locked(folder / f".{name}.lock", name))
        yield


@contextlib.contextmanager
def _locked(path: pathlib.Path, name: str) -> Iterator[None]:
    with contextlib.ExitStack() as exit_stack:
        is_busy = True
        try:
            import fcntl  # here, because not every system has it

            file = exit_stack.enter_context(path.open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever held it may have removed it since it was opened.
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                exit_stack.callback(path.unlink, missing_ok=True)
                is_busy = False
        except (BlockingIOError, FileNotFoundError):
            pass
        except (ImportError, OSError) as error:
            log.warning("cannot lock %s (%s): start no second t2t-datagen there", path, error)
            is_busy = False
        if is_busy:
            raise UserError(
                f"another t2t-datagen is making {name} in {path.parent}; wait for it, then run "
                "this again"
            )
        yield
