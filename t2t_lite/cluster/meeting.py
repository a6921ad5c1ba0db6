"""How workers find each other: all come to the chief, which compares what they are to do.

They meet at the very ports that TensorFlow listens at afterwards, so that no other is needed. The
connections to the chief stay, for `watcher`.

    worker                                     chief
    {"worker": 2, "settings": {...}}        ->
                                            <- {"welcome": true}      at once
                                            <- {"all_here": true}     when the last has come
    {"reached": true}                       ->                        it has reached the others
                                            <- {"go": true}           when all have

A worker that cannot take part says {"worker": 2, "failed": "..."}, and the chief tells all others,
by {"lost": 2, "reason": "..."}. If two do not agree, all are told by {"end": "..."}.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from t2t_lite.cluster.channel import Channel, Message, ready
from t2t_lite.cluster.cluster import Cluster, LostWorkerError
from t2t_lite.errors import UserError

Settings = Mapping[str, str | int | float | bool | None]

# Schedulers start workers minutes apart, and restart them after pauses of up to five minutes.
_SECONDS_TO_MEET = 600.0
# For so long, what answers at the chief's port may be its predecessor, which is about to end.
_SECONDS_FOR_STRANGERS = 30.0
# For so long, one that cannot take part tries to tell the others.
_SECONDS_TO_TELL = 30.0
_SECONDS_TO_ANSWER = 10.0
_MOST_UNKNOWN = 64  # connections of which nothing has been heard yet
_POLL = 0.2


def meet(cluster: Cluster, describe: Callable[[], Settings]) -> dict[int, Channel]:
    """Returns when every worker is there, can reach every other, and is to do the same.

    Args:
        cluster: the workers.
        describe: returns by name what must be equal on all of them.

    Returns:
        The chief's connections to the others, by their numbers; a worker's own to the chief, 0.

    Raises:
        UserError: `describe` did; or this worker's port is in use, a worker does not come or
            has other settings; or one cannot take part (then `LostWorkerError`).
        OSError: `describe` did.
    """
    deadline = time.monotonic() + _SECONDS_TO_MEET
    try:
        settings = {"--worker_hosts": ",".join(cluster.hosts), **describe()}
        server = _listen(cluster)
    except (UserError, OSError) as error:
        _tell(cluster, str(error))
        raise
    with server:  # until all have tried to reach it
        if cluster.is_chief:
            return _Chief(cluster, server, settings, deadline).gather()
        return {0: _join(cluster, settings, deadline)}


def difference(name: str, settings: Settings, chiefs: Settings) -> str | None:
    """Returns one line about the first setting that two workers do not share; None: they agree.

    Args:
        name: of the worker.
        settings: its own.
        chiefs: those of worker 0.
    """
    for key in dict.fromkeys([*chiefs, *settings]):
        if settings.get(key) != chiefs.get(key):
            return (
                f"{name} has {key}={settings.get(key)}, but worker 0 has {key}={chiefs.get(key)}: "
                "all workers need the same flags, data and releases"
            )
    return None


class _Chief:
    """Receives the others.

    Args:
        cluster: the workers.
        server: listens at the chief's port.
        settings: the chief's own.
        deadline: when the last must have come.
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
        self._here: dict[int, Channel] = {}
        self._farewell: Message = {}  # why the meeting has ended
        self._told: set[int] = set()  # who knows

    def gather(self) -> dict[int, Channel]:
        """Returns the connections to the others when all are there."""
        while missing := [worker for worker in self._others if worker not in self._here]:
            self._refuse_late(missing, "has not come")
            self._hear()
        self._send_all(all_here=True)
        reached: set[int] = set()
        while missing := [worker for worker in self._others if worker not in reached]:
            self._refuse_late(missing, "has not reached the others")
            ready(self._here.values(), _POLL)
            for worker in self._others:  # also who has reached all must stay, to be reached
                reached |= self._has_reached(worker)
        self._send_all(go=True)
        return self._here

    def dismiss(self, seconds: float = _SECONDS_TO_TELL, **message: Any) -> None:
        """Ends the meeting.

        Args:
            seconds: for so long, those who have not come yet are told as well.
            **message: says why.
        """
        self._farewell = message
        self._told = set(self._here)
        self._send_all(**message)
        until = time.monotonic() + seconds
        while len(self._told) < len(self._others) and time.monotonic() < until:
            self._hear()

    def _refuse_late(self, missing: list[int], what: str) -> None:
        if time.monotonic() > self._deadline:
            line = (
                f"{self._cluster.name(missing[0])} {what} for {_SECONDS_TO_MEET / 60:.0f} minutes: "
                "start it with the same list of hosts, and let its port and the chief's through"
            )
            self.dismiss(seconds=0.0, end=line)
            raise UserError(line)

    def _hear(self) -> None:
        """Lets in who comes, and forgets who has gone: it may come again."""
        if self._server in ready([self._server, *self._unknown, *self._here.values()], _POLL):
            with contextlib.suppress(OSError):
                self._unknown.append(Channel(self._server.accept()[0]))
        for channel in list(self._unknown):
            message = channel.next(0)
            if message or channel.has_ended or len(self._unknown) > _MOST_UNKNOWN:
                self._unknown.remove(channel)
                self._let_in(message or {}, channel)
        for worker, channel in list(self._here.items()):
            self._refuse_failed(worker, channel.receive())
            if channel.has_ended:
                channel.close()
                del self._here[worker]

    def _let_in(self, message: Message, channel: Channel) -> None:
        """Takes the first message of a connection."""
        worker, settings = message.get("worker"), message.get("settings", {})
        if not isinstance(worker, int) or not isinstance(settings, dict):
            channel.close()
            return
        channel.send(welcome=True)
        if worker in self._here:
            self._here[worker].send(end=f"another process has come as worker {worker}")
        self._here[worker] = channel
        if self._farewell:
            channel.send(**self._farewell)
            self._told.add(worker)
            return
        self._refuse_failed(worker, [message])
        if line := difference(self._cluster.name(worker), settings, self._settings):
            self.dismiss(end=line)
            raise UserError(line)

    def _has_reached(self, worker: int) -> set[int]:
        """Returns the worker if it says that it has reached the others; now it must not go."""
        messages = self._here[worker].receive()
        self._refuse_failed(worker, messages)
        if self._here[worker].has_ended:
            self._lose(worker, "its connection has closed")
        return {worker} if any("reached" in message for message in messages) else set()

    def _refuse_failed(self, worker: int, messages: list[Message]) -> None:
        for message in messages:
            if "failed" in message and not self._farewell:
                self._lose(worker, str(message["failed"]))

    def _lose(self, worker: int, reason: str) -> NoReturn:
        self.dismiss(lost=worker, reason=reason)
        raise LostWorkerError(self._cluster.lost(worker, reason))

    def _send_all(self, **message: Any) -> None:
        for channel in self._here.values():
            channel.send(**message)


def _join(cluster: Cluster, settings: Settings, deadline: float) -> Channel:
    """Returns a worker's connection to the chief, when that has let all go."""
    hello = {"worker": cluster.worker_id, "settings": dict(settings)}
    channel = _greet(cluster, hello, deadline)
    while True:
        message = channel.next(_POLL)
        if message:
            _refuse_end(cluster, message)
            if "all_here" in message:  # nobody may go before this worker has reached them
                _reach_others(cluster, channel, deadline)
            if "go" in message:
                return channel
        elif channel.has_ended:  # the chief is being restarted, say
            channel.close()
            channel = _greet(cluster, hello, deadline)
        elif time.monotonic() > deadline + _SECONDS_TO_ANSWER:
            raise UserError(f"{cluster.name(0)} says nothing any more: start all workers again")


def _refuse_end(cluster: Cluster, message: Message) -> None:
    if "end" in message:
        raise UserError(str(message["end"]))
    if "lost" in message:
        raise LostWorkerError(cluster.lost(message["lost"], str(message["reason"])))


def _greet(cluster: Cluster, hello: Message, deadline: float) -> Channel:
    """Returns a connection at whose end the chief has answered.

    Raises:
        UserError: it does not before the deadline, or something else answers in its place.
    """
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
                "hosts, end what else uses its port, and let the port through"
            )
        time.sleep(_POLL)


def _reach_others(cluster: Cluster, chief: Channel, deadline: float) -> None:
    """Tries the ports of the other workers, which TensorFlow is going to use.

    Gives up when the chief has gone.

    Raises:
        UserError: one cannot be reached before the deadline, or the chief says that one is lost.
    """
    for worker, host in enumerate(cluster.hosts):
        while worker not in (0, cluster.worker_id):
            try:
                _connect(host).close()
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    line = f"{cluster} cannot reach {cluster.name(worker)} ({error}): let its "
                    chief.send(failed=line + "port through")
                    raise UserError(line + "port through") from error
                _refuse_end(cluster, chief.next(_POLL) or {})
                if chief.has_ended:
                    return
    chief.send(reached=True)


def _tell(cluster: Cluster, reason: str) -> None:
    """Says why this worker cannot take part, if somebody comes to hear it."""
    deadline = time.monotonic() + _SECONDS_TO_TELL
    with contextlib.suppress(UserError):
        if not cluster.is_chief:
            hello = {"worker": cluster.worker_id, "failed": reason}
            _greet(cluster, hello, deadline).close()
            return
        with _listen(cluster) as server:
            _Chief(cluster, server, {}, deadline).dismiss(lost=0, reason=reason)


def _listen(cluster: Cluster) -> socket.socket:
    """Returns a socket at the worker's own port.

    Raises:
        UserError: the port is in use.
    """
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
            f"{cluster} cannot listen at {own}: {error.strerror}; end what uses the port, such as "
            "another worker of the same number, or name another port"
        ) from error


def _connect(host: str) -> socket.socket:
    name, _, port = host.rpartition(":")
    return socket.create_connection((name.strip("[]"), int(port)), timeout=5)
