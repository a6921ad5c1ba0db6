"""A channel sends and receives messages over a socket: JSON objects, one per line."""

import json
import select
import socket
from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]

_MAX_BYTES = 2**24  # of a message: the names and sizes of 100,000 data files fit
_SECONDS_TO_SEND = 10.0


class Channel:
    """One end of a connection between workers or their failure detectors.

    The channel has ended when the connection breaks or the peer sends anything but messages.

    Args:
        connection: a connected socket, which the channel takes over.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._received = b""
        self._messages: list[Message] = []
        self.has_ended = False

    def fileno(self) -> int:
        """Returns the file descriptor, for `select`."""
        return self._socket.fileno()

    def send(self, **message: Any) -> None:
        """Sends a message; a broken connection shows when the next message is received."""
        rest = memoryview(json.dumps(message).encode() + b"\n")
        while rest:
            try:
                rest = rest[self._socket.send(rest) :]
            except BlockingIOError:
                if not select.select([], [self], [], _SECONDS_TO_SEND)[1]:
                    self.has_ended = True
                    return
            except OSError:
                return

    def receive(self) -> list[Message]:
        """Returns the messages that have arrived, without waiting."""
        self._fill()
        messages, self._messages = self._messages, []
        return messages

    def next(self, seconds: float) -> Message | None:
        """Returns the next message; None if none arrives within `seconds`."""
        self._fill()
        if not self._messages and not self.has_ended:
            ready([self], seconds)
            self._fill()
        return self._messages.pop(0) if self._messages else None

    def close(self) -> None:
        """Closes the connection, which the other end notices."""
        self.has_ended = True
        self._socket.close()

    def _fill(self) -> None:
        while not self.has_ended:
            try:
                data = self._socket.recv(2**16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            self._received += data
            self.has_ended = not data or len(self._received) > _MAX_BYTES
        *lines, self._received = self._received.split(b"\n")
        self._messages += filter(None, map(self._parsed, lines))

    def _parsed(self, line: bytes) -> Message | None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):  # another protocol
            self.has_ended = True
            return None
        return message


def ready(ends: Iterable[Any], seconds: float) -> list[Any]:
    """Waits for sockets or channels with data to read; returns those that have some."""
    return select.select(list(ends), [], [], max(0.0, seconds))[0]
