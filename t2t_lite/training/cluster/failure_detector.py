"""The failure detector: a process beside each worker that ends it when another worker is lost.

It is a separate process because TensorFlow blocks all Python threads while it connects the workers.
The chief's detector exchanges a heartbeat with every other detector once a second. A worker that
cannot end by itself, for example because a signal has stopped it, is killed: otherwise it would
keep its port and the run folder occupied.

    from the worker       {"entered": 7}           it has entered its 7th collective step
                          {"left": 7}              it has completed the step
                          {"failed": "..."}        it ends with an error
                          {"done": true}           it no longer needs the other workers
                          {"ending": true}         it knows that another worker is lost
    to the worker         {"lost": "..."}          the message to end with
    between detectors     {"entered": 7, "waits": 0.2}  the heartbeat
                          {"lost": 2, "reason": "..."}  the verdict of the chief's detector
                          "failed", "done"              forwarded from the worker
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from typing import NamedTuple

from t2t_lite.training.cluster.channel import Channel, Message, ready
from t2t_lite.training.cluster.cluster import Cluster

_HEARTBEAT_SECONDS = 1.0
_PROC = pathlib.Path("/proc")


class Timeouts(NamedTuple):
    """Limits in seconds."""

    silence: float = 30.0  # without a heartbeat
    step: float = 1800.0  # for workers waiting in a collective step
    ending: float = 30.0  # for a worker to acknowledge that another is lost
    saving: float = 600.0  # for it to finish an evaluation or a checkpoint after that


TIMEOUTS = Timeouts()


class _Progress(NamedTuple):
    """How far a worker has come."""

    entered: int = 0  # number of collective steps entered
    since: float | None = None  # when it entered the current step; None: it is not in one


class FailureDetector:
    """Monitors the other workers on behalf of one worker.

    Args:
        cluster: the workers.
        worker: connection to this detector's worker.
        others: connections to other failure detectors, by worker number.
        process: process ID of the worker.
        timeouts: how long to wait before a worker counts as lost.
    """

    def __init__(
        self,
        cluster: Cluster,
        worker: Channel,
        others: dict[int, Channel],
        process: int,
        timeouts: Timeouts,
    ) -> None:
        now = time.monotonic()
        self._cluster = cluster
        self._worker = worker
        self._others = others
        self._process = process
        self._timeouts = timeouts
        self._heard = dict.fromkeys(others, now)
        self._progress = dict.fromkeys([cluster.worker_id, *others], _Progress())
        self._last_heartbeat = 0.0
        self._last_running = now  # when the worker was last seen running, not stopped
        self._verdict = ""  # why the worker must end
        self._deadline = 0.0  # by when it must have ended

    def run(self) -> None:
        """Monitors until the worker has ended or no longer needs the others."""
        while self.poll():
            pass

    def poll(self) -> bool:
        """Handles the messages of a second at most; returns whether to continue."""
        readable = ready([self._worker, *self._others.values()], _HEARTBEAT_SECONDS)
        now = time.monotonic()
        for other, channel in list(self._others.items()):
            if channel in readable:
                self._receive_other(other, now)
        if not self._receive_worker():
            return False
        if not self._verdict:
            self._send_heartbeat(now)
            self._check_timeouts(now)
        if self._is_stuck(now):
            self._kill()
            return False
        return True

    def _receive_worker(self) -> bool:
        """Handles the worker's messages; returns whether to continue."""
        own = self._cluster.worker_id
        for message in self._worker.receive():
            if "entered" in message:
                self._progress[own] = _Progress(message["entered"], time.monotonic())
            elif "left" in message:
                self._progress[own] = _Progress(message["left"])
            elif "ending" in message:
                self._deadline = time.monotonic() + self._timeouts.saving
            else:
                self._announce_end(**message)  # failed, or done
                return False
        if self._worker.has_ended:
            self._announce_end(failed="its process was killed or has crashed")
        return not self._worker.has_ended

    def _announce_end(self, **message: object) -> None:
        """Forwards the worker's last message, unless it ends because another worker is lost."""
        if not self._verdict:
            self._send_all(**message)

    def _receive_other(self, other: int, now: float) -> None:
        for message in self._others[other].receive():
            self._heard[other] = now
            if "done" in message:
                del self._others[other], self._progress[other], self._heard[other]
                return
            if "lost" in message:
                self._declare_lost(message["lost"], message["reason"], now)
            elif "failed" in message:
                self._declare_lost(other, message["failed"], now)
            elif "entered" in message:
                waits = message["waits"]
                since = None if waits is None else now - waits
                self._progress[other] = _Progress(message["entered"], since)
        if self._others[other].has_ended:
            del self._others[other]
            self._declare_lost(other, "its connection has closed", now)

    def _send_heartbeat(self, now: float) -> None:
        if now < self._last_heartbeat + _HEARTBEAT_SECONDS:
            return
        self._last_heartbeat = now
        own = self._progress[self._cluster.worker_id]
        waits = None if own.since is None else now - own.since
        self._send_all(entered=own.entered, waits=waits)

    def _is_stuck(self, now: float) -> bool:
        """Whether the worker cannot end by itself, so that the others would wait for it."""
        if self._verdict:
            return now > self._deadline
        if not _is_stopped(self._process):
            self._last_running = now
        if now <= self._last_running + self._timeouts.silence:
            return False
        reason = f"it has not responded for {self._timeouts.silence:.0f} s"
        self._send_all(failed=reason)
        self._verdict = self._cluster.lost(self._cluster.worker_id, reason)
        return True

    def _check_timeouts(self, now: float) -> None:
        """Looks for a silent worker and, on the chief, for one that the others wait for."""
        timeouts = self._timeouts
        for other in self._others:
            if now > self._heard[other] + timeouts.silence:
                reason = f"it has not responded for {timeouts.silence:.0f} s"
                self._declare_lost(other, reason, now)
                return
        waiting = [p.since for p in self._progress.values() if p.since is not None]
        if not self._cluster.is_chief or not waiting or now < min(waiting) + timeouts.step:
            return
        entered = {worker: progress.entered for worker, progress in self._progress.items()}
        last = min(entered, key=lambda worker: entered[worker])
        minutes = f"for {timeouts.step / 60:.0f} minutes"
        if entered[last] < max(entered.values()):
            self._declare_lost(last, f"it hangs: the others have waited for it {minutes}", now)
        else:
            reason = f"it or another hangs: all have been in one step {minutes}"
            self._declare_lost(last, reason, now)

    def _declare_lost(self, worker: int, reason: str, now: float) -> None:
        if self._verdict:
            return
        if self._cluster.is_chief:
            self._send_all(lost=worker, reason=reason)
        self._verdict = self._cluster.lost(worker, reason)
        self._deadline = now + self._timeouts.ending
        self._worker.send(lost=self._verdict)

    def _kill(self) -> None:
        """Kills the worker, and prints the error message that it cannot print itself."""
        print(f"t2t-trainer: error: {self._verdict}", file=sys.stderr, flush=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def _send_all(self, **message: object) -> None:
        for channel in self._others.values():
            channel.send(**message)


def _is_stopped(process: int) -> bool:
    """Whether a signal has stopped a process; False where the system does not tell."""
    if not _PROC.exists():  # macOS
        found = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False
        )
        return found.stdout.startswith("T")
    try:
        status = (_PROC / str(process) / "stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


def main(description: Message) -> None:
    """Runs the failure detector of the worker that `Workers.start` describes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the worker handles these; the detector outlives it
    others = {
        int(worker): Channel(socket.socket(fileno=descriptor))
        for worker, descriptor in description["others"].items()
    }
    FailureDetector(
        Cluster(tuple(description["hosts"]), description["worker_id"]),
        Channel(socket.socket(fileno=description["worker"])),
        others,
        description["process"],
        Timeouts(**description["timeouts"]),
    ).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
