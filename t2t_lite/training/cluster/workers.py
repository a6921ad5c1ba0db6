"""What a worker does with the others: it meets them, decides as they do, and ends if one is lost.

Its failure detector, a process beside it, is told what the worker does and gives the verdict.
"""

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

from t2t_lite.errors import UserError, first_line
from t2t_lite.training.cluster._private_api import abort_collectives
from t2t_lite.training.cluster.channel import Channel, ready
from t2t_lite.training.cluster.cluster import ALONE, Cluster, LostWorkerError
from t2t_lite.training.cluster.failure_detector import TIMEOUTS, Timeouts
from t2t_lite.training.cluster.rendezvous import Settings, connect_workers

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
def join_cluster(cluster: Cluster, describe: Callable[[], Settings]) -> Iterator["Workers"]:
    """Waits for the other workers; within the block, the loss of one raises an error.

    An error in the block is reported to the others.

    Args:
        cluster: the workers.
        describe: returns the settings that must be equal on all workers, by name.

    Yields:
        All workers, as seen by this one.
    """
    if cluster.is_alone:
        yield Workers()
        return
    workers = Workers.start(cluster, connect_workers(cluster, describe), TIMEOUTS)
    try:
        yield workers
    except UserError as error:
        workers.leave(failed=str(error))
        raise
    except Exception as error:
        if not (message := workers.lost_worker_message(error)):
            workers.leave(failed=f"{type(error).__name__}: {first_line(error)}")
            raise
        workers.leave(failed=message)
        raise LostWorkerError(message) from error
    except BaseException:
        workers.leave(failed="interrupted")
        raise
    workers.leave(done=True)


class Workers:
    """All workers, as seen by one of them; if it is alone, nothing here waits or fails.

    They make equal decisions if all make the same calls in the same order.

    Args:
        cluster: the workers.
        detector: connection to the failure detector; None if there is one worker.
        process: the failure detector's process.
        timeouts: those of the failure detector.
    """

    def __init__(
        self,
        cluster: Cluster = ALONE,
        detector: Channel | None = None,
        process: subprocess.Popen | None = None,
        timeouts: Timeouts = TIMEOUTS,
    ) -> None:
        self._cluster = cluster
        self._detector = detector
        self._process = process
        self._timeouts = timeouts
        self._entered = 0
        self._is_closed = False
        self._message = ""
        self._has_verdict = threading.Event()
        self._strategy: tf.distribute.Strategy | None = None
        self._compiled_sum = tf.function(self._sum_over_replicas)
        if detector:
            threading.Thread(target=self._listen, daemon=True, name="detector").start()

    @classmethod
    def start(cls, cluster: Cluster, others: dict[int, Channel], timeouts: Timeouts) -> "Workers":
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
            [
                sys.executable,
                "-m",
                "t2t_lite.training.cluster.failure_detector",
                json.dumps(description),
            ],
            pass_fds=[theirs.fileno(), *(channel.fileno() for channel in others.values())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a terminal's signals do not reach it
        )
        theirs.close()
        for channel in others.values():
            channel.close()
        return cls(cluster, Channel(ours), process, timeouts)

    def use(self, strategy: tf.distribute.Strategy) -> None:
        """Takes the strategy that spans the devices of all workers; decisions need it."""
        self._strategy = strategy

    # ---- decisions

    def any(self, *conditions: bool) -> list[bool]:
        """Returns for each condition whether it holds on at least one worker."""
        if self._cluster.is_alone:
            return list(conditions)
        return [count > 0 for count in self._sum([int(condition) for condition in conditions])]

    def wait(self) -> None:
        """Waits for all workers, so that none ends with success if another fails at the end."""
        self.any(True)

    def check(self, name: str, value: int) -> None:
        """Checks that a number equals the chief's.

        Raises:
            UserError: it differs.
        """
        if self._cluster.is_alone:
            return
        (chiefs,) = self._sum([value if self._cluster.is_chief else 0])
        if value != chiefs:
            raise UserError(
                f"{self._cluster} has {name} {value}, but worker 0 has {chiefs}: they must see "
                "the same --data_dir and --output_dir"
            )

    def _sum(self, numbers: list[int]) -> list[int]:
        """Returns the sums over all workers."""
        with self.collective_step():
            sums = self._compiled_sum(tf.constant(numbers, tf.int64))
        assert self._strategy
        local_replicas = self._strategy.num_replicas_in_sync // len(self._cluster.hosts)
        return [int(total) // local_replicas for total in sums]

    def _sum_over_replicas(self, numbers: tf.Tensor) -> tf.Tensor:
        assert self._strategy
        per_replica = self._strategy.run(tf.identity, (numbers,))
        return self._strategy.reduce("SUM", per_replica, axis=None)

    # ---- failures

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

    def leave(self, **message: str | bool) -> None:
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
