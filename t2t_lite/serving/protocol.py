"""uvicorn's HTTP, with deadlines for clients.

uvicorn itself limits only the time between an answer and the first byte of the next request: a
client that sends a byte now and then, or none at all, or that does not read its answer, would keep
its connection, and the shutdown of the server, waiting forever.

`Protocol` sees a connection by asyncio's callbacks, `WholeRequests` its requests by ASGI.
"""

import asyncio
import contextlib
import http
import json
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ClassVar

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from t2t_lite.serving.config import ServerConfig

# The application answers a late request this long before its connection is closed.
_LEAD_SECONDS = 1.0
# Bytes that are read from a connection before others have their turn. asyncio would read 16 times
# as many, which takes half a second where each byte of a body is a chunk of its own.
_READ_AT_A_TIME = 1 << 14


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


class Protocol(H11Protocol):
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
        is_answering: whether an answer has begun and not ended.
    """

    header_seconds = 10.0
    body_seconds = answer_seconds = ServerConfig.timeout
    closing_seconds = 5.0
    patience_seconds = 1.0
    max_connections = ServerConfig.max_connections
    is_answering = False
    _has_sent_all = False
    _open: ClassVar[set["Protocol"]]
    _requests = 0  # that are being read or answered
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
            "_open": set(),
        }
        return type("LimitedProtocol", (cls,), limits)

    # ---- asyncio's callbacks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts to wait for the first request."""
        super().connection_made(transport)
        self._transport = transport
        if hasattr(transport, "max_size"):  # of asyncio's own loop
            transport.max_size = _READ_AT_A_TIME
        # A late request is dropped, but what has been written is sent; an unread answer is dropped.
        self._reading = _Deadline(transport.close)
        self._writing = _Deadline(transport.abort)
        transport.set_write_buffer_limits(0)  # so that any unsent byte calls `pause_writing`
        self._open.add(self)
        if len(self._open) > self.max_connections and not self._make_room():
            self._refuse(503, "too many connections: try again later", "retry-after: 1\r\n")
        else:
            self._read_within(self.header_seconds)

    def data_received(self, data: bytes) -> None:
        """Handles what has arrived; requests run in tasks that inherit this context."""
        _CONNECTION.set(self)
        super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Returns whether the connection stays open, for a client that will send no more.

        Such a client may still read, as `nc -N` does, so that a whole request gets its answer.
        """
        self._has_sent_all = True
        return self._owes_answer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops waiting."""
        super().connection_lost(exc)
        self._open.discard(self)
        self._reading.stop()
        self._writing.stop()

    def pause_writing(self) -> None:
        """Starts to wait for the client to read its answer."""
        super().pause_writing()
        self._writing.start(self._allowed(self.answer_seconds))

    def resume_writing(self) -> None:
        """Stops waiting: everything is sent."""
        super().resume_writing()
        self._writing.stop()

    # ---- uvicorn's calls

    def on_response_complete(self) -> None:
        """Goes on with the next request, if a client that sends no more has sent another."""
        super().on_response_complete()
        if self._has_sent_all and not self._owes_answer():
            self._transport.close()

    def _owes_answer(self) -> bool:
        """Whether a whole request has arrived that is not answered."""
        cycle = self.cycle
        return cycle is not None and not (cycle.more_body or cycle.response_complete)

    def shutdown(self) -> None:
        """Closes the connection if it waits for the client, soon if it is within a request."""
        self._is_shutting_down = True
        self._reading.shorten(self.closing_seconds)
        self._writing.shorten(self.closing_seconds)
        if not self._transport.is_closing():
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answers in JSON what is not HTTP, unless an answer has begun.

        This is uvicorn's own way to answer, in plain text; a release that lacks it keeps that.
        """
        if self.is_answering:
            self._transport.close()
        else:
            self._refuse(400, msg)

    def _should_upgrade(self) -> bool:
        """Returns that no request changes the protocol, without uvicorn's warning."""
        return False

    # ---- deadlines

    @contextlib.contextmanager
    def request(self, awaits_body: bool) -> Iterator[None]:
        """Waits no longer for headers within the block, but for a body if the request has one."""
        self._requests += 1
        self.request_arrived()
        if awaits_body:
            self._read_within(self.body_seconds)
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:  # else the next one has begun
                self._read_within(self.header_seconds)

    def request_arrived(self) -> None:
        """Stops to wait for the client to send something."""
        self._reading.stop()

    def _read_within(self, seconds: float) -> None:
        if not self._transport.is_closing():
            self._reading.start(self._allowed(seconds))

    def _allowed(self, seconds: float) -> float:
        return min(seconds, self.closing_seconds) if self._is_shutting_down else seconds

    def _make_room(self) -> bool:
        """Closes the connection that has kept the server waiting longest, if any is late."""
        late = asyncio.get_running_loop().time() - self.patience_seconds
        waiting = [
            (since, id(other), other)
            for other in self._open - {self}
            for since in (other._reading.since, other._writing.since)
            if since is not None and since <= late
        ]
        if not waiting:
            return False
        *_, slowest = min(waiting)
        self._open.discard(slowest)
        slowest._transport.abort()
        return True

    def _refuse(self, status: int, message: str, more_headers: str = "") -> None:
        """Answers with an error, and closes the connection."""
        body = json.dumps({"error": message})
        self._transport.write(
            f"HTTP/1.1 {status} {http.HTTPStatus(status).phrase}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"connection: close\r\n{more_headers}\r\n{body}".encode()
        )
        self._transport.close()


# The connection of the request in progress.
_CONNECTION: ContextVar[Protocol] = ContextVar("connection")


class WholeRequests:
    """ASGI middleware: an answer ends no sooner than its request has arrived.

    Otherwise the connection would be closed on a client that is still sending, which might lose the
    answer.

    Args:
        app: answers the requests; may read them or not.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        connection = _CONNECTION.get()
        headers = Headers(scope=scope)
        awaits_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def receive_part() -> Message:
            nonlocal awaits_body
            message = await receive()
            if not message.get("more_body"):  # the last part, or the client has gone
                awaits_body = False
                connection.request_arrived()
            return message

        async def send_part(message: Message) -> None:
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            connection.is_answering = True
            if is_last and awaits_body:
                await send({**message, "more_body": True})
                while awaits_body:
                    await receive_part()
                message = {"type": "http.response.body"}
            if is_last:
                connection.is_answering = False  # what follows may be the next request
            await send(message)

        with connection.request(awaits_body):
            await self._app(scope, receive_part, send_part)
