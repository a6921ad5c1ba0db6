"""Servers on 127.0.0.1 and their clients."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite.serving.bodies import fields_of_json
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.requests import TranslationRequest, checked
from t2t_lite.serving.served_model import ServedModel
from t2t_lite.serving.server import listen, make_server
from t2t_lite.serving.worker import Answerer, Answers, Worker
from t2t_lite.text.languages import ANY, NO_CHOICE, Choice, Languages

BEAMS = 3


def request_of(body: bytes, limits: ServerConfig) -> TranslationRequest:
    """Reads a request from its JSON, or raises as the server answers."""
    return checked(fields_of_json("", body, limits), limits)


class Client:
    """A client of one server; it shares no connections, so that threads may use it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/"

    def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> http.client.HTTPResponse:
        """Returns the answer, with its body as `content`."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": "application/json"} | headers)
            answer = connection.getresponse()
            answer.content = answer.read()
            return answer

    def translate(self, **fields: Any) -> tuple[int, dict[str, Any]]:
        """Returns the status and the JSON of the answer to a translation."""
        answer = self.ask("POST", "/translate", json.dumps(fields).encode())
        return answer.status, json.loads(answer.content)

    def metric(self, name: str) -> float:
        """Returns a number of /metrics; 0: it has none of that name yet."""
        lines = self.ask("GET", "/metrics").content.decode().splitlines()
        found = (float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))
        return next(found, 0.0)

    def wait_for(self, name: str, value: float) -> None:
        """Waits until a number of /metrics has a value."""
        _wait(lambda: self.metric(name) == value)


def _wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


class Gate:
    """An echo that waits until it is opened, and remembers its batches."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.batches: list[list[str]] = []

    def __call__(self, requests: list[TranslationRequest]) -> Answers:
        """Answers once the gate is open."""
        self.batches.append([request.texts[0] for request in requests])
        assert self.opened.wait(30)
        return (yield from echo(requests))

    def wait_for_batch(self) -> None:
        """Waits until there is something to answer."""
        _wait(lambda: self.batches)


def without_pause(answer: Callable[[list[TranslationRequest]], Any]) -> Answerer:
    """Returns an answerer that does all at once."""

    def answers(requests: Sequence[TranslationRequest]) -> Answers:
        yield from ()
        return answer([*requests])

    return answers


def answers_of(
    translator: RequestTranslator,
    requests: list[TranslationRequest],
    pause: Callable[[], object] = lambda: None,
) -> list[Any]:
    """Returns the answers to requests, and calls a function at each pause."""
    found = []

    def ended() -> Iterator[None]:
        found.extend((yield from translator(requests)))

    for _ in ended():
        pause()
    return found


@without_pause
def echo(requests: list[TranslationRequest]) -> list[bytes]:
    """Answers every request with its own texts."""
    return [json.dumps({"texts": request.texts}).encode() for request in requests]


@contextlib.contextmanager
def serve(
    answerer: Answerer = echo,
    languages: Mapping[str, Choice] = NO_CHOICE,
    pair: Languages = ANY,
    **limits: Any,
) -> Iterator[Client]:
    """Serves in a thread, within the block; an echo by default."""
    config = ServerConfig(port=0, **limits)
    metrics = ServerMetrics()
    worker = Worker(lambda: answerer, config.queue_size)
    model = ServedModel("test", BEAMS, languages, pair)
    with listen(config.host, config.port) as listener:
        port = listener.getsockname()[1]
        server = make_server(worker, metrics, config, model, listener)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        worker.start(server.stop)
        try:
            while thread.is_alive() and not (server.started and worker.is_ready):
                time.sleep(0.01)
            yield Client(port)
        finally:
            server.stop()
            thread.join()
            worker.close()
