"""t2t-serve: serves a trained model over HTTP, with a page to try it."""

import dataclasses
import types

from t2t_lite import extras
from t2t_lite.bin.command import Command, checkpoint_name
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import config_flags, from_flags
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.serving.config import ServerConfig

COMMAND = Command(
    "t2t-serve",
    "serves a trained model over HTTP: POST /translate takes requests in its own form and in\n"
    "LibreTranslate's, / is a page to try it, /health and /metrics are for operators. On SIGTERM\n"
    "it answers all requests and exits.",
    [
        "t2t-serve --output_dir=runs/base",
        """curl --json '{"text": "The cat sleeps.", "n_best": 2}' http://127.0.0.1:8080/translate""",
    ],
    config_flags(ServerConfig),
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require_run(args)
    DecodeHParams().override(args.decode_hparams)
    config = from_flags(ServerConfig, args)
    config = dataclasses.replace(config, checkpoint_path=checkpoint_name(args))
    extras.require(extras.SERVE, "t2t-serve")
    with quiet_import():
        from t2t_lite.serving import server
    server.run(config)


if __name__ == "__main__":
    main()
