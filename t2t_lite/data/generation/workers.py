"""Worker processes for a possibly endless sequence of tasks, a bounded number at a time.

The caller's process is one of the workers: it keeps the others busy and does the remaining tasks
itself, which saves copying them to another process. The others are started with "spawn", since a
fork would copy the locks and threads of the libraries that the caller has loaded. They do not run
the caller's script again, so that a plain script or a notebook can make data.
"""

import collections
import contextlib
import functools
import gc
import itertools
import logging
import multiprocessing
import os
import pathlib
import pickle
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.context import SpawnContext, SpawnProcess
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from t2t_lite import t2t_flags, user_imports
from t2t_lite.errors import ExitError, UserError
from t2t_lite.files import INCOMPLETE, whole_file

log = logging.getLogger(__name__)

Job = TypeVar("Job")
Task = TypeVar("Task")
Result = TypeVar("Result")

# How a pickle names the module of what is defined in a script or notebook.
_MAIN = b"__main__"

# One in progress, and two to bridge the time in which the caller's process prepares and does one.
_TASKS_PER_WORKER = 3

# Results that may wait for an earlier one; the caller's process goes this far while others start.
_RESULTS_PER_WORKER = 32


class _Process(SpawnProcess):
    """A process that is started without the caller's main module.

    Otherwise it would import it: a script that makes data would do so in each process.
    """

    def start(self) -> None:
        """Starts the process."""
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


class Workers(Generic[Job]):
    """Calls methods of an object, here and in worker processes that each have a copy of it.

        with Workers(job, folder, 4) as workers:
            for result in workers.map(Job.method, tasks): ...

    Args:
        job: the object; picklable if there is more than one worker.
        folder: where a temporary file passes the job to the processes; after a kill, the file is
            overwritten by the next use of the folder. Created if missing.
        num_workers: number of processes, including this one; 0: one per core.
    """

    def __init__(self, job: Job, folder: pathlib.Path, num_workers: int = 0) -> None:
        self._job = job
        self._path = folder / f"job{INCOMPLETE}"
        self._num_workers = num_workers or available_cores()
        self._pool: ProcessPoolExecutor | None = None
        self._is_alone = False

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
        """Yields `method(job, task)` for each task, in order.

        Processes are started as soon as there are two tasks. Tasks are taken from the iterator
        only as needed, at most about 32 per process ahead of a pending result; this process does a
        task when each of the others has enough of them.

        Args:
            method: a function at the top level of a module, or of a class there, with small
                results.
            tasks: picklable tasks.
            here: whether the tasks are too small for other processes.

        Raises:
            UserError: a worker process died, or the job is not picklable.
            Exception: whatever the method or the iterator raises, after the results of all earlier
                tasks.
        """
        failures: list[Exception] = []
        remaining = _until_failure(tasks, failures)
        first = list(itertools.islice(remaining, 2))
        all_tasks = itertools.chain(first, remaining)
        if here or self._num_workers == 1 or len(first) < 2 or not self._start_pool():
            yield from map(functools.partial(_do, method, self._job), all_tasks)
        else:
            yield from self._share_out(method, all_tasks)
        if failures:
            raise failures[0]

    def _share_out(
        self, method: Callable[[Job, Task], Result], tasks: Iterator[Task]
    ) -> Iterator[Result]:
        """Implements `map` with all processes."""
        pool = self._pool
        assert pool is not None
        others = self._num_workers - 1
        most = _RESULTS_PER_WORKER * self._num_workers
        own: collections.deque[Task] = collections.deque()  # not assigned yet
        results: collections.deque[Future[Result]] = collections.deque()
        try:
            while True:
                own.extend(itertools.islice(tasks, _TASKS_PER_WORKER - len(own)))
                if not own:
                    break
                # The last tasks are assigned one by one, so that all processes end together.
                share = _TASKS_PER_WORKER if len(own) == _TASKS_PER_WORKER else 1
                if sum(not result.done() for result in results) < share * others:
                    results.append(pool.submit(_call, method, own.popleft()))
                else:
                    results.append(_done(method, self._job, own.popleft()))
                while results and (results[0].done() or len(results) == most):
                    yield results.popleft().result()
            while results:
                yield results.popleft().result()
        except BrokenProcessPool:
            raise UserError(
                "a worker process died: it was killed, perhaps because memory ran out, or could "
                "not start; run the command again to continue from here (fewer --num_workers take "
                "less memory)"
            ) from None

    def _start_pool(self) -> bool:
        """Starts the other processes, unless the job is one that they cannot load."""
        if self._pool is None and not self._is_alone:
            try:
                flags = t2t_flags.given() if user_imports.packages() else {}
                pickled = pickle.dumps(flags) + pickle.dumps(self._job)
            except (AttributeError, TypeError, pickle.PicklingError) as error:
                raise UserError(
                    f"cannot send the encoders to worker processes ({error}); make them picklable, "
                    "or use --num_workers=1"
                ) from None
            if _MAIN in pickled:
                log.info(
                    "only this process encodes, since a class of the encoders is defined in the "
                    "script or notebook itself: others could import it from a module"
                )
                self._is_alone = True
                return False
            # Passed in a file: this process would hang if another died at its start and the job
            # exceeded the capacity of a pipe.
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(self._path, durable=False) as temporary:
                temporary.write_bytes(pickled)
            self._pool = ProcessPoolExecutor(
                self._num_workers - 1,
                _Context(),
                initializer=_start,
                initargs=(self._path, user_imports.packages()),
            )
        return not self._is_alone


def available_cores() -> int:
    """Returns the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def garbage_collector_paused() -> Iterator[None]:
    """Suspends the search for reference cycles during the block.

    Encoding creates and keeps thousands of lists, none in cycles, but Python would scan them again
    and again: a third of the time of encoding.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _until_failure(tasks: Iterable[Task], failures: list[Exception]) -> Iterator[Task]:
    """Yields tasks up to an error of their iterator, which is added to `failures`."""
    try:
        yield from tasks
    except Exception as error:
        failures.append(error)


def _do(method: Callable[[Job, Task], Result], job: Job, task: Task) -> Result:
    with garbage_collector_paused():
        return method(job, task)


def _done(method: Callable[[Job, Task], Result], job: Job, task: Task) -> Future[Result]:
    """Calls the method here; an error is raised when its result is due."""
    future: Future[Result] = Future()
    try:
        future.set_result(_do(method, job, task))
    except Exception as error:
        future.set_exception(error)
    return future


# ---- in a worker process

_job_path = pathlib.Path()


def _start(job_path: pathlib.Path, user_packages: list[str]) -> None:
    global _job_path
    _job_path = job_path
    if user_packages:  # whose modules may import tensor2tensor, and define the job's classes
        user_imports.install(user_packages)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends the others
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process with its parent; otherwise it would wait for tasks forever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@functools.cache
def _job() -> Any:
    """Loads the job at the first task, not at the start, so that errors reach the caller."""
    with _job_path.open("rb") as file:
        flags = pickle.load(file)
        if user_imports.packages():  # whose modules, loaded with the job, may read the flags
            t2t_flags.publish(flags)
        return pickle.load(file)


def _call(method: Callable[[Any, Task], Result], task: Task) -> Result:
    try:
        return _do(method, _job(), task)
    except SystemExit as end:
        raise UserError(str(ExitError(end))) from None
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # as for one with several arguments, which would break the pool
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise
