"""What `t2t-serve` does: listens, loads, and ends without losing a request."""

import ipaddress
import logging
import pathlib
import signal
import socket
import sys

import uvicorn

from t2t_lite import run_folder
from t2t_lite.decoding.decode_hparams import DecodeHParams
from t2t_lite.errors import UserError
from t2t_lite.serving.app import make_app
from t2t_lite.serving.config import ServerConfig
from t2t_lite.serving.metrics import Metrics
from t2t_lite.serving.protocol import Protocol
from t2t_lite.serving.translator import Translator
from t2t_lite.serving.worker import Worker

log = logging.getLogger(__name__)


def run(config: ServerConfig) -> None:
    """Serves a trained model until SIGTERM; then answers what it has accepted, and exits.

    Raises:
        UserError: the run folder or a checkpoint cannot be read, or the address is not free.
        UsageError: an unknown decode hparam.
    """
    folder = config.output_dir or str(pathlib.Path(config.checkpoint_path).parent)
    opened = run_folder.open_run(folder)
    hparams = DecodeHParams.of(opened.problem, config.decode_hparams)
    metrics = Metrics()
    worker = Worker(
        lambda: Translator.load(opened, config.checkpoint_path, hparams, metrics, config),
        config.queue_size,
    )
    metrics.queue_length.set_function(lambda: worker.waiting)
    about = {"problem": opened.problem.name, "beam_size": hparams.beam_size}
    app = make_app(worker, metrics, config, about)
    server = uvicorn.Server(
        uvicorn.Config(
            app, http=Protocol, lifespan="off", ws="none", log_config=None, access_log=False
        )
    )

    def stop() -> None:
        server.should_exit = True

    with _listen(config.host, config.port) as listener:
        # uvicorn handles SIGTERM while it runs, and raises it again when all is answered.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        worker.start(stop)
        try:
            server.run([listener])
        finally:
            worker.close()
    if worker.failure:
        raise worker.failure


def _listen(host: str, port: int) -> socket.socket:
    """Opens the socket, and says where it is."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise UserError(
            f"cannot listen on --host={host} --port={port}: {error}; name another --port, "
            "or --port=0 for any that is free"
        ) from error
    name = f"[{host}]" if ":" in host else host
    log.info("listening on http://%s:%d", name, listener.getsockname()[1])
    if not ipaddress.ip_address(address[0]).is_loopback:
        log.warning("anybody who can reach this machine can use the model: there is no password")
    return listener
