"""Clients that are slow to say what they want."""

import socket
import threading
import time

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from t2t_lite.serving.protocol import Protocol

REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


class Impatient(Protocol):
    header_seconds = 0.5


@pytest.fixture(scope="module")
def port():
    app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("hello"))])
    config = uvicorn.Config(app, port=0, http=Impatient, lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while thread.is_alive() and not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join()


def ask(connection):
    connection.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"hello"):
        part = connection.recv(1000)
        assert part, answer
        answer += part
    return answer


def seconds_until_closed(connection, dribble=b""):
    """Sends a byte now and then until the other side hangs up."""
    start = time.monotonic()
    connection.settimeout(0.05)
    while time.monotonic() - start < 4:  # below uvicorn's own limit between two requests
        try:
            if not connection.recv(1000):
                return time.monotonic() - start
        except TimeoutError:
            connection.sendall(dribble)
        except ConnectionError:
            return time.monotonic() - start
    raise AssertionError("still open")


@pytest.mark.parametrize("sent", [b"", REQUEST[:20], REQUEST + REQUEST[:20]])
def test_headers_that_do_not_arrive_close_the_connection(port, sent):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        if sent.startswith(REQUEST):
            ask(connection)
        connection.sendall(sent.removeprefix(REQUEST))
        dribble = b"x" if sent else b""
        assert seconds_until_closed(connection, dribble) < 3


def test_a_connection_serves_requests_for_longer_than_that(port):
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(5):
            time.sleep(0.2)
            assert ask(connection).startswith(b"HTTP/1.1 200")
