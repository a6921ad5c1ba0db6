"""Lock files: keep a second process from doing the same work at the same time."""

import contextlib
import logging
import os
import pathlib
import socket
import time
from collections.abc import Iterator

from t2t_lite.errors import UserError

log = logging.getLogger(__name__)

_WAIT = 0.1  # seconds between two attempts


@contextlib.contextmanager
def locked(path: pathlib.Path, command: str, doing: str, wait: bool = False) -> Iterator[None]:
    """Keeps other processes out of the block.

    The kernel releases the locks of a dead process, so a leftover lock file blocks nobody. On a
    file system without locks, a warning is logged.

    Args:
        path: the lock file, which names its holder; removed at the end of the block.
        command: the command that is locked out, for messages.
        doing: what it does in the block, for messages.
        wait: whether to wait while another process holds the lock.

    Raises:
        UserError: another process holds the lock.
    """
    with contextlib.ExitStack() as exit_stack:
        has_said_so = False
        while not _acquire(path, command, exit_stack):
            busy = f"another {command} {doing}"
            if not wait:
                raise UserError(f"{busy}; wait for it, then run this again ({_holder(path)})")
            if not has_said_so:
                log.info("waiting: %s (%s)", busy, _holder(path))
                has_said_so = True
            time.sleep(_WAIT)
        yield


def _acquire(path: pathlib.Path, command: str, exit_stack: contextlib.ExitStack) -> bool:
    """Takes the lock until the end of the stack; returns whether it was free."""
    try:
        import fcntl  # here, because not every system has it

        file = exit_stack.enter_context(path.open("ab", buffering=0))
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The previous holder may have removed it since it was opened.
        if os.path.samestat(os.fstat(file.fileno()), path.stat()):
            exit_stack.callback(path.unlink, missing_ok=True)
            with contextlib.suppress(OSError):  # the disk is full: the lock holds all the same
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            return True
    except (BlockingIOError, FileNotFoundError):
        pass
    except (ImportError, OSError) as error:
        log.warning("cannot lock %s (%s): do not start a second %s there", path, error, command)
        return True
    return False


def _holder(path: pathlib.Path) -> str:
    """Describes the holder by its lock file, which it may be about to write or remove."""
    try:
        name = path.read_text(encoding="utf-8")
    except OSError:
        name = ""
    return f"it is {name}" if name else f"it holds {path}"
