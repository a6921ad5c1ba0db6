"""The server of `t2t-serve`: listens, loads the model, and shuts down without losing a request."""

import ipaddress
import logging
import os
import resource
import signal
import socket
import sys
import types
from collections.abc import Mapping
from typing import cast

import uvicorn

from t2t_lite.data.problem import Problem
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs.checkpoint_names import named_model
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.app import make_app
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.hosts import allowed_hosts, bracketed
from t2t_lite.serving.prometheus import ServerMetrics
from t2t_lite.serving.protocol import Protocol, WholeRequests
from t2t_lite.serving.request_translator import RequestTranslator
from t2t_lite.serving.served_model import ServedModel
from t2t_lite.serving.worker import Worker
from t2t_lite.text.language_names import require_code
from t2t_lite.text.languages import Choice, Languages, choices, speaking

log = logging.getLogger(__name__)

# Connections that may wait to be accepted, in addition to --max_connections.
_BACKLOG = 128
# Upper bound of the files that a server has open besides its connections.
_OTHER_FILES = 128
# Share of the timeout for answering requests during shutdown; the rest is for the worker, which may
# be busy with a batch.
_GRACE = 0.9
_TICKS = 0.2  # seconds until uvicorn notices the signal and starts to wait


def run(config: ServerConfig) -> None:
    """Serves a trained model until SIGTERM; then answers what it has accepted, and exits."""
    opened, checkpoint = named_model(config.checkpoint_path, config.output_dir)
    hparams = DecodeHParams.of(opened, config.decode_hparams)
    metrics = ServerMetrics()
    worker = Worker(
        lambda: RequestTranslator.load(opened, checkpoint, hparams, metrics, config),
        config.queue_size,
    )
    languages = choices(speaking(opened.encoders, hparams.languages))
    pair = _pair(opened.problem, languages, config)
    model = ServedModel(opened.problem.name, hparams.beam_size, languages, pair)
    serve(worker, metrics, config, model)


def _pair(problem: Problem, languages: Mapping[str, Choice], config: ServerConfig) -> Languages:
    """Returns the codes of a model's languages: those given, else the problem's.

    Raises:
        UsageError: a value is not the code of a language, or is given for a side that has several
            languages.
    """
    given = Languages(config.from_code, config.to_code)
    for flag, side, code in zip(("from_code", "to_code"), Languages._fields, given, strict=True):
        if code:
            require_code(flag, code)
        if code and side in languages:
            raise UsageError(
                f"--{flag}={code}: the model has several {side} languages, which it names itself; "
                "leave the flag out"
            )
    return Languages(
        given.source or problem.source_language, given.target or problem.target_language
    )


def serve(
    worker: Worker,
    metrics: ServerMetrics,
    config: ServerConfig,
    model: ServedModel,
) -> None:
    """Serves until a signal, and ends within the timeout after it.

    Args:
        worker: translates; is started and closed here.
        metrics: the counters to update.
        config: address and limits.
        model: what is served.
    """
    _allow_files(config.max_connections)
    with listen(config.host, config.port, bool(config.api_keys)) as listener:
        server = make_server(worker, metrics, config, model, listener)

        def end(*_: object) -> None:
            _end_within(config.timeout)
            sys.exit()

        worker.start(server.stop)
        try:
            # uvicorn handles SIGTERM while it runs, and raises it again after the last answer.
            signal.signal(signal.SIGTERM, end)
            server.run([listener])
        finally:
            worker.close()
    if worker.failure:
        raise worker.failure


class Server(uvicorn.Server):
    """uvicorn's server, whose process ends in time, whatever its clients and its worker do.

    Args:
        config: uvicorn's settings.
        seconds: maximum time from the signal to the end.
    """

    def __init__(self, config: uvicorn.Config, seconds: float) -> None:
        super().__init__(config)
        self._seconds = seconds

    def stop(self) -> None:
        """Starts the shutdown, in which accepted requests are still answered."""
        self.should_exit = True

    def handle_exit(self, sig: int, frame: types.FrameType | None) -> None:
        """Starts the shutdown at a signal."""
        _end_within(self._seconds)
        super().handle_exit(sig, frame)


def _end_within(seconds: float) -> None:
    """Ends the process after this many seconds at the latest; only the first call counts."""

    def give_up(*_: object) -> None:
        log.error("still busy %g seconds after the signal to end: gave up", seconds)
        logging.shutdown()
        os._exit(UserError.exit_code)

    if signal.getsignal(signal.SIGALRM) is signal.SIG_DFL:
        # Not a thread: starting one in a signal handler can deadlock.
        signal.signal(signal.SIGALRM, give_up)
        signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))  # 0 would cancel the timer


def make_server(
    worker: Worker,
    metrics: ServerMetrics,
    config: ServerConfig,
    model: ServedModel,
    listener: socket.socket,
) -> Server:
    """Returns a server that is ready to run on a socket.

    Args:
        worker: translates.
        metrics: the counters to update.
        config: limits.
        model: what is served.
        listener: the socket.
    """
    metrics.queue_length.set_function(lambda: worker.waiting)
    hosts = allowed_hosts(listener, config.host)
    app = make_app(worker, metrics, config, model, hosts)
    settings = uvicorn.Config(
        WholeRequests(app),
        http=Protocol.limited(config),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        backlog=_BACKLOG,
    )
    # uvicorn's type is int, but it also waits for fractions of a second.
    patience = max(0.0, _GRACE * config.timeout - _TICKS)
    settings.timeout_graceful_shutdown = cast(int, patience)
    return Server(settings, config.timeout)


def _allow_files(max_connections: int) -> None:
    """Ensures that the process may open this many connections.

    Raises:
        UsageError: the system does not allow it.
    """
    needed = max_connections + _BACKLOG + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and needed > hard:
        raise UsageError(
            f"--max_connections={max_connections} needs {needed} open files, but the system allows "
            f"{hard} (ulimit -Hn)"
        )
    if soft != resource.RLIM_INFINITY and needed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def listen(host: str, port: int, needs_key: bool = False) -> socket.socket:
    """Opens the socket, and logs its address.

    Args:
        host: the address to listen on.
        port: the port; 0: any free one.
        needs_key: whether clients need a key.

    Raises:
        UserError: the address or the port cannot be used.
    """
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"--host={host}: {error}: expected the name of this machine or one of its addresses"
        ) from error
    try:
        # For IPv6, the address holds the interface, which a link-local one needs.
        listener = socket.create_server(address, family=family)
    except OSError as error:
        raise UserError(
            f"cannot listen on --host={host} --port={port}: {error}; choose another --port, "
            "or --port=0 for any free one"
        ) from error
    # Connections inherit this; without it the second part of an answer waits for the client to
    # acknowledge the first, which takes Linux 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    log.info("listening on http://%s:%d", bracketed(host), listener.getsockname()[1])
    if not (needs_key or ipaddress.ip_address(address[0]).is_loopback):
        log.warning("anyone who can reach this machine can use the model: --api_keys is not given")
    return listener
