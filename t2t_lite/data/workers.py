"""Worker processes that work through an endless row of tasks, a bounded number of them at a time.

They are started fresh ("spawn"): a fork would copy the locks and threads of whatever library the
caller has loaded.
"""

import collections
import contextlib
import functools
import gc
import itertools
import multiprocessing
import os
import pathlib
import pickle
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from t2t_lite.errors import UserError
from t2t_lite.files import INCOMPLETE

Job = TypeVar("Job")
Task = TypeVar("Task")
Result = TypeVar("Result")

# So that a worker always finds its next task, while memory holds but a few.
_TASKS_PER_WORKER = 2


class Workers(Generic[Job]):
    """Calls methods of one object, here or in worker processes that each hold a copy of it.

        with Workers(job, folder, 4) as workers:
            for result in workers.map(Job.method, tasks): ...

    Args:
        job: the object; picklable if there is more than one worker.
        folder: where processes find the job, in a file that this one removes unless it is killed,
            and the next one with the same folder writes over; made if missing.
        num_workers: how many; 0: one for each core. One means: no process but this one.
    """

    def __init__(self, job: Job, folder: pathlib.Path, num_workers: int = 0) -> None:
        self._job = job
        self._path = folder / f"job{INCOMPLETE}"
        self._num_workers = num_workers or available_cores()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._path.unlink(missing_ok=True)

    def map(
        self, method: Callable[[Job, Task], Result], tasks: Iterable[Task], here: bool = False
    ) -> Iterator[Result]:
        """Yields `method(job, task)` of each task, in their order.

        Processes are started as soon as there are two tasks. Tasks are taken from the iterator
        only as the work goes on.

        Args:
            method: a function at the top of a module, or of a class there.
            tasks: picklable.
            here: the tasks are too small for other processes.

        Raises:
            UserError: a worker process died, or the job is not picklable.
            Exception: whatever the method or the iterator raises.
        """
        remaining = iter(tasks)
        first = list(itertools.islice(remaining, 2))
        all_tasks = itertools.chain(first, remaining)
        if here or self._num_workers == 1 or len(first) < 2:
            yield from map(functools.partial(_do, method, self._job), all_tasks)
            return
        pool = self._started_pool()
        running: collections.deque[Future[Result]] = collections.deque()
        try:
            for task in all_tasks:
                running.append(pool.submit(_call, method, task))
                if len(running) >= _TASKS_PER_WORKER * self._num_workers:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process died: it was killed, perhaps because memory ran out, or could "
                "not start; run the command again, it goes on from here (fewer --num_workers take "
                "less memory). A script of your own must start the work below "
                "`if __name__ == '__main__':`, or with num_workers=1"
            ) from None

    def _started_pool(self) -> ProcessPoolExecutor:
        if self._pool is None:
            try:
                pickled = pickle.dumps(self._job)
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                raise UserError(
                    f"worker processes need what cannot be pickled ({error}); make the encoders "
                    "picklable, or give --num_workers=1"
                ) from None
            # By a file: a process that dies as it starts leaves this one waiting for ever if what
            # it was to be told is more than a pipe holds.
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(pickled)
            self._pool = ProcessPoolExecutor(
                self._num_workers,
                multiprocessing.get_context("spawn"),
                initializer=_start,
                initargs=(self._path,),
            )
        return self._pool


def available_cores() -> int:
    """Returns how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def garbage_collector_paused() -> Iterator[None]:
    """Leaves the search for reference cycles until the end.

    What makes lists by the thousand and keeps them makes none, but Python goes through all of them
    again and again: a third of the time of encoding.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _do(method: Callable[[Job, Task], Result], job: Job, task: Task) -> Result:
    with garbage_collector_paused():
        return method(job, task)


# ---- in a worker process

_job_path = pathlib.Path()


def _start(job_path: pathlib.Path) -> None:
    global _job_path
    _job_path = job_path
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent sees to the end
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when its parent is gone: the queue of tasks would block for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@functools.cache
def _job() -> Any:
    """Loaded by the first task and not at the start, so that its errors reach the caller."""
    return pickle.loads(_job_path.read_bytes())


def _call(method: Callable[[Any, Task], Result], task: Task) -> Result:
    return _do(method, _job(), task)
