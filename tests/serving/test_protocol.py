"""Clients that send their requests slowly."""

import asyncio
import contextlib
import socket
import time

import pytest

from support.servers import serve
from t2t_lite.serving.protocol import Protocol, _Deadline

REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
TRANSLATION = (
    b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 13\r\n\r\n{"text": "a"}'
)
CHUNKED = TRANSLATION.replace(b"Content-Length: 13", b"Transfer-Encoding: chunked").replace(
    b'{"text": "a"}', b'd\r\n{"text": "a"}\r\n0\r\n\r\n'
)


@pytest.fixture(scope="module")
def port():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Protocol, "header_seconds", 0.5)
        with serve() as server:
            yield server.port


def ask(connection):
    connection.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"}"):
        part = connection.recv(1000)
        assert part, answer
        answer += part
    return answer


def wait_until_closed(connection, dribble=b""):
    """Sends a byte now and then until the server hangs up."""
    end = time.monotonic() + 30
    connection.settimeout(0.05)
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < end:
            try:
                if not connection.recv(1000):
                    return
            except TimeoutError:
                connection.sendall(dribble)
        raise AssertionError("still open")


@pytest.mark.parametrize("sent", [b"", REQUEST[:20], REQUEST + REQUEST[:20]])
def test_headers_that_do_not_arrive_close_the_connection(port, sent):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        if sent.startswith(REQUEST):
            ask(connection)
        connection.sendall(sent.removeprefix(REQUEST))
        wait_until_closed(connection, b"x" if sent else b"")


def test_the_time_for_headers_starts_anew_after_each_answer(port, monkeypatch):
    started = []
    start = _Deadline.start

    def note(self, seconds):
        started.append(seconds)
        start(self, seconds)

    monkeypatch.setattr(_Deadline, "start", note)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(3):
            assert ask(connection).startswith(b"HTTP/1.1 200")
        wait_until_closed(connection)
    assert started == [0.5] * 4


def test_an_answer_does_not_wait_for_an_acknowledgement(port, monkeypatch):
    """Linux holds the second part of an answer back for 40 ms, unless the socket is told not to."""
    delays = []
    made = Protocol.connection_made

    def note(self, transport):
        accepted = transport.get_extra_info("socket")
        delays.append(not accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(Protocol, "connection_made", note)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        ask(connection)
    assert delays == [False]


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        (b"", 0),
        (REQUEST, 1),
        (TRANSLATION, 1),
        (CHUNKED, 1),
        (REQUEST + TRANSLATION + REQUEST, 3),
        (TRANSLATION + TRANSLATION[:-1], 1),
        (CHUNKED[:-5], 0),
        (TRANSLATION[:40], 0),
    ],
)
def test_a_client_that_closes_its_side_gets_the_answers_to_its_whole_requests(sent, answers, gate):
    """The model takes its time, so that the end of the requests comes first."""
    with serve(gate) as server, socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.settimeout(20)
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        if answers and b"POST" in sent:
            gate.wait_for_batch()
        gate.opened.set()
        answer = b"".join(iter(lambda: connection.recv(1000), b""))
    assert answer.count(b"HTTP/1.1 200") == answer.count(b"HTTP/1.1") == answers


def test_a_client_that_has_gone_holds_no_place(gate, caplog):
    with serve(gate, max_connections=2) as server:
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(TRANSLATION)
        gate.wait_for_batch()
        gate.opened.set()
        server.wait_for('t2t_requests_total{code="200"}', 2)
        for _ in range(3):
            assert server.translate(text="b") == (200, {"texts": ["b"]})
    assert not [record for record in caplog.records if record.exc_info]


def test_a_deadline_is_only_made_shorter():
    async def calls(seconds: float, at_most: float) -> int:
        count = 0

        def call() -> None:
            nonlocal count
            count += 1

        deadline = _Deadline(call)
        deadline.start(seconds)
        deadline.shorten(at_most)
        await asyncio.sleep(0.1)
        deadline.stop()
        return count

    for seconds, at_most, expected in ((0.0, 60.0, 1), (60.0, 0.0, 1), (60.0, 50.0, 0)):
        assert asyncio.run(calls(seconds, at_most)) == expected
