"""HTTP as uvicorn speaks it, but whoever begins a request must get on with it."""

import asyncio
from typing import cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Protocol(H11Protocol):
    """Closes connections on which the headers of a request do not arrive in time.

    uvicorn itself limits only the time between an answer and the first byte of the next request: a
    client that sends a byte now and then, or none at all, would keep its connection for ever.

    Attributes:
        header_seconds: from the opening of a connection, or a later request's first byte, to the
            end of the headers.
    """

    header_seconds = 10.0
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins to wait for the first request."""
        super().connection_made(cast(asyncio.Transport, transport))
        self._watch_headers()

    def data_received(self, data: bytes) -> None:
        """Takes note of whether the headers are there."""
        super().data_received(data)
        self._watch_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no longer."""
        super().connection_lost(exc)
        self._stop_waiting()

    def _watch_headers(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(
                self.header_seconds, self.timeout_keep_alive_handler
            )

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
