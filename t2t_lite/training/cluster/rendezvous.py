"""Rendezvous: all workers connect to the chief, which checks that their settings are equal.

They use the ports at which TensorFlow listens afterwards, so that no other port is needed. The
connections to the chief stay open for the failure detectors.

    worker                                     chief
    {"worker": 2, "settings": {...}}        ->
                                            <- {"welcome": true}      at once
                                            <- {"all_here": true}     when the last has arrived
    {"reached": true}                       ->                        it has reached the others
                                            <- {"go": true}           when all have

A worker that cannot take part sends {"worker": 2, "failed": "..."}, and the chief sends all others
{"lost": 2, "reason": "..."}. If two workers' settings differ, it sends all {"end": "..."}.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from t2t_lite.errors import UserError
from t2t_lite.training.cluster.channel import Channel, Message, ready
from t2t_lite.training.cluster.cluster import Cluster, LostWorkerError

Settings = Mapping[str, str | int | float | bool | None]

# Schedulers start workers minutes apart, and restart them after pauses of up to five minutes.
_SECONDS_TO_MEET = 600.0
# For this long, what answers at the chief's port may be its predecessor, which is about to end.
_SECONDS_FOR_STRANGERS = 30.0
# For this long, a worker that cannot take part tries to tell the others.
_SECONDS_TO_TELL = 30.0
_SECONDS_TO_ANSWER = 10.0
_MAX_UNKNOWN = 64  # connections that have not identified themselves
_POLL = 0.2


def connect_workers(cluster: Cluster, describe: Callable[[], Settings]) -> dict[int, Channel]:
    """Waits until every worker has arrived, can reach every other, and has the same settings.

    Args:
        cluster: the workers.
        describe: returns the settings that must be equal on all workers, by name.

    Returns:
        Connections by worker number: on the chief to all others, elsewhere to the chief.

    Raises:
        UserError: this worker's port is in use, a worker does not arrive or has different settings,
            `describe` raised it, or a worker cannot take part (then `LostWorkerError`).
        OSError: `describe` raised it.
    """
    deadline = time.monotonic() + _SECONDS_TO_MEET
    try:
        settings = {"--worker_hosts": ",".join(cluster.hosts), **describe()}
        server = _listen(cluster)
    except (UserError, OSError) as error:
        _announce_failure(cluster, str(error))
        raise
    with server:  # until all have tried to reach it
        if cluster.is_chief:
            return _Chief(cluster, server, settings, deadline).gather()
        return {0: _join(cluster, settings, deadline)}


def difference(name: str, settings: Settings, chiefs: Settings) -> str | None:
    """Returns a message about the first setting that differs from the chief's; None if none does.

    Args:
        name: the worker.
        settings: the worker's settings.
        chiefs: the settings of worker 0.
    """
    for key in dict.fromkeys([*chiefs, *settings]):
        if settings.get(key) != chiefs.get(key):
            return (
                f"{name} has {key}={settings.get(key)}, but worker 0 has {key}={chiefs.get(key)}: "
                "all workers need the same flags, data and releases"
            )
    return None


class _Chief:
    """The chief's side: accepts the other workers.

    Args:
        cluster: the workers.
        server: listens at the chief's port.
        settings: the chief's settings.
        deadline: when the last worker must have arrived.
    """

    def __init__(
        self, cluster: Cluster, server: socket.socket, settings: Settings, deadline: float
    ) -> None:
        server.settimeout(_POLL)
        self._cluster = cluster
        self._server = server
        self._settings = settings
        self._deadline = deadline
        self._others = range(1, len(cluster.hosts))
        self._unknown: list[Channel] = []
        self._present: dict[int, Channel] = {}
        self._are_all_here = False
        self._reached: set[int] = set()  # the workers that have reached all others
        self._last_message: Message = {}  # why the rendezvous has ended
        self._told: set[int] = set()  # the workers that have received it

    def gather(self) -> dict[int, Channel]:
        """Waits for all other workers; returns the connections to them."""
        while missing := [worker for worker in self._others if worker not in self._reached]:
            self._check_deadline(missing)
            self._receive()
            if not self._are_all_here and self._present.keys() >= {*self._others}:
                self._are_all_here = True
                self._send_all(all_here=True)
        self._send_all(go=True)
        return self._present

    def dismiss(self, seconds: float = _SECONDS_TO_TELL, **message: Any) -> None:
        """Ends the rendezvous.

        Args:
            seconds: how long to wait for workers that have not arrived, to tell them as well.
            **message: the reason.
        """
        self._last_message = message
        self._told = set(self._present)
        self._send_all(**message)
        until = time.monotonic() + seconds
        while len(self._told) < len(self._others) and time.monotonic() < until:
            self._receive()

    def _check_deadline(self, missing: list[int]) -> None:
        if time.monotonic() > self._deadline:
            absent = [worker for worker in missing if worker not in self._present]
            what = "has not arrived" if absent else "has not reached the others"
            line = (
                f"{self._cluster.name((absent or missing)[0])} {what} for "
                f"{_SECONDS_TO_MEET / 60:.0f} minutes: start it with the same list of hosts, and "
                "open its port and the chief's in firewalls"
            )
            self.dismiss(seconds=0.0, end=line)
            raise UserError(line)

    def _receive(self) -> None:
        """Admits workers that arrive; before all are here, those that disconnect may return."""
        if self._server in ready([self._server, *self._unknown, *self._present.values()], _POLL):
            with contextlib.suppress(OSError):
                self._unknown.append(Channel(self._server.accept()[0]))
        for channel in list(self._unknown):
            message = channel.next(0)
            if message or channel.has_ended or len(self._unknown) > _MAX_UNKNOWN:
                self._unknown.remove(channel)
                self._admit(message or {}, channel)
        for worker, channel in list(self._present.items()):
            for message in channel.receive():
                self._check_failed(worker, message)
                if "reached" in message:
                    self._reached.add(worker)
            if channel.has_ended:
                if self._are_all_here and not self._last_message:
                    self._declare_lost(worker, "its connection has closed")
                channel.close()
                del self._present[worker]

    def _admit(self, message: Message, channel: Channel) -> None:
        """Handles the first message of a connection."""
        worker, settings = message.get("worker"), message.get("settings", {})
        if not isinstance(worker, int) or not isinstance(settings, dict):
            channel.close()
            return
        channel.send(welcome=True)
        if worker in self._present:
            self._present[worker].send(end=f"another process has started as worker {worker}")
        self._present[worker] = channel
        if self._last_message:
            channel.send(**self._last_message)
            self._told.add(worker)
            return
        self._check_failed(worker, message)
        if line := difference(self._cluster.name(worker), settings, self._settings):
            self.dismiss(end=line)
            raise UserError(line)
        if self._are_all_here:
            channel.send(all_here=True)

    def _check_failed(self, worker: int, message: Message) -> None:
        if "failed" in message and not self._last_message:
            self._declare_lost(worker, str(message["failed"]))

    def _declare_lost(self, worker: int, reason: str) -> NoReturn:
        self.dismiss(lost=worker, reason=reason)
        raise LostWorkerError(self._cluster.lost(worker, reason))

    def _send_all(self, **message: Any) -> None:
        for channel in self._present.values():
            channel.send(**message)


def _join(cluster: Cluster, settings: Settings, deadline: float) -> Channel:
    """Returns a worker's connection to the chief, once the chief has released all workers."""
    hello = {"worker": cluster.worker_id, "settings": dict(settings)}
    channel = _connect_to_chief(cluster, hello, deadline)
    while True:
        message = channel.next(_POLL)
        if message:
            _raise_if_ended(cluster, message)
            if "all_here" in message:  # all stay until this worker has reached them
                _reach_others(cluster, channel, deadline)
            if "go" in message:
                return channel
        elif channel.has_ended:  # the chief is being restarted, say
            channel.close()
            channel = _connect_to_chief(cluster, hello, deadline)
        elif time.monotonic() > deadline + _SECONDS_TO_ANSWER:
            raise UserError(f"{cluster.name(0)} no longer responds: restart all workers")


def _raise_if_ended(cluster: Cluster, message: Message) -> None:
    if "end" in message:
        raise UserError(str(message["end"]))
    if "lost" in message:
        raise LostWorkerError(cluster.lost(message["lost"], str(message["reason"])))


def _connect_to_chief(cluster: Cluster, hello: Message, deadline: float) -> Channel:
    """Returns a connection on which the chief has answered."""
    stranger_since: float | None = None
    while True:
        reason = "it does not answer as a worker of this run does"
        try:
            channel = Channel(_connect(cluster.hosts[0]))
        except OSError as error:
            reason, stranger_since = str(error), None
        else:
            channel.send(**hello)
            if "welcome" in (channel.next(_SECONDS_TO_ANSWER) or {}):
                return channel
            channel.close()
            stranger_since = stranger_since or time.monotonic()
        now = time.monotonic()
        if now > deadline or (stranger_since and now > stranger_since + _SECONDS_FOR_STRANGERS):
            raise UserError(
                f"{cluster.name(0)} cannot be reached ({reason}): start it with the same list of "
                "hosts, end any other program that uses its port, and open the port in firewalls"
            )
        time.sleep(_POLL)


def _reach_others(cluster: Cluster, chief: Channel, deadline: float) -> None:
    """Tries the ports of the other workers, which TensorFlow will use.

    Gives up when the chief disconnects.
    """
    for worker, host in enumerate(cluster.hosts):
        while worker not in (0, cluster.worker_id):
            try:
                _connect(host).close()
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    line = f"{cluster} cannot reach {cluster.name(worker)} ({error}): open its "
                    chief.send(failed=line + "port in firewalls")
                    raise UserError(line + "port in firewalls") from error
                _raise_if_ended(cluster, chief.next(_POLL) or {})
                if chief.has_ended:
                    return
    chief.send(reached=True)


def _announce_failure(cluster: Cluster, reason: str) -> None:
    """Tells the other workers why this one cannot take part."""
    deadline = time.monotonic() + _SECONDS_TO_TELL
    with contextlib.suppress(UserError):
        if not cluster.is_chief:
            hello = {"worker": cluster.worker_id, "failed": reason}
            _connect_to_chief(cluster, hello, deadline).close()
            return
        with _listen(cluster) as server:
            _Chief(cluster, server, {}, deadline).dismiss(lost=0, reason=reason)


def _listen(cluster: Cluster) -> socket.socket:
    """Returns a socket that listens at the worker's port."""
    own = cluster.hosts[cluster.worker_id]
    ipv6 = socket.has_dualstack_ipv6()  # as TensorFlow's server listens
    try:
        return socket.create_server(
            ("", int(own.rpartition(":")[2])),
            family=socket.AF_INET6 if ipv6 else socket.AF_INET,
            dualstack_ipv6=ipv6,
        )
    except OSError as error:
        raise UserError(
            f"{cluster} cannot listen at {own}: {error.strerror}; end the program that uses the "
            "port, such as another worker with the same number, or choose another port"
        ) from error


def _connect(host: str) -> socket.socket:
    name, _, port = host.rpartition(":")
    return socket.create_connection((name.strip("[]"), int(port)), timeout=5)
