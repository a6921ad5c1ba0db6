"""t2t-serve: a trained model behind HTTP, with a page to try it."""

import dataclasses
import types
from collections.abc import Sequence

from t2t_lite import extras
from t2t_lite.bin.command import (
    REGISTRY_FLAGS,
    RUN_FLAGS,
    Command,
    Flag,
    checkpoint_name,
    quiet_import,
)
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig

_DEFAULT = ServerConfig()
_LAST_PORT = 65535

COMMAND = Command(
    "t2t-serve",
    "serves a trained model by HTTP: POST /translate takes and gives JSON, / is a page to try it,\n"
    "/health and /metrics are for those who run it. SIGTERM ends it when all is answered.",
    [
        "t2t-serve --output_dir=runs/base",
        """curl --json '{"text": "The cat sleeps.", "n_best": 2}' http://127.0.0.1:8080/translate""",
    ],
    {
        "The trained model": (
            *RUN_FLAGS,
            Flag(
                "decode_hparams",
                str,
                "",
                "Search settings, as of t2t-decoder; beam_size is the most that n_best may be.",
            ),
            *REGISTRY_FLAGS,
        ),
        "Where": (
            Flag(
                "host",
                str,
                _DEFAULT.host,
                "Address to listen on; 0.0.0.0 lets all others on the network in.",
            ),
            Flag("port", int, _DEFAULT.port, "Port to listen on; 0: any that is free.", minimum=0),
        ),
        "Limits": (
            Flag(
                "max_body_size",
                int,
                _DEFAULT.max_body_size,
                "Bytes of a request; more is answered 413.",
                minimum=1,
            ),
            Flag(
                "max_texts",
                int,
                _DEFAULT.max_texts,
                "Texts of a request; more are answered 413.",
                minimum=1,
            ),
            Flag(
                "max_text_length",
                int,
                _DEFAULT.max_text_length,
                "Characters of a text; more are answered 413.",
                minimum=1,
            ),
            Flag(
                "max_subwords",
                int,
                _DEFAULT.max_subwords,
                "Subwords of all texts of a request; more are answered 413.",
                minimum=1,
            ),
            Flag(
                "queue_size",
                int,
                _DEFAULT.queue_size,
                "Requests that may wait; further ones are answered 429.",
                minimum=1,
            ),
            Flag(
                "max_connections",
                int,
                _DEFAULT.max_connections,
                "Connections open at a time; for one more, the one that has kept the server "
                "waiting longest is closed; if none has for a second, the new one is answered 503.",
                minimum=1,
            ),
            Flag(
                "timeout",
                float,
                _DEFAULT.timeout,
                "Seconds that a request may take: to arrive (then 408), to be answered (then 504) "
                "and its answer to be read (then the connection is closed); also the longest that "
                "the server takes to end.",
                minimum=0,
            ),
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    COMMAND.require_run(args)
    if args.port > _LAST_PORT:
        raise UsageError(f"--port={args.port}: the last port is {_LAST_PORT}")
    DecodeHParams().override(args.decode_hparams)
    values = vars(args) | {"checkpoint_path": checkpoint_name(args)}
    config = ServerConfig(**{f.name: values[f.name] for f in dataclasses.fields(ServerConfig)})
    extras.require(extras.SERVE, "t2t-serve")
    with quiet_import():
        from t2t_lite.serving import server
    server.run(config)


if __name__ == "__main__":
    main()
