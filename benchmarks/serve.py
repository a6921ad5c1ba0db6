"""Throughput and latency of t2t-serve, compared with CTranslate2 behind the same server.

    pip install -e '.[bench,serve]'
    python benchmarks/serve.py --text=newstest2013.en --vocab_text=newstest2012.en,...

The servers run at the same time, and are used in turns. They have the same weights, HTTP layer,
queue and batching (t2t_lite/serving); their workers translate with our decoder, in float32 and in
bfloat16, with our decoder around CTranslate2 (`--engine=ctranslate2`), and with CTranslate2's own
Python API, each in float32 and in int8. 1, 8 and 50 clients each send one sentence after the other.
A turn lasts until all requests that were sent within `--seconds` are answered. Ratios compare
requests per second; latencies are over all rounds. The weights are those of
`decode_throughput.py`, and `small` is a model of 128 features.

A last case has a quiet client, which sends one sentence after the other to t2t-serve, alone and
beside a hostile one, which sends one after the other what costs most. The quiet client should wait
for at most one slice: as long as it takes to translate as much as is translated together. With
`--hostile` this is the only case, for each number of clients.
"""

import collections
import concurrent.futures
import contextlib
import functools
import http.client
import importlib.util
import itertools
import json
import multiprocessing
import pathlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import decoding_contenders as contenders
import decoding_work
import numpy as np
import pairing
import report
from decoding_work import Work
from machine import count

from t2t_lite.serving.requests import MOST_TOGETHER

SIZES = {"base": "transformer_base", "small": "transformer_tiny"}
CLIENTS = (1, 8, 50)
OURS, PEER = "t2t-serve", "CTranslate2"
ENGINE = f"{OURS}, engine"
FLOAT32, INT8 = "float32", "int8"
BARS = {8: 0.9, 50: 1.0}
TO_ITSELF = 0.95  # required speed of the engine over CTranslate2's own Python API
TIMEOUT = 600.0  # seconds, of a request


class Turn(NamedTuple):
    """What some clients measured."""

    seconds: float  # until the last answer
    latencies: list[float]  # seconds of each request
    tokens: int  # of all answers

    @property
    def per_request(self) -> float:
        """Seconds, the inverse of the throughput."""
        return self.seconds / len(self.latencies)


# ---- the servers


def serve_ours(hparams: str, work: Work, port: int, **engine: str) -> None:
    """Does what t2t-serve does."""
    from t2t_lite.serving import server
    from t2t_lite.serving.config import ServerConfig

    contenders.search_as_ctranslate2(engine)
    search = contenders.our_hparams(work, hparams)
    run_dir = str(work.run_dir)
    config = ServerConfig(
        output_dir=run_dir, decode_hparams=search, port=port, timeout=TIMEOUT, **engine
    )
    server.run(config)


def serve_ctranslate2(quantization: str, work: Work, port: int) -> None:
    """The same server around CTranslate2."""
    from t2t_lite.serving import server
    from t2t_lite.serving.config import ServerConfig
    from t2t_lite.serving.prometheus import ServerMetrics
    from t2t_lite.serving.requests import TranslationRequest
    from t2t_lite.serving.served_model import ServedModel
    from t2t_lite.serving.worker import Answerer, Answers, Worker

    def load() -> Answerer:
        peer = contenders.CTranslate2(work, quantization)

        def answer(requests: Sequence[TranslationRequest]) -> Answers:
            yield from ()  # no pause
            lines = [text for request in requests for text in request.texts]
            found = iter(peer.translate(lines))
            return [
                json.dumps([next(found) for _ in request.texts]).encode() for request in requests
            ]

        return answer

    config = ServerConfig(port=port, timeout=TIMEOUT)
    model = ServedModel("", work.beam_size)
    server.serve(Worker(load, config.queue_size), ServerMetrics(), config, model)


SERVERS: dict[str, Callable[[Work, int], None]] = {
    OURS: functools.partial(serve_ours, ""),
    f"{OURS} bfloat16": functools.partial(serve_ours, "dtype=bfloat16"),
    **{
        f"{ENGINE} {kind}": functools.partial(
            serve_ours, "", engine="ctranslate2", compute_type=kind
        )
        for kind in (FLOAT32, INT8)
    },
    **{f"{PEER} {kind}": functools.partial(serve_ctranslate2, kind) for kind in (FLOAT32, INT8)},
}


class Server(NamedTuple):
    """A running server."""

    process: BaseProcess
    port: int

    @property
    def peak(self) -> float:
        """Its peak resident memory in MiB (Linux)."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) / 1024


@contextlib.contextmanager
def running(work: Work, names: Sequence[str]) -> Iterator[dict[str, Server]]:
    """Starts the servers of these names, and ends them."""
    context = multiprocessing.get_context("spawn")
    servers = {}
    try:
        for name in names:
            port = free_port()
            servers[name] = Server(context.Process(target=SERVERS[name], args=(work, port)), port)
            servers[name].process.start()
        for name, server in servers.items():
            wait_until_ready(name, server)
        yield servers
    finally:
        for server in servers.values():
            server.process.terminate()  # SIGTERM: it ends as t2t-serve does
            server.process.join()


def free_port() -> int:
    """Returns a port that no program listens at."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_until_ready(name: str, server: Server) -> None:
    """Waits until the model is loaded.

    Raises:
        RuntimeError: the server has ended.
    """
    while server.process.is_alive():
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port)) as client:
            try:
                client.request("GET", "/health")
                if client.getresponse().status == 200:
                    return
            except ConnectionError:  # not yet listening
                pass
        time.sleep(0.1)
    raise RuntimeError(f"{name} has ended; see its error above")


# ---- the clients


def drive(port: int, lines: Sequence[str], tokens: Sequence[int], clients: int, seconds: float):
    """Sends lines, one after the other from each client.

    Args:
        port: the server's.
        lines: the texts, which are repeated as needed.
        tokens: of the answer to each line.
        clients: how many.
        seconds: when to stop sending.
    """
    numbers = itertools.count()
    start = time.perf_counter()

    def client() -> list[tuple[int, float]]:
        done = []
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            while (sent := time.perf_counter()) < start + seconds:
                number = next(numbers) % len(lines)
                ask(connection, lines[number])
                done.append((number, time.perf_counter() - sent))
        return done

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        waiting = [pool.submit(client) for _ in range(clients)]
        done = list(itertools.chain(*(one.result() for one in waiting)))
    taken = time.perf_counter() - start
    return Turn(taken, [latency for _, latency in done], sum(tokens[n] for n, _ in done))


def ask(connection: http.client.HTTPConnection, line: str) -> None:
    """Has one line translated.

    Raises:
        RuntimeError: the server refuses it.
    """
    status, text = post(connection, {"text": line})
    if status != 200:
        raise RuntimeError(f"a server answered {status}: {text}")


def post(connection: http.client.HTTPConnection, fields: dict[str, Any]) -> tuple[int, str]:
    """Returns the status and the text of the answer to a request."""
    body = json.dumps(fields)
    connection.request("POST", "/translate", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def hostile_requests(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields requests that cost most within the limits, or are just beyond them."""
    texts = [*itertools.islice(itertools.cycle(lines), 512)]
    words = sorted({word for line in lines for word in line.split()})[:100]
    yield {"texts": [" ".join(texts[n : n + 4]) for n in range(0, 512, 4)]}  # of several slices
    yield {"text": " ".join(texts)[:10_000]}
    yield {"texts": texts[:128], "terms": {word: (word * 99)[:99] for word in words}}
    yield {"text": lines[0], "terms": {lines[0].split()[0]: "a " * 1000}}
    yield {"text": "<b>a</b> " * 1000, "markup": "html"}
    yield {"text": f"<b>{'a' * 2400}</b>", "markup": "html"}
    yield {"text": "<!--" * 2400, "markup": "html"}


@contextlib.contextmanager
def hostile_client(port: int, lines: Sequence[str]) -> Iterator[collections.Counter[int]]:
    """Sends hostile requests meanwhile; yields how often each status was answered."""
    statuses: collections.Counter[int] = collections.Counter()
    is_over = threading.Event()

    def send() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        with contextlib.closing(connection):
            for fields in itertools.cycle(hostile_requests(lines)):
                if is_over.is_set():
                    return
                statuses[post(connection, fields)[0]] += 1

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        sending = pool.submit(send)
        try:
            yield statuses
        finally:
            is_over.set()
        sending.result()


# ---- the comparison


def compare(
    servers: dict[str, Server], work: Work, clients: int, rounds: int, seconds: float
) -> dict[str, list[Turn]]:
    """Returns the turns of each server, after one that does not count."""
    tokens = decoding_work.target_tokens(work)
    turns: dict[str, list[Turn]] = {name: [] for name in servers}
    for _ in range(1 + rounds):
        for name, server in servers.items():
            turns[name].append(drive(server.port, work.lines, tokens, clients, seconds))
    return {name: measured[1:] for name, measured in turns.items()}


def result(
    size: str, clients: int, turns: dict[str, list[Turn]], peak: dict[str, float]
) -> report.Case:
    """Returns what to report of one number of clients."""
    seconds = {name: [turn.per_request for turn in measured] for name, measured in turns.items()}
    figures = []
    for name, measured in turns.items():
        rate = float(np.median([turn.tokens / turn.seconds for turn in measured]))
        latencies = [latency for turn in measured for latency in turn.latencies]
        figures.append(report.Figure(f"{name}, throughput", rate, "target tokens/s"))
        figures += [
            report.Figure(f"{name}, latency p{p}", float(np.percentile(latencies, p)), "s")
            for p in (50, 99)
        ]
    bars = [
        report.Bar(OURS, f"{PEER} {FLOAT32}", BARS.get(clients)),
        report.Bar(f"{OURS} bfloat16", f"{PEER} {FLOAT32}"),
    ]
    least = TO_ITSELF if clients in BARS else None
    bars += [report.Bar(f"{ENGINE} {kind}", f"{PEER} {kind}", least) for kind in (FLOAT32, INT8)]
    chosen = tuple(bar for bar in bars if bar.name in turns and bar.other in turns)
    found = pairing.Comparison(seconds, peak)
    return report.Case(
        f"{size}, {count(clients, 'client')}", found, chosen, tuple(figures), 1, "requests"
    )


def beside_hostile(
    server: Server, work: Work, clients: int, rounds: int, seconds: float
) -> tuple[list[Turn], list[Turn], collections.Counter[int], float]:
    """Has quiet clients ask, alone and beside a hostile one, after a round that does not count.

    Returns:
        Their turns alone, and beside the other; the statuses that the other was answered; and the
        seconds that a slice takes alone.
    """
    tokens = decoding_work.target_tokens(work)
    quiet = functools.partial(drive, server.port, work.lines, tokens, clients, seconds)
    alone, beside, statuses, slices = [], [], collections.Counter(), []
    for _ in range(1 + rounds):
        alone.append(quiet())
        slices.append(slice_seconds(server.port, work.lines))
        with hostile_client(server.port, work.lines) as answered:
            beside.append(quiet())
        statuses += answered
    return alone[1:], beside[1:], statuses, float(np.median(slices[1:]))


def slice_seconds(port: int, lines: Sequence[str]) -> float:
    """Returns how long the answer to a request of one slice takes."""
    texts = [*itertools.islice(itertools.cycle(lines), 128)]  # of a request
    sizes = itertools.accumulate(map(len, texts))
    whole = [text for text, size in zip(texts, sizes, strict=True) if size <= MOST_TOGETHER]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    with contextlib.closing(connection):
        start = time.perf_counter()
        status, text = post(connection, {"texts": whole})
        if status != 200:
            raise RuntimeError(f"a server answered {status}: {text}")
        return time.perf_counter() - start


def hostile_result(
    size: str,
    clients: int,
    peak: float,
    alone: Sequence[Turn],
    beside: Sequence[Turn],
    statuses: collections.Counter[int],
    slice_: float,
) -> report.Case:
    """Returns what to report of the quiet clients."""
    figures = [
        report.Figure("peak memory", peak, "MiB"),
        report.Figure("a slice: 16,384 characters", slice_, "s"),
    ]
    usual = 0.0
    for name, turns in (("alone", alone), ("beside a hostile client", beside)):
        latencies = [latency for turn in turns for latency in turn.latencies]
        usual = usual or float(np.median(latencies))
        figures += [
            report.Figure(f"{name}, latency p{p}", float(np.percentile(latencies, p)), "s")
            for p in (50, 99, 100)
        ]
    waited = (figures[-1].value - usual) / slice_
    most = 1.0 if clients == 1 else None  # several wait for one another, too
    figures.append(report.Figure("longest wait for the hostile client", waited, "slices", most))
    failed = sum(number for status, number in statuses.items() if status in (500, 503, 504))
    figures.append(report.Figure("requests of the hostile client", statuses.total(), "answers"))
    figures.append(report.Figure("of these, not answered as they should be", failed, "answers", 0))
    case = f"{size}, {count(clients, 'quiet client')} beside a hostile one"
    return report.Case(case, figures=tuple(figures))


def main() -> None:
    """Prints the tables."""
    parser = report.parser(__doc__, rounds=3, seconds=20.0)
    add = parser.add_argument
    add("--sizes", nargs="+", choices=SIZES, default=["base"], help="of the model (base)")
    add("--clients", type=int, nargs="+", default=list(CLIENTS), help="(1 8 50)")
    add("--hostile", action="store_true", help="only clients beside a hostile one")
    decoding_work.add_flags(parser, sentences=512)
    args = parser.parse_args()
    if not importlib.util.find_spec("ctranslate2"):
        parser.error("needs CTranslate2: pip install -e '.[bench,serve]'")
    with report.opened(args) as add_case:
        for size in args.sizes:
            with tempfile.TemporaryDirectory() as folder:
                work = decoding_work.prepare(pathlib.Path(folder), SIZES[size], args)
                with running(work, [OURS] if args.hostile else [*SERVERS]) as servers:
                    for clients in [] if args.hostile else args.clients:
                        turns = compare(servers, work, clients, args.rounds, args.seconds)
                        peak = {name: server.peak for name, server in servers.items()}
                        add_case(result(size, clients, turns, peak))
                    ours = servers[OURS]
                    for clients in args.clients if args.hostile else [1]:
                        found = beside_hostile(ours, work, clients, args.rounds, args.seconds)
                        add_case(hostile_result(size, clients, ours.peak, *found))


if __name__ == "__main__":
    main()
