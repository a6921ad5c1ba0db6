"""Clients that keep the server waiting: to send their request, or to read their answer."""

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.servers import serve
from t2t_lite.serving.protocol import Protocol

HEAD = b"%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
WHOLE = HEAD % (b"GET", b"/health") + b"\r\n"
TRANSLATE = HEAD % (b"POST", b"/translate") + b'Content-Length: 13\r\n\r\n{"text": "a"}'


def begun(method: bytes, path: bytes) -> bytes:
    """A request of 100 bytes, of which one is sent."""
    return HEAD % (method, path) + b"Content-Length: 100\r\n\r\n{"


def connect(server) -> socket.socket:
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", server.port))
    return connection


def read_to_end(connection: socket.socket, dribble: bytes = b"") -> bytes:
    """Reads until the server closes the connection, and sends a byte now and then."""
    end, answer = time.monotonic() + 30, b""
    connection.settimeout(0.05)
    while time.monotonic() < end:
        try:
            part = connection.recv(1 << 16)
            if not part:
                return answer
            answer += part
        except TimeoutError:
            with contextlib.suppress(OSError):
                connection.sendall(dribble)
        except ConnectionError:
            return answer
    raise AssertionError(f"still open after {answer!r}")


@pytest.fixture(scope="module")
def server():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("t2t_lite.serving.protocol._LEAD_SECONDS", 0.3)
        with serve(timeout=1.5) as client:
            yield client


BEGUN = [
    (begun(b"POST", b"/translate"), b"408"),
    (begun(b"GET", b"/health"), b"200"),
    (begun(b"POST", b"/nothing"), b"404"),
    (begun(b"PUT", b"/translate"), b"405"),
    (WHOLE + begun(b"GET", b"/health"), b"200"),
    (HEAD % (b"GET", b"/") + b"Transfer-Encoding: chunked\r\n\r\n5\r\n", b"200"),
]


@pytest.mark.integration
def test_a_request_that_does_not_end_is_answered_and_closed(server):
    def answer(sent: bytes, dribble: bytes) -> bytes:
        with connect(server) as connection:
            connection.sendall(sent)
            return read_to_end(connection, dribble)

    with ThreadPoolExecutor(2 * len(BEGUN)) as clients:  # all of them at once, to save time
        answers = [
            (status, clients.submit(answer, sent, dribble))
            for dribble in (b"", b"x")
            for sent, status in BEGUN
        ]
        for status, future in answers:
            assert future.result().startswith(b"HTTP/1.1 " + status)


@pytest.mark.integration
def test_late_requests_are_reported(server):
    with connect(server) as connection:
        connection.sendall(begun(b"POST", b"/translate"))
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head.lower()
    assert json.loads(body) == {"error": "the request did not arrive within 1.5 seconds"}
    assert server.metric('t2t_requests_total{code="408"}') >= 1


@pytest.mark.integration
def test_clients_that_do_not_read_are_closed(server):
    with connect(server) as connection:
        connection.settimeout(0.1)
        end = time.monotonic() + 30
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < end:
                with contextlib.suppress(TimeoutError):
                    connection.sendall(WHOLE.replace(b"/health", b"/") * 100)
                    connection.recv(1)  # slowly
        assert time.monotonic() < end


def test_invalid_http_is_reported_in_json_even_after_an_answer(server, caplog):
    with connect(server) as connection:
        connection.sendall(b"no HTTP\r\n\r\n")
        head, _, body = read_to_end(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert list(json.loads(body)) == ["error"]
    for path, status in ((b"/translate", b"400"), (b"/nothing", b"404")):
        with connect(server) as connection:
            connection.sendall(HEAD % (b"POST", path) + b"Transfer-Encoding: chunked\r\n\r\n")
            if status == b"404":
                assert connection.recv(1000)
            connection.sendall(b"no chunk\r\n")
            read_to_end(connection)
    assert server.translate(text="a") == (200, {"texts": ["a"]})
    assert not [record for record in caplog.records if record.exc_info]


def is_answered(server) -> bool:
    """Whether a request has its turn; else, the server closes its connection, maybe unread."""
    try:
        return server.translate(text="too early")[0] != 503
    except ConnectionError:
        return False


def test_the_slowest_make_way_for_others(monkeypatch):
    monkeypatch.setattr(Protocol, "patience_seconds", 0.1)
    with serve(max_connections=4) as server, contextlib.ExitStack() as stack:
        slow = []
        for sent in (b"", begun(b"POST", b"/translate"), WHOLE[:9], begun(b"GET", b"/health")):
            slow.append(stack.enter_context(connect(server)))
            slow[-1].sendall(sent)
        while not is_answered(server):  # they are not late yet
            time.sleep(0.01)
        for i in range(10):
            assert server.translate(text=str(i)) == (200, {"texts": [str(i)]})
        read_to_end(slow[0])


def test_where_all_are_being_answered_one_more_is_503(gate):
    with serve(gate, max_connections=2) as server, contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(connect(server)) for _ in range(2)]
        for connection in waiting:
            connection.sendall(TRANSLATE)
        gate.wait_for_batch()
        time.sleep(0.1)
        with connect(server) as connection:
            answer = read_to_end(connection)
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"\r\nretry-after: 1\r\n" in answer.lower()
        gate.opened.set()
        for connection in waiting:
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")


def test_of_ordinary_clients_beyond_the_limit_all_are_answered():
    with serve(max_connections=8) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(server)) for _ in range(40)]
        for client in clients:
            client.sendall(TRANSLATE)
        answers = [client.recv(1000)[:12] for client in clients]
    assert set(answers) == {b"HTTP/1.1 200", b"HTTP/1.1 503"}
    assert answers.count(b"HTTP/1.1 200") >= 8


def test_a_large_body_does_not_hold_the_others():
    size = 30_000_000
    with serve(max_body_size=size) as server, connect(server) as connection:
        body = b"[" + b"[]," * (size // 3 - 1) + b"]"
        connection.settimeout(30)
        connection.sendall(HEAD % (b"POST", b"/translate") + b"Content-Length: %d\r\n" % len(body))
        connection.sendall(b"\r\n" + body)
        longest, answered = 0.0, False
        connection.settimeout(0.0)
        while not answered:
            start = time.monotonic()
            assert server.ask("GET", "/health").status == 200
            longest = max(longest, time.monotonic() - start)
            with contextlib.suppress(BlockingIOError):
                answered = connection.recv(1000).startswith(b"HTTP/1.1 413")
        assert longest < 5, "seconds; parsing all of it in between would take many more"


def test_a_body_in_tiny_chunks_is_read_a_little_at_a_time(server, monkeypatch):
    read = []
    received = Protocol.data_received

    def note(self, data):
        read.append(len(data))
        received(self, data)

    monkeypatch.setattr(Protocol, "data_received", note)
    body = b'{"text": "a"' + b" " * 6_000 + b"}"
    with connect(server) as connection:
        connection.settimeout(30)
        connection.sendall(HEAD % (b"POST", b"/translate") + b"Transfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
    assert sum(read) > 36_000
    assert max(read) <= 1 << 14


def stuck_clients(server, stack: contextlib.ExitStack) -> None:
    """Opens connections of every kind that delays a shutdown."""
    for sent in (
        b"",
        WHOLE[:9],
        begun(b"POST", b"/translate"),
        begun(b"GET", b"/health"),
        begun(b"POST", b"/nothing"),
        WHOLE.replace(b"/health", b"/") * 2000,
    ):
        connection = stack.enter_context(connect(server))
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            connection.sendall(sent)
    time.sleep(0.2)


@pytest.mark.integration
@pytest.mark.parametrize("timeout", [1.0, 60.0])
def test_the_end_comes_within_the_timeout(monkeypatch, timeout):
    monkeypatch.setattr(Protocol, "closing_seconds", 0.5)
    with contextlib.ExitStack() as stack:
        with serve(timeout=timeout) as server:
            stuck_clients(server, stack)
            start = time.monotonic()
        assert time.monotonic() - start < 10, "seconds, on a machine with other work"


@pytest.mark.integration
def test_what_cannot_be_answered_before_the_end_is_503(gate, caplog, monkeypatch):
    monkeypatch.setattr("t2t_lite.serving.server._GRACE", 0.5)
    with contextlib.ExitStack() as stack:
        with serve(gate, timeout=1.0) as server:
            connection = stack.enter_context(connect(server))
            connection.sendall(TRANSLATE)
            gate.wait_for_batch()
            threading.Timer(0.9, gate.opened.set).start()
            start = time.monotonic()
        assert time.monotonic() - start < 8
        assert connection.recv(1000).startswith(b"HTTP/1.1 503")
    assert not [record for record in caplog.records if record.exc_info]
