"""The loss of a worker ends the others, each with a message that names it."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import pytest

from t2t_lite.training.cluster import failure_detector
from t2t_lite.training.cluster.channel import Channel
from t2t_lite.training.cluster.cluster import Cluster
from t2t_lite.training.cluster.failure_detector import FailureDetector, Timeouts

HOSTS = ("a:1", "b:2", "c:3")


class Fakes:
    """The far ends of a failure detector's connections: its worker's and the other detectors'."""

    def __init__(self, worker_id: int, timeouts: Timeouts, process: int) -> None:
        pairs = {end: socket.socketpair() for end in ("worker", *((0,) if worker_id else (1, 2)))}
        self.ends = {end: Channel(pair[1]) for end, pair in pairs.items()}
        near = {end: Channel(pair[0]) for end, pair in pairs.items()}
        worker = near.pop("worker")
        self.detector = FailureDetector(Cluster(HOSTS, worker_id), worker, near, process, timeouts)

    def poll(self, seconds: float = 0.05, beating: tuple[int, ...] = (0, 1, 2)) -> bool:
        """Lets the failure detector run for a while; returns whether it continues.

        Args:
            seconds: how long.
            beating: the workers that send heartbeats.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for end in self.ends.keys() & {*beating}:
                self.ends[end].send(entered=0, waits=None)
            if not self.detector.poll():
                return False
        return True

    def said(self, end) -> dict:
        """Returns what the failure detector has sent to one end, heartbeats left out."""
        found = [message for message in self.ends[end].receive() if "entered" not in message]
        return found[0] if found else {}


@pytest.fixture
def fakes(monkeypatch):
    """Returns a function that makes a failure detector among fakes."""
    monkeypatch.setattr(failure_detector, "_HEARTBEAT_SECONDS", 0.01)
    return lambda worker_id=0, process=1, **timeouts: Fakes(
        worker_id, Timeouts(**timeouts), process
    )


@pytest.fixture
def sleeper():
    """A process that does nothing."""
    process = subprocess.Popen(["sleep", "60"])
    yield process
    process.kill()
    process.wait()


def line(worker_id: int, lost: str, reason: str) -> dict:
    text = f"worker {worker_id} of 3 has lost {lost}: {reason}. Restart all workers to resume "
    return {"lost": text + "from the newest checkpoint"}


def test_all_is_well(fakes):
    chief = fakes(silence=0.2)
    assert chief.poll(0.4)
    assert chief.said("worker") == chief.said(1) == {}
    chief.poll(0.03)
    assert {"entered": 0, "waits": None} in chief.ends[1].receive()


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda worker: worker.close(), "its connection has closed"),
        (lambda worker: worker.send(failed="no data."), "no data"),
        (lambda worker: worker._socket.send(b"\0\n"), "its connection has closed"),
    ],
)
def test_the_chiefs_detector_reports_a_loss_to_all(end, reason, fakes):
    chief = fakes()
    end(chief.ends[2])
    assert chief.poll(beating=())
    assert chief.said("worker") == line(0, "worker 2 at c:3", reason)
    assert chief.said(1)["lost"] == 2
    chief.ends[1].close()  # it ends as well, which is no other loss
    assert chief.poll(beating=())
    assert chief.said("worker") == {}


def test_the_loss_of_the_chief_and_its_report(fakes):
    first, second = fakes(1), fakes(1)
    first.ends[0].close()
    first.poll(beating=())
    assert first.said("worker") == line(1, "worker 0 at a:1", "its connection has closed")
    second.ends[0].send(lost=2, reason="its process was killed")
    second.ends[0].close()
    second.poll(beating=())
    assert second.said("worker") == line(1, "worker 2 at c:3", "its process was killed")


def test_a_silent_worker_is_lost(fakes):
    chief = fakes(silence=0.2)
    assert chief.poll(0.15, beating=(1,))
    assert chief.said("worker") == {}
    assert chief.poll(0.15, beating=(1,))
    assert chief.said("worker") == line(0, "worker 2 at c:3", "it has not responded for 0 s")


@pytest.mark.integration
@pytest.mark.parametrize("has_proc", [True, False], ids=["linux", "macos"])
def test_a_stopped_worker_is_reported_and_killed(fakes, sleeper, capfd, monkeypatch, has_proc):
    if not has_proc:
        if not shutil.which("ps"):
            pytest.skip("needs ps")
        monkeypatch.setattr(failure_detector, "_PROC", pathlib.Path("/no/proc"))
    other = fakes(1, process=sleeper.pid, silence=0.3)
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
    assert other.poll(0.1)
    sleeper.send_signal(signal.SIGCONT)  # no longer than that
    assert other.poll(0.3)
    sleeper.send_signal(signal.SIGSTOP)
    assert not other.poll(10.0)
    assert sleeper.wait(10) == -signal.SIGKILL
    assert other.said(0) == {"failed": "it has not responded for 0 s"}
    assert "worker 1 at b:2 is lost: it has not responded" in capfd.readouterr().err


def test_the_one_that_the_others_wait_for_hangs(fakes):
    chief = fakes(step=60.0)
    chief.ends["worker"].send(entered=8)
    for worker, entered, waits in ((1, 7, None), (2, 8, 61.0)):
        chief.ends[worker].send(entered=entered, waits=waits)
    assert chief.poll(beating=())
    reason = "it hangs: the others have waited for it for 1 minutes"
    assert chief.said("worker") == line(0, "worker 1 at b:2", reason)
    assert chief.said(2) == {"lost": 1, "reason": reason}


def test_all_hang_in_one_step(fakes):
    chief = fakes(step=60.0)
    chief.ends["worker"].send(entered=8)
    for worker in (1, 2):
        chief.ends[worker].send(entered=8, waits=61.0)
    chief.poll(beating=())
    assert (
        "it or another hangs: all have been in one step for 1 minutes"
        in chief.said("worker")["lost"]
    )


def test_only_the_chiefs_detector_sees_who_hangs(fakes):
    """The others have no heartbeat but the chief's."""
    other = fakes(1, step=0.1)
    other.ends["worker"].send(entered=8)
    assert other.poll(0.3, beating=(0,))
    assert other.said("worker") == {}


def test_slow_work_of_all_is_not_a_hang(fakes):
    """For example an evaluation, in which no worker waits for another."""
    chief = fakes(step=0.1)
    chief.ends["worker"].send(entered=8)
    chief.ends["worker"].send(left=8)
    chief.poll(0.3)
    assert chief.said("worker") == {}


@pytest.mark.parametrize("last", [{"done": True}, {"failed": "no data"}])
def test_the_last_message_of_a_worker_is_forwarded(last, fakes):
    chief = fakes()
    chief.ends["worker"].send(**last)
    assert not chief.poll()
    assert chief.said(1) == chief.said(2) == last


def test_a_killed_worker_is_reported(fakes):
    other = fakes(1)
    other.ends["worker"].close()
    assert not other.poll()
    assert other.said(0) == {"failed": "its process was killed or has crashed"}


def test_workers_that_are_done_are_not_missed(fakes):
    chief = fakes(silence=0.1)
    for worker in (1, 2):
        chief.ends[worker].send(done=True)
        chief.ends[worker].close()
    assert chief.poll(0.3)
    assert chief.said("worker") == {}


def test_a_worker_that_acknowledges_a_loss_may_evaluate_and_save(fakes, sleeper):
    other = fakes(1, process=sleeper.pid, ending=0.1, saving=0.5)
    other.ends[0].close()
    assert other.poll(0.05)
    other.ends["worker"].send(ending=True)
    assert other.poll(0.3)
    assert sleeper.poll() is None
    assert not other.poll(10.0)  # not for ever
    assert sleeper.wait(10) == -signal.SIGKILL


def test_a_worker_that_cannot_end_itself_is_killed(fakes, sleeper, capfd):
    chief = fakes(process=sleeper.pid, ending=0.1)
    chief.ends[2].close()
    assert not chief.poll(10.0)
    assert sleeper.wait(10) == -signal.SIGKILL
    expected = line(0, "worker 2 at c:3", "its connection has closed")["lost"]
    assert capfd.readouterr().err == f"t2t-trainer: error: {expected}\n"
