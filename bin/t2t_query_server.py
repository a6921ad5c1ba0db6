"""t2t-query-server: sends lines to an exported model in TensorFlow Serving."""

import os
import pathlib
import sys
import types

from t2t_lite import registry
from t2t_lite.bin.command import Command
from t2t_lite.bin.flag import Flag
from t2t_lite.text.text_files import bounded_lines, decoded_lines

COMMAND = Command(
    "t2t-query-server",
    "sends lines from standard input to an exported model in TensorFlow Serving, over\n"
    "REST. Prints the output, a tab and its score; with return_beams, all hypotheses.",
    [
        "t2t-query-server --server=localhost:8501 --servable_name=translate < in.en",
        "t2t-query-server --server=localhost:8501 --servable_name=ids --problem=wsj_parsing \\",
        "    --data_dir=runs/parser --inputs_once='A sentence .'",
    ],
    {
        "The server": (
            Flag("server", str, "", "HOST:PORT of the REST interface, or its URL."),
            Flag("servable_name", str, "", "Name of the model on the server."),
            Flag("timeout_secs", int, 10, "Seconds to wait for an answer.", minimum=1),
        ),
        "What to ask": (
            Flag("inputs_once", str, None, "Send only this line, which may be empty."),
            Flag(
                "problem",
                str,
                "",
                "Problem that the model was trained on, for an export from ids/, which needs text "
                "encoded here. An export from translate/ needs none.",
            ),
            Flag(
                "data_dir",
                pathlib.Path,
                "",
                "Folder of the problem's vocabulary, such as a run folder.",
            ),
        ),
    },
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    from t2t_lite.interop.export.query_client import Client

    COMMAND.require(args, "server", "servable_name")
    problem = None
    if args.problem:
        COMMAND.require(args, "data_dir")
        problem = registry.problem(args.problem)
    client = Client(args.server, args.servable_name, args.timeout_secs, problem, args.data_dir)
    if args.inputs_once is not None:
        lines = decoded_lines([os.fsencode(args.inputs_once)], "--inputs_once")
    else:
        lines = decoded_lines(bounded_lines(sys.stdin.buffer, "standard input"), "standard input")
    for line in lines:
        answers = client.ask(line)
        print("\t".join(f"{a.text}\t{a.score:.3f}" for a in answers), flush=True)


if __name__ == "__main__":
    main()
