"""HTTP as uvicorn speaks it, but a client that begins something must get on with it.

uvicorn itself limits only the time between an answer and the first byte of the next request: a
client that sends a byte now and then, or none at all, or that does not read its answer, would keep
its connection, and the end of the server, for ever.
"""

import asyncio
import json
from collections.abc import Callable
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from t2t_lite.serving.config import ServerConfig

# A request that is late is answered, by the application, before its connection is closed.
_LEAD_SECONDS = 1.0


class _Deadline:
    """Calls a function unless it is stopped in time.

    Attributes:
        since: when it was started, as the loop counts; None while it is not running.
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
        """Leaves at most so many seconds, if it is running."""
        if self._timer is not None and self._timer.when() > self._loop.time() + seconds:
            self._timer.cancel()
            self._timer = self._loop.call_later(seconds, self._call)


class Protocol(H11Protocol):
    """Closes the connections of clients that keep the server waiting.

    Attributes:
        header_seconds: from the opening of a connection, or the answer before, to the end of a
            request's headers.
        body_seconds: from there to the end of the request.
        answer_seconds: for the client to take what was written.
        closing_seconds: for all of these once the server is to end.
        patience_seconds: before which a connection need not make way for another: its request may
            have arrived unread.
        max_connections: open at a time. When one more comes, the one that has kept the server
            waiting longest makes way; if none has for so long, the new one is answered 503.
    """

    header_seconds = 10.0
    body_seconds = answer_seconds = ServerConfig.timeout
    closing_seconds = 5.0
    patience_seconds = 1.0
    max_connections = ServerConfig.max_connections
    _reading: _Deadline
    _writing: _Deadline
    _awaits_body = False
    _is_closing = False

    @classmethod
    def limited(cls, config: ServerConfig) -> "type[Protocol]":
        """Returns the protocol with a server's limits."""
        limits = {
            "body_seconds": config.timeout + _LEAD_SECONDS,
            "answer_seconds": config.timeout,
            # The end as a whole must come within the timeout.
            "closing_seconds": min(cls.closing_seconds, config.timeout / 2),
            "max_connections": config.max_connections,
        }
        return type("LimitedProtocol", (cls,), limits)

    @property
    def waits_since(self) -> float | None:
        """When the server began to wait for the client; None while it does not."""
        times = [d.since for d in (self._reading, self._writing) if d.since is not None]
        return min(times, default=None)

    # ---- asyncio's interface

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for the first request."""
        transport = cast(asyncio.Transport, transport)
        super().connection_made(transport)
        # What has been read so far is lost, or goes out first: nothing more is read, at any rate.
        self._reading = _Deadline(transport.close)
        self._writing = _Deadline(transport.abort)
        transport.set_write_buffer_limits(0)  # hence `pause_writing` as soon as a byte waits
        if len(self.connections) > self.max_connections and not self._make_room():
            self._refuse(503, "too many connections: come again later", ("retry-after", "1"))
        else:
            self._watch_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        super().connection_lost(exc)
        self._reading.stop()
        self._writing.stop()

    def pause_writing(self) -> None:
        """Begins to wait for the client to take what was written."""
        super().pause_writing()
        self._writing.start(self.closing_seconds if self._is_closing else self.answer_seconds)

    def resume_writing(self) -> None:
        """Takes note that all is written."""
        super().resume_writing()
        self._writing.stop()

    # ---- uvicorn's interface

    def handle_events(self) -> None:
        """Takes note of how much of a request is there."""
        super().handle_events()
        self._watch_request()

    def shutdown(self) -> None:
        """Ends what waits for the client, at once between two requests and soon within one."""
        self._is_closing = True
        self._reading.shorten(self.closing_seconds)
        self._writing.shorten(self.closing_seconds)
        if not self.transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answers what is not HTTP, unless an answer has begun."""
        if self.cycle is not None:  # the application hears that there is nobody to answer
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._refuse(400, msg)
        else:
            self.transport.close()

    # ---- our own

    def _watch_request(self) -> None:
        state = self.conn.their_state
        if self.transport.is_closing() or state not in (h11.IDLE, h11.SEND_BODY):
            self._reading.stop()
            return
        awaits_body = state is h11.SEND_BODY
        if self._reading.since is None or awaits_body != self._awaits_body:
            seconds = self.body_seconds if awaits_body else self.header_seconds
            self._reading.start(min(seconds, self.closing_seconds) if self._is_closing else seconds)
        self._awaits_body = awaits_body

    def _make_room(self) -> bool:
        """Closes the connection that has kept the server waiting longest, if any is late."""
        late = self.loop.time() - self.patience_seconds
        waiting = [
            (since, id(other), other)
            for other in self.connections
            if isinstance(other, Protocol) and other is not self
            if (since := other.waits_since) is not None and since <= late
        ]
        if not waiting:
            return False
        *_, slowest = min(waiting)
        self.connections.discard(slowest)
        slowest.transport.abort()
        return True

    def _refuse(self, status: int, message: str, *more_headers: tuple[str, str]) -> None:
        body = json.dumps({"error": message}).encode()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("connection", "close"),
            *more_headers,
        ]
        response = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status])
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
