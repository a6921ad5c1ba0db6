"""What this package uses of uvicorn's private interface: the parts of its HTTP connections.

They are the same in uvicorn 0.35 to 0.54, the releases that setup.cfg pins.
"""

import json

import h11
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol


class Connection(H11Protocol):
    """A connection of uvicorn's, whose hooks a subclass may override."""

    # ---- hooks, which uvicorn calls by its own names

    def events_handled(self) -> None:
        """Called after all requests, or parts of one, that have arrived were handled."""

    def shutdown_started(self) -> None:
        """Called when the server starts to shut down."""

    def refuse_malformed(self, message: str) -> None:
        """Called when the client sends something other than HTTP."""

    def handle_events(self) -> None:
        """Calls `events_handled` after uvicorn's own work."""
        super().handle_events()
        self.events_handled()

    def shutdown(self) -> None:
        """Calls `shutdown_started` before uvicorn's own work."""
        self.shutdown_started()
        if not self.is_closing:
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Calls `refuse_malformed` instead of uvicorn's own work."""
        self.refuse_malformed(msg)

    # ---- state and actions

    @property
    def now(self) -> float:
        """The event loop's time."""
        return self.loop.time()

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closing or closed."""
        return self.transport.is_closing()

    @property
    def client_state(self) -> object:
        """Which part of a request the client sends next, as h11 names it."""
        return self.conn.their_state

    @property
    def can_answer(self) -> bool:
        """Whether no answer to the current request has begun."""
        return self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE)

    @property
    def open_connections(self) -> "list[Connection]":
        """All open connections of the server, including this one."""
        return [other for other in self.connections if isinstance(other, Connection)]

    def abandon_request(self) -> None:
        """Tells the application that its current request, if any, needs no answer."""
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def close(self) -> None:
        """Closes the connection once everything is sent."""
        self.transport.close()

    def abort(self) -> None:
        """Closes the connection at once; it no longer counts as open."""
        self.connections.discard(self)
        self.transport.abort()

    def refuse(self, status: int, message: str, *more_headers: tuple[str, str]) -> None:
        """Answers with an error, and closes the connection."""
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
        self.close()
