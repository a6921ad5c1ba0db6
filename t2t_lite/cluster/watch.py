"""A worker's side of the watch over the others (`watcher`): it ends when one of them is lost."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import tensorflow as tf
from tensorflow.python.eager import context  # of what is public, nothing aborts a collective

from t2t_lite.cluster.channel import Channel, ready
from t2t_lite.cluster.cluster import Cluster, LostWorkerError
from t2t_lite.cluster.meeting import Settings, meet
from t2t_lite.cluster.watcher import BOUNDS, Bounds
from t2t_lite.errors import UserError, first_line

_T = TypeVar("_T")

# What TensorFlow raises where a collective ends because another worker has.
_PARTED = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.FailedPreconditionError,
)
_CUT_OFF = _PARTED[:2]  # the network, if no worker is lost
_SECONDS_BEYOND = 5.0
_SECONDS_TO_END = 30.0  # the watcher has, when this worker needs it no more


@contextlib.contextmanager
def together(cluster: Cluster, describe: Callable[[], Settings]) -> Iterator["Watch"]:
    """Waits for the other workers; within the block, the loss of one is an error here as well.

    The others learn of an error in the block.

    Args:
        cluster: the workers.
        describe: returns by name what must be equal on all of them.

    Yields:
        The watch; for one worker alone, one that does nothing.

    Raises:
        LostWorkerError: another worker has ended or hangs.
        UserError: another does not come or has other settings.
    """
    if cluster.is_alone:
        yield Watch()
        return
    watch = Watch.over(cluster, meet(cluster, describe), BOUNDS)
    try:
        yield watch
    except UserError as error:
        watch.end(failed=str(error))
        raise
    except Exception as error:
        if not (line := watch.lost_line(error)):
            watch.end(failed=f"{type(error).__name__}: {first_line(error)}")
            raise
        watch.end(failed=line)
        raise LostWorkerError(line) from error
    except BaseException:
        watch.end(failed="interrupted")
        raise
    watch.end(done=True)


class Watch:
    """The connection to this worker's watcher.

    Args:
        watcher: None for a worker that is alone.
        process: the watcher's.
        bounds: those of the watcher.
    """

    def __init__(
        self,
        watcher: Channel | None = None,
        process: subprocess.Popen | None = None,
        bounds: Bounds = BOUNDS,
    ) -> None:
        self._watcher = watcher
        self._process = process
        self._bounds = bounds
        self._entered = 0
        self._is_over = False
        self._line = ""
        self._has_judged = threading.Event()
        if watcher:
            threading.Thread(target=self._listen, daemon=True, name="watch").start()

    @classmethod
    def over(cls, cluster: Cluster, others: dict[int, Channel], bounds: Bounds) -> "Watch":
        """Starts the watcher, which takes over the connections to the others."""
        ours, theirs = socket.socketpair()
        description = {
            "hosts": cluster.hosts,
            "worker_id": cluster.worker_id,
            "worker": theirs.fileno(),
            "others": {worker: channel.fileno() for worker, channel in others.items()},
            "process": os.getpid(),
            "bounds": bounds._asdict(),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "t2t_lite.cluster.watcher", json.dumps(description)],
            pass_fds=[theirs.fileno(), *(channel.fileno() for channel in others.values())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a signal to all of a terminal is none to it
        )
        theirs.close()
        for channel in others.values():
            channel.close()
        return cls(Channel(ours), process, bounds)

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """The block is one that ends only when all workers have come to it."""
        self._entered += 1
        self._tell(entered=self._entered)
        try:
            yield
        finally:
            self._tell(left=self._entered)

    def each(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yields items whose treatment is a `step`."""
        for item in items:
            with self.step():
                yield item

    def end(self, **message: str | bool) -> None:
        """Ends the watch: from here on no other worker is needed, and none is held up.

        Args:
            **message: the last to the watcher.
        """
        if not self._is_over:
            self._is_over = True  # before the watcher ends, which then is not a loss
            if self._watcher:
                self._watcher.send(**message)
            if self._process:
                self._await_end(self._process)

    def lost_line(self, error: Exception) -> str:
        """Returns the line about a lost worker that is behind an error; "": none is."""
        if self._watcher and isinstance(error, _PARTED):  # TensorFlow may notice first
            self._has_judged.wait(self._bounds.silence + _SECONDS_BEYOND)
        if not self._line and isinstance(error, _CUT_OFF):
            return (
                f"the connection to another worker is lost ({first_line(error)}). Start all "
                "workers again to go on from the newest checkpoint"
            )
        return self._line

    def _tell(self, **message: int) -> None:
        if self._watcher and not self._is_over:
            self._watcher.send(**message)

    def _await_end(self, process: subprocess.Popen) -> None:
        try:
            process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()

    def _listen(self) -> None:
        """Waits for the watcher's judgement; runs in a thread."""
        assert self._watcher
        while not self._line and not self._watcher.has_ended:
            ready([self._watcher], 3600.0)
            for message in self._watcher.receive():
                self._line = message["lost"]
                self._watcher.send(ending=True)
        if not self._line and not self._is_over:
            self._line = "the process that watches over the other workers has ended"
        if self._line and not self._is_over:
            self._has_judged.set()
            # The main thread may wait for the lost one.
            context.context().abort_collective_ops(tf.errors.UNAVAILABLE, self._line)
