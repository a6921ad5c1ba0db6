"""t2t-score-pairs: scores training pairs by a model of each direction, for t2t-datagen --clean."""

import types

from t2t_lite import registry
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import config_flags, from_flags
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.study.distillation.scores_config import ScoresConfig

_ENGINE = tuple(
    flag
    for flag in config_flags(DecoderConfig)["Search"]
    if flag.name in ("engine", "compute_type", "worker_gpu")
)

COMMAND = Command(
    "t2t-score-pairs",
    "scores the training pairs of a problem by how likely a model of each direction finds\n"
    "them, so that t2t-datagen --clean can drop the wrong ones. A killed run continues where it\n"
    "stopped.",
    [
        "t2t-score-pairs --problem=translate_ende_wmt32k --tmp_dir=raw --forward=runs/ende \\\n"
        "      --backward=runs/deen --pair_scores=scores.txt",
        "t2t-datagen --problem=translate_ende_wmt32k --tmp_dir=raw --data_dir=data \\\n"
        "      --pair_scores=scores.txt --clean=best_share=0.8",
    ],
    {**config_flags(ScoresConfig), "Engine": _ENGINE},
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    COMMAND.require(args, "problem", "forward", "backward", "pair_scores")
    config = from_flags(ScoresConfig, args)
    registry.problem(args.problem)
    search = DecoderConfig(**{flag.name: getattr(args, flag.name) for flag in _ENGINE})
    with quiet_import():
        from t2t_lite.study.distillation import scores_job
    scores_job.run(config, search)


if __name__ == "__main__":
    main()
