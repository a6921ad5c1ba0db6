"""Options that select a trained model, shared by all commands that read a run folder."""

import dataclasses

from t2t_lite.settings import Config, setting

OUTPUT_HELP = "Run folder of t2t-trainer."
CHECKPOINT_HELP = (
    "Checkpoint to use: a path in any run folder, or, in --output_dir, newest, best, averaged "
    "(the last one averaged), an update number or a file name (default: newest)."
)


@dataclasses.dataclass(frozen=True)
class TrainedModelConfig(Config):
    """A trained model; empty text means "not given"."""

    output_dir: str = setting("", OUTPUT_HELP, path=True, group="The trained model")
    checkpoint_path: str = setting("", CHECKPOINT_HELP, path=True)
