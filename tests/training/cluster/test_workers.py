"""Workers make equal decisions, and each ends if its failure detector says that one is lost."""

import socket
import subprocess
import sys
import textwrap
import threading

import pytest
import tensorflow as tf
from tensorflow.python.eager import context

from support.limits import strategy_over
from t2t_lite.errors import UserError
from t2t_lite.training.cluster import workers
from t2t_lite.training.cluster.channel import Channel
from t2t_lite.training.cluster.cluster import ALONE, Cluster, LostWorkerError
from t2t_lite.training.cluster.failure_detector import TIMEOUTS
from t2t_lite.training.cluster.workers import Workers, join_cluster

CLUSTER = Cluster(("a:1", "b:2"), 0)
LOST = "worker 0 of 2 has lost worker 1 at b:2: its connection has closed. Restart all workers"


@pytest.fixture
def aborted(monkeypatch) -> threading.Event:
    """Is set when collectives are aborted, which is prevented in the tests' process."""
    event = threading.Event()
    monkeypatch.setattr(
        context.context(), "abort_collective_ops", lambda code, message: event.set()
    )
    return event


@pytest.fixture
def other(monkeypatch, aborted) -> Channel:
    """The connection of the only other worker to this one, without a rendezvous."""
    ours, others = socket.socketpair()
    monkeypatch.setattr(workers, "connect_workers", lambda cluster, describe: {1: Channel(ours)})
    channel = Channel(others)
    yield channel
    channel.close()


def test_a_process_may_end_while_its_detector_runs(other):
    with join_cluster(CLUSTER, dict):
        found = [thread for thread in threading.enumerate() if thread.name == "detector"]
        assert [thread.daemon for thread in found if thread.is_alive()] == [True]


def said(other: Channel) -> dict:
    while "entered" in (message := other.next(30) or {}):
        pass
    return message


@pytest.fixture
def worker(monkeypatch):
    """Returns a function that gives worker `worker_id` of two, whose peer has the numbers given.

    Each has two devices, so that the sum over devices counts its numbers twice.
    """

    def make(worker_id: int, others: list[int]) -> Workers:
        own = Workers(Cluster(("a:1", "b:2"), worker_id))
        own.use(strategy_over(4))
        monkeypatch.setattr(own, "_compiled_sum", lambda numbers: 2 * (numbers.numpy() + others))
        return own

    return make


def test_what_holds_for_one_holds_for_all(worker):
    assert worker(0, [1, 0, 0, 1]).any(True, False, True, False) == [True, False, True, True]
    assert worker(1, [1, 0, 0, 1]).any(False, False, False, False) == [True, False, False, True]


def test_a_number_is_that_of_the_chief(worker):
    worker(0, [0]).check("restored step", 3)
    worker(1, [3]).check("restored step", 3)
    with pytest.raises(UserError, match=r"worker 1.* has restored step 3, but worker 0 has 20: "):
        worker(1, [20]).check("restored step", 3)


def test_one_worker_agrees_with_itself():
    assert Workers().any(True, False) == [True, False]
    Workers().check("restored step", 3)


def test_one_worker_needs_no_detector():
    with join_cluster(ALONE, dict) as alone, alone.collective_step():
        assert list(alone.collective_steps([1, 2])) == [1, 2]
    with pytest.raises(tf.errors.UnavailableError), join_cluster(ALONE, dict):
        raise tf.errors.UnavailableError(None, None, "a disk")


def test_a_worker_that_is_done_is_announced(other):
    with join_cluster(CLUSTER, dict) as own:
        list(own.collective_steps([1, 2]))
    assert said(other) == {"done": True}
    assert other.next(30) is None
    assert other.has_ended


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UserError("no data"), "no data"),
        (KeyError("x"), "KeyError: 'x'"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_the_others_learn_of_an_error(error, reason, other):
    with pytest.raises(type(error)), join_cluster(CLUSTER, dict):
        raise error
    assert said(other) == {"failed": reason}


def train(happens, error: Exception) -> None:
    """Trains with another worker until TensorFlow raises an error, after something happens."""
    with join_cluster(CLUSTER, dict) as own:
        happens(own)
        raise error


def test_a_lost_worker_ends_a_wait_for_it(other, aborted):
    def happens(own):
        other.close()
        assert aborted.wait(30)

    with pytest.raises(LostWorkerError, match=LOST):
        train(happens, tf.errors.UnavailableError(None, None, "Collective ops is aborted by ..."))


@pytest.mark.parametrize("kind", [tf.errors.InternalError, tf.errors.DeadlineExceededError])
def test_tensorflow_may_notice_first(kind, other):
    """The worker that it blames may be the wrong one: that may have ended because of a third."""
    with pytest.raises(LostWorkerError, match=LOST):
        train(
            lambda own: threading.Timer(0.2, other.close).start(),
            kind(None, None, "from remote target /job:worker/replica:0/task:0"),
        )


@pytest.mark.parametrize(
    ("kind", "passes_as", "reason"),
    [
        (tf.errors.InternalError, tf.errors.InternalError, "InternalError: CUDA"),
        (tf.errors.UnavailableError, LostWorkerError, "connection to another worker is lost (CUDA"),
    ],
)
def test_an_error_of_tensorflow_while_all_are_there(kind, passes_as, reason, other, monkeypatch):
    monkeypatch.setattr(workers, "TIMEOUTS", TIMEOUTS._replace(silence=3.0))
    monkeypatch.setattr(workers, "_EXTRA_SECONDS", -2.9)
    with pytest.raises(passes_as):
        train(lambda own: None, kind(None, None, "CUDA"))
    assert reason in said(other)["failed"]


def test_a_detector_that_dies_ends_its_worker(other, aborted):
    def happens(own):
        own._process.kill()
        assert aborted.wait(30)

    with pytest.raises(
        LostWorkerError, match="the process that monitors the other workers has ended"
    ):
        train(happens, tf.errors.UnavailableError(None, None, ""))


def test_a_worker_acknowledges_a_loss(aborted):
    ours, detectors = map(Channel, socket.socketpair())
    Workers(CLUSTER, ours)
    detectors.send(lost="worker 1 is lost")
    assert detectors.next(30) == {"ending": True}
    assert aborted.wait(30)
    ours.close()
    detectors.close()


def test_a_detector_that_ends_when_all_is_done_is_not_a_loss(aborted):
    ours, detectors = socket.socketpair()

    class Slow(Channel):
        """Sends, and returns when the other end has closed and all threads have seen it."""

        def send(self, **message):
            super().send(**message)
            detectors.close()
            aborted.wait(0.2)

    Workers(CLUSTER, Slow(ours)).leave(done=True)
    assert not aborted.is_set()


def test_a_detector_that_does_not_end_is_killed(monkeypatch):
    monkeypatch.setattr(workers, "_SECONDS_TO_END", 0.1)
    ours, _ = map(Channel, socket.socketpair())
    process = subprocess.Popen(["sleep", "60"])
    Workers(CLUSTER, ours, process).leave(done=True)
    assert process.wait(30) == -9


@pytest.mark.integration
def test_a_worker_held_up_in_tensorflow_is_killed():
    """All its threads are blocked, as TensorFlow does while it connects the workers."""
    program = textwrap.dedent("""
        import socket, sys, ctypes
        from t2t_lite.training.cluster.channel import Channel
        from t2t_lite.training.cluster.cluster import Cluster
        from t2t_lite.training.cluster.failure_detector import TIMEOUTS
        from t2t_lite.training.cluster.workers import Workers
        ours, other = socket.socketpair()
        timeouts = TIMEOUTS._replace(ending=1.0)
        Workers.start(Cluster(("a:1", "b:2"), 0), {1: Channel(ours)}, timeouts)
        other.close()
        ctypes.PyDLL(None).sleep(100)
    """)
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert done.returncode == -9
    assert done.stderr.splitlines()[-1].startswith(f"t2t-trainer: error: {LOST}")
