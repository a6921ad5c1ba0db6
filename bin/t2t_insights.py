"""t2t-insights: shows the attention of a trained model as a page, or a picture for papers."""

import dataclasses
import types

from t2t_lite import extras
from t2t_lite.bin.command import Command, checkpoint_name, is_utf8
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import config_flags, from_flags
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.settings import required_settings
from t2t_lite.study.insights.config import HTML, PNG, SVG, InsightsConfig

COMMAND = Command(
    "t2t-insights",
    "shows the attention of a trained model: a self-contained HTML page with every layer\n"
    "and head, or a picture of one layer for a paper.",
    [
        't2t-insights --output_dir=runs/base --text="The cat sleeps."',
        't2t-insights --output_dir=runs/base --text="The cat sleeps." --output_format=svg \\',
        "    --attention=encoder --layer=5 --heads=1,3",
    ],
    config_flags(InsightsConfig),
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    config = configure(args)
    with quiet_import():
        from t2t_lite.study.insights import job
    print(job.run(config))


def configure(args: types.SimpleNamespace) -> InsightsConfig:
    """Turns the flags into the configuration."""
    COMMAND.require(args, *required_settings(InsightsConfig))
    COMMAND.require_run(args)
    for name in ("text", "target"):
        if not is_utf8(getattr(args, name)):
            raise UsageError(f"--{name} is not UTF-8: set the shell's locale to UTF-8")
    DecodeHParams().override(args.decode_hparams)
    for name in ("attention", "layer", "heads"):
        if args.output_format == HTML and getattr(args, name):
            raise UsageError(
                f"--{name} needs --output_format={SVG} or {PNG}: a page shows all layers and heads"
            )
    if args.output_format != HTML:
        extras.require(extras.PLOTS, f"--output_format={args.output_format}")
    config = from_flags(InsightsConfig, args)
    return dataclasses.replace(config, checkpoint_path=checkpoint_name(args))


if __name__ == "__main__":
    main()
