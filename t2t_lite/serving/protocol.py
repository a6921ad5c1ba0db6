"""uvicorn's HTTP, with deadlines for clients.

uvicorn itself limits only the time between an answer and the first byte of the next request: a
client that sends a byte now and then, or none at all, or that does not read its answer, would keep
its connection, and the shutdown of the server, waiting forever.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import h11

from t2t_lite.serving._private_api import Connection
from t2t_lite.serving.config import ServerConfig

# The application answers a late request this long before its connection is closed.
_LEAD_SECONDS = 1.0


class _Deadline:
    """Calls a function unless stopped in time.

    Attributes:
        since: when it was started, in the event loop's time; None while it is not running.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self.since: float | None = None

    def start(self, seconds: float) -> None:
        self.stop()
        self.since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._call)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.since = None

    def shorten(self, seconds: float) -> None:
        """Leaves at most this many seconds, if it is running."""
        if self._timer is not None and self._timer.when() > self._loop.time() + seconds:
            self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self._call)


class Protocol(Connection):
    """Closes the connections of clients that keep the server waiting.

    Attributes:
        header_seconds: from the opening of a connection, or the previous answer, to the end of a
            request's headers.
        body_seconds: from there to the end of the request.
        answer_seconds: for the client to read its answer.
        closing_seconds: for each of these during shutdown.
        patience_seconds: time for which no connection is closed to make room for another: its
            request may have arrived but not been read.
        max_connections: limit of open connections. When one more comes, the one that has kept the
            server waiting longest is closed; if none has for `patience_seconds`, the new one is
            answered 503.
    """

    header_seconds = 10.0
    body_seconds = answer_seconds = ServerConfig.timeout
    closing_seconds = 5.0
    patience_seconds = 1.0
    max_connections = ServerConfig.max_connections
    _reading: _Deadline
    _writing: _Deadline
    _awaits_body = False
    _is_shutting_down = False

    @classmethod
    def limited(cls, config: ServerConfig) -> "type[Protocol]":
        """Returns the protocol with the limits of a server."""
        limits = {
            "body_seconds": config.timeout + _LEAD_SECONDS,
            "answer_seconds": config.timeout,
            # The whole shutdown must fit into the timeout.
            "closing_seconds": min(cls.closing_seconds, config.timeout / 2),
            "max_connections": config.max_connections,
        }
        return type("LimitedProtocol", (cls,), limits)

    @property
    def waits_since(self) -> float | None:
        """When the server began to wait for the client; None while it is not waiting."""
        times = [d.since for d in (self._reading, self._writing) if d.since is not None]
        return min(times, default=None)

    # ---- asyncio's callbacks

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts to wait for the first request."""
        transport = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        # A late request is dropped, but what has been written is sent; an unread answer is dropped.
        self._reading = _Deadline(transport.close)
        self._writing = _Deadline(transport.abort)
        transport.set_write_buffer_limits(0)  # so that any unsent byte calls `pause_writing`
        if len(self.open_connections) > self.max_connections and not self._make_room():
            self.refuse(503, "too many connections: try again later", ("retry-after", "1"))
        else:
            self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting."""
        super().connection_lost(exc)
        self._reading.stop()
        self._writing.stop()

    def pause_writing(self) -> None:
        """Starts to wait for the client to read its answer."""
        super().pause_writing()
        self._writing.start(self.closing_seconds if self._is_shutting_down else self.answer_seconds)

    def resume_writing(self) -> None:
        """Stops waiting: everything is sent."""
        super().resume_writing()
        self._writing.stop()

    # ---- uvicorn's callbacks

    def events_handled(self) -> None:
        """Updates the deadline of the request."""
        self._watch_request()

    def shutdown_started(self) -> None:
        """Closes connections that wait for the client, soon if they are within a request."""
        self._is_shutting_down = True
        self._reading.shorten(self.closing_seconds)
        self._writing.shorten(self.closing_seconds)

    def refuse_malformed(self, message: str) -> None:
        """Answers 400, unless an answer has begun."""
        self.abandon_request()
        if self.can_answer:
            self.refuse(400, message)
        else:
            self.close()

    # ---- deadlines

    def _watch_request(self) -> None:
        state = self.client_state
        if self.is_closing or state not in (h11.IDLE, h11.SEND_BODY):
            self._reading.stop()
            return
        awaits_body = state is h11.SEND_BODY
        if self._reading.since is None or awaits_body != self._awaits_body:
            seconds = self.body_seconds if awaits_body else self.header_seconds
            if self._is_shutting_down:
                seconds = min(seconds, self.closing_seconds)
            self._reading.start(seconds)
        self._awaits_body = awaits_body

    def _make_room(self) -> bool:
        """Closes the connection that has kept the server waiting longest, if any is late."""
        late = self.now - self.patience_seconds
        waiting = [
            (since, id(other), other)
            for other in self.open_connections
            if isinstance(other, Protocol) and other is not self
            if (since := other.waits_since) is not None and since <= late
        ]
        if not waiting:
            return False
        *_, slowest = min(waiting)
        slowest.abort()
        return True
