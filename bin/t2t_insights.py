"""t2t-insights: where the heads of a trained model look, as a page or as a picture for papers."""

import dataclasses
import pathlib
import types
from collections.abc import Sequence

from t2t_lite import extras
from t2t_lite.bin.command import (
    REGISTRY_FLAGS,
    RUN_FLAGS,
    Command,
    Flag,
    checkpoint_name,
    is_utf8,
    quiet_import,
)
from t2t_lite.errors import UsageError
from t2t_lite.insights.config import HTML, PNG, SVG, InsightsConfig
from t2t_lite.search.decode_hparams import DecodeHParams

COMMAND = Command(
    "t2t-insights",
    "shows where a trained model looks: one HTML page with every head of every layer, that needs\n"
    "no network; or one layer as a picture for papers.",
    [
        't2t-insights --output_dir=runs/base --text="The cat sleeps."',
        't2t-insights --output_dir=runs/base --text="The cat sleeps." --format=svg '
        "--attention=encoder --layer=5 --heads=1,3",
    ],
    {
        "The trained model": (
            *RUN_FLAGS,
            *REGISTRY_FLAGS,
        ),
        "What it looks at": (
            Flag("text", str, "", "The source, one sentence."),
            Flag("target", str, "", "Its target; what the model makes of --text if not given."),
            Flag(
                "decode_hparams",
                str,
                "",
                "Search settings, as of t2t-decoder, for a target that is not given.",
            ),
        ),
        "What becomes of it": (
            Flag(
                "output_file",
                pathlib.Path,
                "",
                "File to write; if not given: OUTPUT_DIR/insights.FORMAT.",
            ),
            Flag(
                "format",
                str,
                HTML,
                "A page with everything, or a picture of one layer (svg, png: pip install "
                "'t2t_lite[plots]').",
                choices=(HTML, SVG, PNG),
            ),
            Flag(
                "attention",
                str,
                None,
                "What a picture shows; encoder_decoder if not given.",
                choices=("encoder", "decoder", "encoder_decoder"),
            ),
            Flag(
                "layer", int, None, "Layer of a picture, from 1; the last if not given.", minimum=1
            ),
            Flag("heads", str, "", "Heads in a picture, from 1: 1,3; all if not given."),
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    config = configure(args)
    with quiet_import():
        from t2t_lite.insights import job
    print(job.run(config))


def configure(args: types.SimpleNamespace) -> InsightsConfig:
    """Turns the flags into the configuration.

    Raises:
        UsageError: a flag is missing, or goes with another format.
        UserError: a package is missing.
    """
    COMMAND.require(args, "text")
    COMMAND.require_run(args)
    for name in ("text", "target"):
        if not is_utf8(getattr(args, name)):
            raise UsageError(f"--{name} is not UTF-8: the shell's words must be")
    DecodeHParams().override(args.decode_hparams)
    for name in ("attention", "layer", "heads"):
        if args.format == HTML and getattr(args, name):
            raise UsageError(
                f"--{name} goes with --format={SVG} or {PNG}: a page shows all, and lets you choose"
            )
    if args.format != HTML:
        extras.require(extras.PLOTS, f"--format={args.format}")
    values = vars(args) | {"checkpoint_path": checkpoint_name(args)}
    return InsightsConfig(**{f.name: values[f.name] for f in dataclasses.fields(InsightsConfig)})


if __name__ == "__main__":
    main()
