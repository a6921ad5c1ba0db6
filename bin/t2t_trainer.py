"""t2t-trainer: trains a model on a problem's data and evaluates it as it goes."""

import logging
import pathlib
import types

from t2t_lite import extras, registry
from t2t_lite.bin import hparams_page, t2t_datagen
from t2t_lite.bin.command import Command
from t2t_lite.bin.console import quiet_import
from t2t_lite.bin.flag import Flag, config_flags, from_flags
from t2t_lite.data.generation.config import TMP_DIR, DatagenOptions
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UsageError
from t2t_lite.interop.t2t.metrics import value_named
from t2t_lite.metrics.parts import parts_of
from t2t_lite.runs.selection import Criterion
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.settings import required_settings
from t2t_lite.training import callbacks
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.tuning.config import TuningConfig

log = logging.getLogger(__name__)

COMMAND = Command(
    "t2t-trainer",
    "trains a model on the data that t2t-datagen wrote, evaluating as it goes.\n"
    "If --output_dir holds a run, training resumes from its newest checkpoint.\n"
    "On SIGTERM it finishes the step, saves, and exits with code 75; on Ctrl-C, with code 130.",
    [
        "t2t-trainer --problem=translate_ende_wmt32k --model=transformer \\",
        "    --hparams_set=transformer_base --data_dir=data --output_dir=runs/base",
        "t2t-trainer ... --hparams=batch_size=2048,learning_rate_warmup_steps=16000",
    ],
    config_flags(
        TrainerConfig,
        {
            "What to train": (
                Flag(
                    "help_hparams",
                    bool,
                    False,
                    "Print the values of --hparams_set with their meanings, and exit.",
                ),
            ),
            "Where": (
                Flag("generate_data", bool, False, "Run t2t-datagen for the problem first."),
                Flag(
                    "tmp_dir",
                    pathlib.Path,
                    TMP_DIR,
                    "Folder of raw files for --generate_data.",
                ),
            ),
            "Planning": (
                Flag(
                    "find_batch_size",
                    bool,
                    False,
                    "Find the largest batch_size that fits in memory and train with it. A resumed "
                    "run keeps its own.",
                ),
                Flag(
                    "dry_run",
                    bool,
                    False,
                    "Check all data, measure the memory and time of training steps, print what the "
                    "run will need, and exit. The run folder is not changed.",
                ),
            ),
        },
    )
    | config_flags(TuningConfig),
)


@COMMAND.main
def main(args: types.SimpleNamespace) -> None:
    """Runs the command."""
    if args.help_hparams:
        COMMAND.require(args, "hparams_set")
        print(hparams_page.describe(args.hparams_set, args.hparams))
        return
    config, tuning = configure(args), configure_search(args)
    if args.generate_data:
        COMMAND.require(args, "tmp_dir")
        names = t2t_datagen.select_problems(config.problem)
        t2t_datagen.generate(names, config.data_dir, args.tmp_dir, DatagenOptions())
    elif args.tmp_dir != TMP_DIR:
        log.info("--tmp_dir has no effect without --generate_data")
    with quiet_import():
        from t2t_lite.training import trainer
        from t2t_lite.training.preflight import batch_size, dry_run
    if tuning.hparams_range:
        with quiet_import():
            from t2t_lite.training.tuning import search
        print(search.run(config, tuning, args.t2t_usr_dir), end="")
        return
    if args.find_batch_size:
        config = batch_size.with_found_batch_size(config, args.t2t_usr_dir)
    if args.dry_run:
        dry_run.dry_run(config, args.t2t_usr_dir)
    else:
        trainer.run(config)


def configure(args: types.SimpleNamespace) -> TrainerConfig:
    """Turns the flags into the trainer's configuration, after checking its names."""
    COMMAND.require(args, *required_settings(TrainerConfig))
    problem = registry.problem(args.problem)
    registry.require_model(args.model)
    registry.hparams(args.hparams_set).override(args.hparams)
    for part in parts_of(problem, DatasetSplit.EVAL):
        part.check()
    for name in (args.best_metric, args.eval_early_stopping_metric):
        Criterion.named(name, problem)
    DecodeHParams().override(args.decode_hparams)
    for name in callbacks.split(args.callbacks):
        registry.callback(name)
    return from_flags(TrainerConfig, args)


def configure_search(args: types.SimpleNamespace) -> TuningConfig:
    """Turns the flags into the settings of a search, after checking its names."""
    objective = value_named(args.autotune_objective, args.problem)
    named = types.SimpleNamespace(**vars(args) | {"autotune_objective": objective})
    config = from_flags(TuningConfig, named)
    if config.hparams_range:
        extras.require(extras.TUNE, "--hparams_range")
        registry.ranged_hparams(config.hparams_range)
        Criterion.named(objective, registry.problem(args.problem))
        for name in ("find_batch_size", "dry_run"):
            if getattr(args, name):
                raise UsageError(f"--{name} is for one training: omit it, or --hparams_range")
    return config


if __name__ == "__main__":
    main()
