"""A worker's connection to its failure detector: the loss of another worker ends this one."""

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

from t2t_lite.cluster._private_api import abort_collectives
from t2t_lite.cluster.channel import Channel, ready
from t2t_lite.cluster.cluster import Cluster, LostWorkerError
from t2t_lite.cluster.failure_detector import TIMEOUTS, Timeouts
from t2t_lite.cluster.rendezvous import Settings, connect_workers
from t2t_lite.errors import UserError, first_line

_T = TypeVar("_T")

# TensorFlow's errors when a collective fails because another worker has ended.
_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.DeadlineExceededError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.InternalError,
    tf.errors.FailedPreconditionError,
)
_NETWORK_ERRORS = _PEER_ERRORS[:2]  # the connection failed, if no worker is lost
_EXTRA_SECONDS = 5.0  # for the detector's verdict, beyond its own timeout
_SECONDS_TO_END = 30.0  # for the detector, after this worker has left


@contextlib.contextmanager
def join_cluster(cluster: Cluster, describe: Callable[[], Settings]) -> Iterator["DetectorClient"]:
    """Waits for the other workers; within the block, the loss of one raises an error.

    An error in the block is reported to the others.

    Args:
        cluster: the workers.
        describe: returns the settings that must be equal on all workers, by name.

    Yields:
        The client of this worker's failure detector; it does nothing if there is one worker.
    """
    if cluster.is_alone:
        yield DetectorClient()
        return
    detector = DetectorClient.start(cluster, connect_workers(cluster, describe), TIMEOUTS)
    try:
        yield detector
    except UserError as error:
        detector.close(failed=str(error))
        raise
    except Exception as error:
        if not (message := detector.lost_worker_message(error)):
            detector.close(failed=f"{type(error).__name__}: {first_line(error)}")
            raise
        detector.close(failed=message)
        raise LostWorkerError(message) from error
    except BaseException:
        detector.close(failed="interrupted")
        raise
    detector.close(done=True)


class DetectorClient:
    """Tells this worker's failure detector what the worker does, and obeys its verdict.

    Args:
        detector: connection to the failure detector; None if there is one worker.
        process: the failure detector's process.
        timeouts: those of the failure detector.
    """

    def __init__(
        self,
        detector: Channel | None = None,
        process: subprocess.Popen | None = None,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self._detector = detector
        self._process = process
        self._timeouts = timeouts
        self._entered = 0
        self._is_closed = False
        self._message = ""
        self._has_verdict = threading.Event()
        if detector:
            threading.Thread(target=self._listen, daemon=True, name="detector").start()

    @classmethod
    def start(
        cls, cluster: Cluster, others: dict[int, Channel], timeouts: Timeouts
    ) -> "DetectorClient":
        """Starts the failure detector, which takes over the connections to the other workers."""
        ours, theirs = socket.socketpair()
        description = {
            "hosts": cluster.hosts,
            "worker_id": cluster.worker_id,
            "worker": theirs.fileno(),
            "others": {worker: channel.fileno() for worker, channel in others.items()},
            "process": os.getpid(),
            "timeouts": timeouts._asdict(),
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "t2t_lite.cluster.failure_detector", json.dumps(description)],
            pass_fds=[theirs.fileno(), *(channel.fileno() for channel in others.values())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's signals do not reach it
        )
        theirs.close()
        for channel in others.values():
            channel.close()
        return cls(Channel(ours), process, timeouts)

    @contextlib.contextmanager
    def collective_step(self) -> Iterator[None]:
        """Marks a block that completes only when all workers execute it."""
        self._entered += 1
        self._send(entered=self._entered)
        try:
            yield
        finally:
            self._send(left=self._entered)

    def collective_steps(self, items: Iterable[_T]) -> Iterator[_T]:
        """Yields items, each of which is processed in a `collective_step`."""
        for item in items:
            with self.collective_step():
                yield item

    def close(self, **message: str | bool) -> None:
        """Ends failure detection: from here on, workers do not depend on each other.

        Args:
            **message: the last message to the failure detector.
        """
        if not self._is_closed:
            self._is_closed = True  # first, so that the detector's end is not taken for a failure
            if self._detector:
                self._detector.send(**message)
            if self._process:
                self._await_end(self._process)

    def lost_worker_message(self, error: Exception) -> str:
        """Returns the message about the lost worker that caused an error; "" if none did."""
        if self._detector and isinstance(
            error, _PEER_ERRORS
        ):  # TensorFlow may notice the loss first
            self._has_verdict.wait(self._timeouts.silence + _EXTRA_SECONDS)
        if not self._message and isinstance(error, _NETWORK_ERRORS):
            return (
                f"the connection to another worker is lost ({first_line(error)}). Restart all "
                "workers to resume from the newest checkpoint"
            )
        return self._message

    def _send(self, **message: int) -> None:
        if self._detector and not self._is_closed:
            self._detector.send(**message)

    def _await_end(self, process: subprocess.Popen) -> None:
        try:
            process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()

    def _listen(self) -> None:
        """Waits for the failure detector's verdict; runs in a thread."""
        assert self._detector
        while not self._message and not self._detector.has_ended:
            ready([self._detector], 3600.0)
            for message in self._detector.receive():
                self._message = message["lost"]
                self._detector.send(ending=True)
        if not self._message and not self._is_closed:
            self._message = "the process that monitors the other workers has ended"
        if self._message and not self._is_closed:
            self._has_verdict.set()
            # The main thread may be waiting for the lost worker.
            abort_collectives(self._message)
