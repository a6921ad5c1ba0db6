"""A process beside each worker that notices when another worker is lost, and ends its own then.

It is a process of its own since TensorFlow, while it connects the workers, stops every thread of
Python. Each says once a second that it is there: to the chief's, or the chief's to all. A worker
that cannot end by itself, as one that a signal has stopped, is killed: otherwise it would keep its
port and the run folder from the next start.

    from the worker       {"entered": 7}           it has come to its 7th common step
                          {"left": 7}              the step is done
                          {"failed": "..."}        it ends, by an error
                          {"done": true}           it needs no other worker any more
                          {"ending": true}         it has heard that another is lost
    to the worker         {"lost": "..."}          the line to end with
    between watchers      {"entered": 7, "waits": 0.2}  once a second
                          {"lost": 2, "reason": "..."}  from the chief's, which is the judge
                          "failed", "done"              as the worker says
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import sys
import time
from typing import NamedTuple

from t2t_lite.cluster.channel import Channel, Message, ready
from t2t_lite.cluster.cluster import Cluster

_SECONDS_TO_BEAT = 1.0


class Bounds(NamedTuple):
    """How long is too long, in seconds."""

    silence: float = 30.0  # a watcher says nothing
    step: float = 1800.0  # one worker waits for another in a common step
    ending: float = 30.0  # a worker that has lost another does not hear of it
    saving: float = 600.0  # it has heard, but still evaluates or writes a checkpoint


BOUNDS = Bounds()


class _Progress(NamedTuple):
    """How far a worker is."""

    entered: int = 0  # common steps that it has come to
    since: float | None = None  # when it came to the one that it is in


class Watcher:
    """Watches over one worker.

    Args:
        cluster: the workers.
        worker: the connection to the own worker.
        others: the connections to the other watchers, by the numbers of their workers.
        process: number of the worker's process.
        bounds: see there.
    """

    def __init__(
        self,
        cluster: Cluster,
        worker: Channel,
        others: dict[int, Channel],
        process: int,
        bounds: Bounds,
    ) -> None:
        now = time.monotonic()
        self._cluster = cluster
        self._worker = worker
        self._others = others
        self._process = process
        self._bounds = bounds
        self._heard = dict.fromkeys(others, now)
        self._progress = dict.fromkeys([cluster.worker_id, *others], _Progress())
        self._beaten = 0.0
        self._ran = now  # when the worker was not stopped
        self._line = ""  # why the worker must end
        self._deadline = 0.0  # when it must have

    def run(self) -> None:
        """Watches until the worker has ended or needs no other any more."""
        while self.look():
            pass

    def look(self) -> bool:
        """Looks around once, for a second at most; returns whether there is more to watch."""
        speaking = ready([self._worker, *self._others.values()], _SECONDS_TO_BEAT)
        now = time.monotonic()
        for other, channel in list(self._others.items()):
            if channel in speaking:
                self._hear_other(other, now)
        if not self._hear_worker():
            return False
        if not self._line:
            self._beat(now)
            self._judge(now)
        if self._is_stuck(now):
            self._kill()
            return False
        return True

    def _hear_worker(self) -> bool:
        """Takes the worker's messages; returns whether there is more to watch."""
        own = self._cluster.worker_id
        for message in self._worker.receive():
            if "entered" in message:
                self._progress[own] = _Progress(message["entered"], time.monotonic())
            elif "left" in message:
                self._progress[own] = _Progress(message["left"])
            elif "ending" in message:
                self._deadline = time.monotonic() + self._bounds.saving
            else:
                self._leave(**message)  # failed, or done
                return False
        if self._worker.has_ended:
            self._leave(failed="its process was killed or has crashed")
        return not self._worker.has_ended

    def _leave(self, **message: object) -> None:
        """Passes on the worker's last word, unless it ends because of another."""
        if not self._line:
            self._send_all(**message)

    def _hear_other(self, other: int, now: float) -> None:
        for message in self._others[other].receive():
            self._heard[other] = now
            if "done" in message:
                del self._others[other], self._progress[other], self._heard[other]
                return
            if "lost" in message:
                self._lose(message["lost"], message["reason"], now)
            elif "failed" in message:
                self._lose(other, message["failed"], now)
            elif "entered" in message:
                waits = message["waits"]
                since = None if waits is None else now - waits
                self._progress[other] = _Progress(message["entered"], since)
        if self._others[other].has_ended:
            del self._others[other]
            self._lose(other, "its connection has closed", now)

    def _beat(self, now: float) -> None:
        if now < self._beaten + _SECONDS_TO_BEAT:
            return
        self._beaten = now
        own = self._progress[self._cluster.worker_id]
        waits = None if own.since is None else now - own.since
        self._send_all(entered=own.entered, waits=waits)

    def _is_stuck(self, now: float) -> bool:
        """Whether the worker will not end by itself, for which all others would wait."""
        if self._line:
            return now > self._deadline
        if not _is_stopped(self._process):
            self._ran = now
        if now <= self._ran + self._bounds.silence:
            return False
        reason = f"it has stood still for {self._bounds.silence:.0f} s"
        self._send_all(failed=reason)
        self._line = self._cluster.lost(self._cluster.worker_id, reason)
        return True

    def _judge(self, now: float) -> None:
        """Looks for one that is silent, and on the chief for one that the others wait for."""
        bounds = self._bounds
        for other in self._others:
            if now > self._heard[other] + bounds.silence:
                self._lose(other, f"it has stood still for {bounds.silence:.0f} s", now)
                return
        waiting = [p.since for p in self._progress.values() if p.since is not None]
        if not self._cluster.is_chief or not waiting or now < min(waiting) + bounds.step:
            return
        entered = {worker: progress.entered for worker, progress in self._progress.items()}
        last = min(entered, key=lambda worker: entered[worker])
        minutes = f"for {bounds.step / 60:.0f} minutes"
        if entered[last] < max(entered.values()):
            self._lose(last, f"it hangs: the others have waited for it {minutes}", now)
        else:
            self._lose(last, f"it hangs, or another: all have been in one step {minutes}", now)

    def _lose(self, worker: int, reason: str, now: float) -> None:
        if self._line:
            return
        if self._cluster.is_chief:
            self._send_all(lost=worker, reason=reason)
        self._line = self._cluster.lost(worker, reason)
        self._deadline = now + self._bounds.ending
        self._worker.send(lost=self._line)

    def _kill(self) -> None:
        """Ends a worker that cannot end itself, in its name."""
        print(f"t2t-trainer: error: {self._line}", file=sys.stderr, flush=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process, signal.SIGKILL)

    def _send_all(self, **message: object) -> None:
        for channel in self._others.values():
            channel.send(**message)


def _is_stopped(process: int) -> bool:
    """Whether a signal has stopped a process, as far as the system tells."""
    try:
        status = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] == "T"


def main(description: Message) -> None:
    """Watches over a worker, as it describes itself (`Watch`)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the worker's business, which it outlives
    others = {
        int(worker): Channel(socket.socket(fileno=descriptor))
        for worker, descriptor in description["others"].items()
    }
    Watcher(
        Cluster(tuple(description["hosts"]), description["worker_id"]),
        Channel(socket.socket(fileno=description["worker"])),
        others,
        description["process"],
        Bounds(**description["bounds"]),
    ).run()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
