"""Processes that read the checkpoints of a run while another one trains it.

Such a follower has a file in the run folder, `followers/NAME.json`, with the step up to which it
has finished with all checkpoints. It touches that file as a sign of life, since a file system may
show the locks of one machine to no other. No checkpoint is deleted before every living follower has
finished with it. A follower that was killed is waited for: started again within ten minutes, it
misses none.
"""

import contextlib
import functools
import json
import logging
import math
import os
import pathlib
import tempfile
import threading
import types
from collections.abc import Callable, Iterator, Sequence

from t2t_lite import files
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.runs import run_creation, run_folder
from t2t_lite.runs.checkpoint_files import (
    CHECKPOINT_INDEX,
    delete_checkpoint,
    list_checkpoints,
    step_of,
    whole_checkpoints,
    written_at,
)
from t2t_lite.waiting import arriving

log = logging.getLogger(__name__)

_FOLLOWERS = "followers"
_FINISHED = "finished"  # the field of a follower's file

_BEAT = 30.0  # seconds between two signs of life
_PATIENCE = 600.0  # seconds without one, after which nobody waits for a follower

# A checkpoint as it is now: its prefix, and when its last file was written.
_Key = tuple[str, int]


class Follower(contextlib.AbstractContextManager["Follower"]):
    """A process that reads each checkpoint of a run; within its block, none is deleted before that.

    Args:
        folder: the run folder.
        name: what the follower does, for the name of its file; a second one of this name is
            refused.
        before: how many checkpoints before each one are needed together with it.

    Raises:
        UserError: another process follows the run under this name.
    """

    def __init__(self, folder: pathlib.Path, name: str, before: int = 0) -> None:
        self._folder = folder
        self._before = before
        self._name = name
        self._path = folder / _FOLLOWERS / f"{name}.json"
        self._finished: int | None = None
        self._met: set[_Key] = set()
        self._ended = threading.Event()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> "Follower":
        self._path.parent.mkdir(parents=True, exist_ok=True)  # the trainer may come later
        doing = f"follows {self._folder} ({self._name})"
        self._stack.enter_context(locked(self._path.with_suffix(".lock"), "process", doing))
        self._say(-1)
        threading.Thread(target=self._beat, daemon=True, name="follower").start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self._ended.set()
        is_over = kind is None or kind is GeneratorExit
        if is_over or (isinstance(error, UserError) and error.exit_code != os.EX_TEMPFAIL):
            self._path.unlink(missing_ok=True)  # else it may be started again
        self._stack.close()

    def checkpoints(self, is_done: Callable[[str], bool], minutes: float) -> Iterator[str]:
        """Yields the prefixes of whole checkpoints, each once, in the order of their steps.

        A checkpoint is finished with when the next one is asked for.

        Args:
            is_done: whether a checkpoint was finished with by an earlier process.
            minutes: how long to wait for the next checkpoint; below 0: forever, as in T2T. The end
                of training ends the wait.
        """
        has_ended = functools.partial(is_trained, self._folder)
        for key in arriving(lambda: self._next(is_done), minutes, has_ended):
            yield key[0]
            self._met.add(key)
        if has_ended():
            log.info("the training of %s has ended", self._folder)

    def _next(self, is_done: Callable[[str], bool]) -> _Key | None:
        """Returns the first checkpoint that is not finished with, and says so to the trainer."""
        paths = whole_checkpoints(self._folder)
        for place, path in enumerate(paths):
            written = written_at(path)
            if written is None or (key := (path, written)) in self._met:
                continue
            if not is_done(path):
                self._say_needed(paths, place)
                return key
            self._met.add(key)
        self._say_needed(paths, len(paths))
        return None

    def _say_needed(self, paths: Sequence[str], place: int) -> None:
        """Says that the checkpoint at a place is the next, and that those before it are needed."""
        needed = paths[max(0, place - self._before) :]
        self._say(step_of(needed[0]) - 1 if needed else max(map(step_of, paths), default=-1))

    def _say(self, finished: int) -> None:
        if finished != self._finished:
            files.write_text(self._path, json.dumps({_FINISHED: finished}) + "\n")
            self._finished = finished

    def _beat(self) -> None:
        while not self._ended.wait(_BEAT):
            with contextlib.suppress(OSError):
                os.utime(self._path)


def is_trained(folder: pathlib.Path) -> bool:
    """Whether the checkpoint of a run's last step is there."""
    settings = run_folder.read_run_settings(str(folder))
    if settings is None or settings.train_steps is None:
        return False
    return any(step_of(path) >= settings.train_steps for path in whole_checkpoints(folder)[-1:])


def checkpoints_of(
    folder: pathlib.Path,
    name: str,
    is_done: Callable[[str], bool],
    minutes: float,
    before: int = 0,
) -> Iterator[str]:
    """Yields the checkpoints of a run that are there, and with `minutes` those that come.

    Args:
        folder: the run folder; without `minutes`, nothing is written to it.
        name: as for `Follower`.
        is_done: as for `Follower.checkpoints`.
        minutes: as for `Follower.checkpoints`.
        before: as for `Follower`.
    """
    if not minutes:
        yield from (path for path in whole_checkpoints(folder) if not is_done(path))
        return
    with Follower(folder, name, before) as follower:
        yield from follower.checkpoints(is_done, minutes)
    delete_leftovers(folder)


def delete_old(
    folder: pathlib.Path, there: Sequence[str], keep: int, now: float | None = None
) -> None:
    """Deletes a run's checkpoints beyond the newest `keep`, but those that followers need.

    Args:
        folder: the run folder.
        there: the prefixes of its checkpoints, in step order.
        keep: the number of newest checkpoints to keep.
        now: the time by the clock of the file system; None: the last checkpoint has just been
            written.
    """
    if now is None:
        now = os.path.getmtime(there[-1] + CHECKPOINT_INDEX)
    needed = _needed_from(folder, now)
    kept = [path for path in there if path in there[-keep:] or step_of(path) >= needed]
    list_checkpoints(folder, kept)
    for path in there:
        if path not in kept:
            delete_checkpoint(path)


def delete_leftovers(folder: pathlib.Path) -> None:
    """Deletes what `delete_old` has kept for followers alone, once a trainer has ended.

    Until then the trainer does so: it may be on another machine, which sees no lock of this one.
    """
    settings = run_folder.read_run_settings(str(folder))
    if settings is None or settings.keep_checkpoint_max is None:
        return
    keep = settings.keep_checkpoint_max
    with contextlib.suppress(UserError), run_creation.exclusive(str(folder)):
        there = whole_checkpoints(folder)
        if len(there) > keep and is_trained(folder):
            with tempfile.NamedTemporaryFile(dir=folder) as written:
                now = os.path.getmtime(written.name)
            delete_old(folder, there, keep, now)


def _needed_from(folder: pathlib.Path, now: float) -> float:
    """Returns the first step whose checkpoint a living follower has not finished with.

    Args:
        folder: the run folder.
        now: the time by the clock of its file system, which other machines share.
    """
    found = math.inf
    for path in folder.glob(f"{_FOLLOWERS}/*.json"):
        with contextlib.suppress(FileNotFoundError):  # it ends just now
            if now - path.stat().st_mtime < _PATIENCE:
                found = min(found, _finished(path) + 1)
    return found


def _finished(path: pathlib.Path) -> int:
    """Returns what a follower's file says; -1, nothing, if it is damaged."""
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))[_FINISHED])
    except (ValueError, KeyError, TypeError):
        return -1
