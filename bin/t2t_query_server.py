"""t2t-query-server: asks a TensorFlow Serving server for the outputs of an exported model."""

import os
import pathlib
import sys
import types
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag
from t2t_lite.text.text_files import bounded_lines, decoded_lines

COMMAND = Command(
    "t2t-query-server",
    "asks a server for outputs, line by line from standard input: TensorFlow Serving, by REST,\n"
    "with a model of t2t-exporter. Prints output, tab and score; with return_beams, all of them.",
    [
        "t2t-query-server --server=localhost:8501 --servable_name=translate < in.en",
        "t2t-query-server --server=localhost:8501 --servable_name=ids --problem=wsj_parsing "
        "--data_dir=runs/parser --inputs_once='A sentence .'",
    ],
    {
        "The server": (
            Flag("server", str, "", "Host and port of its REST interface, or a URL with them."),
            Flag("servable_name", str, "", "What the server calls the model."),
            Flag("timeout_secs", int, 10, "Seconds to wait for an answer.", minimum=1),
        ),
        "What to ask": (
            Flag("inputs_once", str, "", "Ask for this line alone."),
            Flag(
                "problem",
                str,
                "",
                "For a model of the kind ids: the problem that it was trained for, by whose "
                "vocabulary text becomes ids here. A model of the kind translate needs none.",
            ),
            Flag("data_dir", pathlib.Path, "", "Folder of that vocabulary, such as a run folder."),
            *REGISTRY_FLAGS,
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    from t2t_lite.export.query import Client

    COMMAND.require(args, "server", "servable_name")
    problem = None
    if args.problem:
        COMMAND.require(args, "data_dir")
        problem = registry.problem(args.problem)
    client = Client(args.server, args.servable_name, args.timeout_secs, problem, args.data_dir)
    if args.inputs_once:
        lines = decoded_lines([os.fsencode(args.inputs_once)], "--inputs_once")
    else:
        lines = decoded_lines(bounded_lines(sys.stdin.buffer, "standard input"), "standard input")
    for line in lines:
        answers = client.ask(line)
        print("\t".join(f"{a.text}\t{a.score:.3f}" for a in answers), flush=True)


if __name__ == "__main__":
    main()
