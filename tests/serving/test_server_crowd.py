"""Ordinary clients among many slow ones; and a shutdown that none of these delay."""

import contextlib
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from support.servers import Client, serve

HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
BEGUN = (  # what a slow sender begins, and continues byte by byte
    HEAD % b"POST /translate" + b"Content-Length: 100000\r\n\r\n",
    HEAD % b"GET /health" + b"Content-Length: 100000\r\n\r\n",
    HEAD % b"POST /nothing" + b"Transfer-Encoding: chunked\r\n\r\n10000\r\n",
    HEAD % b"POST /translate" + b"Slow: ",
)
ASKED = (  # what a slow reader asks for: megabytes
    (HEAD % b"GET /" + b"\r\n") * 2000,
    (HEAD % b"POST /translate" + b'Content-Length: 15\r\n\r\n{"text": "abc"}') * 2000,
)


class Crowd:
    """Clients of a server, until they are told to stop; a context manager.

    Attributes:
        answers: of ordinary clients, by status; lost ones by the name of the error.
        slowest: seconds of the ordinary request that took longest.
        closed: how often the server closed the connection of a slow client, by kind.
    """

    def __init__(self, server, ordinary=30, readers=15, senders=15) -> None:
        self.answers, self.closed, self.slowest = Counter(), Counter(), 0.0
        self._server = server
        self._is_over = threading.Event()
        kinds = [self._ask] * ordinary + [self._read] * readers + [self._send] * senders
        self._threads = [threading.Thread(target=kind, args=(i,)) for i, kind in enumerate(kinds)]
        self._ordinary = self._threads[:ordinary]
        self._lock = threading.Lock()
        self._ordinary_are_done = threading.Event()

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ordinary_are_done.set()
        self._is_over.set()
        for thread in self._threads:
            thread.join()

    def stop_ordinary(self) -> None:
        """Returns when no ordinary request is in progress."""
        self._ordinary_are_done.set()
        for thread in self._ordinary:
            thread.join()

    def _ask(self, number: int) -> None:
        asked = 0
        while not self._ordinary_are_done.wait(0.05):
            start = time.monotonic()
            text = f"{number}: {asked}"
            try:
                status, answer = self._server.translate(text=text)
                assert status != 200 or text in (answer.get("source"), *answer.get("texts", []))
            except Exception as error:
                status = type(error).__name__
            with self._lock:
                self.answers[status] += 1
                self.slowest = max(self.slowest, time.monotonic() - start)
            asked += 1

    def _read(self, number: int) -> None:
        self._dawdle("reader", ASKED[number % len(ASKED)], _read_byte)

    def _send(self, number: int) -> None:
        self._dawdle("sender", BEGUN[number % len(BEGUN)], lambda connection: connection.send(b"x"))

    def _dawdle(self, kind: str, begin: bytes, go_on) -> None:
        """Opens connections in turn, and sends or reads a byte now and then on each."""
        while not self._is_over.is_set():
            with contextlib.suppress(OSError), socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(0.2)
                connection.connect(("127.0.0.1", self._server.port))
                with contextlib.suppress(TimeoutError):
                    connection.sendall(begin)
                with contextlib.suppress(ConnectionError):
                    while not self._is_over.wait(0.1):
                        with contextlib.suppress(TimeoutError):
                            go_on(connection)
                with self._lock:
                    self.closed[kind] += not self._is_over.is_set()
            self._is_over.wait(random.uniform(0, 0.1))


def _read_byte(connection: socket.socket) -> None:
    connection.recv(1)
    # What came before the server closed the connection can be read for long.
    if error := connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise ConnectionError(error)


@pytest.mark.integration
def test_ordinary_clients_among_slow_ones_lose_nothing():
    timeout = 5.0
    with contextlib.ExitStack() as stack:
        with serve(timeout=timeout) as server:
            crowd = stack.enter_context(Crowd(server, ordinary=10, readers=10, senders=10))
            while not (crowd.closed["reader"] and crowd.closed["sender"]):
                time.sleep(0.1)
            crowd.stop_ordinary()
            start = time.monotonic()
        assert time.monotonic() - start < timeout
    assert list(crowd.answers) == [200], crowd.answers
    assert crowd.slowest < timeout


@contextlib.contextmanager
def command(*words: str):
    """Runs a server as a process; yields it and its client."""
    with subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (line := process.stderr.readline()) or "listening" not in line:
                assert process.poll() is None
            port = int(re.search(r":(\d+)$", line)[1])
            server = Client(port)
            while server.ask("GET", "/health").status != 200:
                time.sleep(0.1)
            yield process, server
        finally:
            process.kill()


@pytest.mark.slow
def test_the_command_serves_ordinary_clients_among_slow_ones_and_ends(run):
    seconds, timeout = 120, 20
    flags = f"--output_dir={run.folder}", "--port=0", f"--timeout={timeout}"
    changes = "--decode_hparams=beam_size=2,extra_length=4"
    with command("-m", "t2t_lite.bin.t2t_serve", *flags, changes) as (process, server):
        with Crowd(server, ordinary=50, readers=20, senders=20) as crowd:
            time.sleep(seconds)
            crowd.stop_ordinary()
            start = time.monotonic()
            process.send_signal(signal.SIGTERM)
            code = process.wait(10 * timeout)
            end = time.monotonic() - start
        print(f"{seconds} s: answers {dict(crowd.answers)}, the slowest in {crowd.slowest:.2f} s")
        print(f"connections of slow clients closed: {dict(crowd.closed)}")
        print(f"ended {end:.2f} s after SIGTERM, exit code {code}")
        assert list(crowd.answers) == [200]
        assert crowd.slowest < timeout
        assert min(crowd.closed["reader"], crowd.closed["sender"]) >= 20
        assert (code, end < timeout) == (0, True)


@pytest.mark.integration
def test_a_worker_that_does_not_end_does_not_hold_the_process():
    code = """
        import logging, time
        from t2t_lite.serving.config import ServerConfig
        from t2t_lite.serving.prometheus import ServerMetrics
        from t2t_lite.serving.served_model import ServedModel
        from t2t_lite.serving.server import serve
        from t2t_lite.serving.worker import Worker

        logging.basicConfig(level=logging.INFO)
        metrics, config = ServerMetrics(), ServerConfig(port=0, timeout=2.0)
        worker = Worker(lambda: lambda *_: time.sleep(600), 9)
        serve(worker, metrics, config, ServedModel("test", 1))
    """
    with (
        command("-c", textwrap.dedent(code)) as (process, server),
        ThreadPoolExecutor() as clients,
    ):
        answer = clients.submit(server.translate, text="a")
        time.sleep(0.2)
        start = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 1
        assert 1.5 < time.monotonic() - start < 10
        assert answer.result()[0] in (503, 504), "its own time is over at about the same moment"
        last = process.stderr.read().splitlines()[-1]
        assert last.endswith("still busy 2 seconds after the signal to end: gave up")
