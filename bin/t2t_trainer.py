"""t2t-trainer: trains a model on a problem's data and evaluates it as it goes."""

import dataclasses
import pathlib
import types
from collections.abc import Sequence

from t2t_lite import registry
from t2t_lite.bin import t2t_datagen
from t2t_lite.bin.command import REGISTRY_FLAGS, Command, Flag, quiet_import
from t2t_lite.checkpoints.selection import Metric
from t2t_lite.errors import UsageError
from t2t_lite.generation.config import DatagenOptions
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training.config import SCHEDULES, TrainerConfig

COMMAND = Command(
    "t2t-trainer",
    "trains a model on the data that t2t-datagen made, evaluating as it goes.\n"
    "Started again with the same --output_dir, it goes on from the newest checkpoint there.\n"
    "SIGTERM lets it finish its step, save, and exit with code 75; so does Ctrl-C, with code 130.",
    [
        "t2t-trainer --problem=translate_ende_wmt32k --model=transformer \\",
        "    --hparams_set=transformer_base --data_dir=data --output_dir=runs/base",
        "t2t-trainer ... --hparams=batch_size=2048,learning_rate_warmup_steps=16000",
    ],
    {
        "What to train": (
            Flag("problem", str, "", "Name of the problem; name_rev exchanges its two sides."),
            Flag("model", str, "", "Name of the model."),
            Flag("hparams_set", str, "", "Name of the hyperparameter set."),
            Flag("hparams", str, "", "Changes to that set: name=value, with commas between them."),
            *REGISTRY_FLAGS,
        ),
        "Where": (
            Flag("data_dir", pathlib.Path, "", "Folder of t2t-datagen's files."),
            Flag(
                "accept_changed_data",
                bool,
                False,
                "Go on although the training files are not those of the newest checkpoint any "
                "more: with its weights and optimizer, and the data from the beginning.",
            ),
            Flag(
                "output_dir",
                pathlib.Path,
                "",
                "Run folder: checkpoints, hparams, metrics. Made if missing.",
            ),
            Flag(
                "warm_start_from",
                pathlib.Path,
                "",
                "Run folder or checkpoint whose weights a new run begins with, as far as names "
                "and shapes agree; a run that goes on takes no notice.",
            ),
            Flag("generate_data", bool, False, "Run t2t-datagen for the problem first."),
            Flag("tmp_dir", pathlib.Path, "/tmp/t2t_datagen", "Its folder of raw files."),
        ),
        "Before training": (
            Flag(
                "find_batch_size",
                bool,
                False,
                "Try how large batch_size may be until memory runs out, and train with that; a run "
                "that goes on keeps its own.",
            ),
            Flag(
                "dry_run",
                bool,
                False,
                "Check all data, measure memory and time of training steps, print what the run "
                "will take, and stop; the run folder is left alone.",
            ),
        ),
        "How long": (
            Flag("train_steps", int, 250000, "Updates in all, resumed ones included.", minimum=1),
            Flag(
                "train_minutes",
                float,
                0.0,
                "Save and stop after so many minutes of training, if the steps last longer; "
                "0: no limit.",
                minimum=0,
            ),
        ),
        "Evaluation and checkpoints": (
            Flag(
                "schedule",
                str,
                "continuous_train_and_eval",
                "Train and evaluate by turns, train only, or evaluate the newest checkpoint.",
                choices=SCHEDULES,
            ),
            Flag(
                "local_eval_frequency",
                int,
                1000,
                "Updates between checkpoints, each of which is evaluated.",
                minimum=1,
            ),
            Flag(
                "save_checkpoints_secs",
                int,
                0,
                "Seconds between checkpoints; 0: --local_eval_frequency decides.",
                minimum=0,
            ),
            Flag("keep_checkpoint_max", int, 20, "Newest checkpoints to keep.", minimum=1),
            Flag(
                "keep_best_max",
                int,
                1,
                "Checkpoints with the best evaluations to keep as well, as best.ckpt-STEP.",
                minimum=0,
            ),
            Flag(
                "best_metric",
                str,
                "",
                "By which number of an evaluation in metrics.jsonl they are the best: bleu, loss, "
                "accuracy and the like; the problem's own (bleu or bracketing_f1) if not given.",
            ),
            Flag(
                "eval_early_stopping_steps",
                int,
                None,
                "Stop when the evaluations of so many updates have brought no gain; never if not "
                "given.",
                minimum=1,
            ),
            Flag("eval_early_stopping_metric", str, "loss", "The number that must gain, as above."),
            Flag(
                "eval_early_stopping_metric_delta",
                float,
                0.1,
                "The least difference that is a gain.",
                minimum=0,
            ),
            Flag(
                "eval_early_stopping_metric_minimize",
                bool,
                None,
                "Lower is better; if not given, so for loss and perplexity alone.",
            ),
            Flag(
                "eval_steps",
                int,
                100,
                "Batches of an evaluation at most; it ends with the data.",
                minimum=1,
            ),
            Flag("eval_use_test_set", bool, False, "Evaluate on the test split, not on dev."),
            Flag(
                "decode_hparams",
                str,
                "",
                "Search settings of evaluations: beam_size=4,alpha=0.6 and the like.",
            ),
            Flag("log_step_count_steps", int, 100, "Updates between progress lines.", minimum=1),
        ),
        "Devices and chance": (
            Flag("worker_gpu", int, None, "GPUs to use; all if not given, 0: the CPU.", minimum=0),
            Flag(
                "worker_hosts",
                str,
                "",
                "Train with several processes, one for each HOST:PORT in this list, with commas "
                "between them. All need the same flags but --worker_id, and share --output_dir. "
                "If not given, the variable TF_CONFIG says so in TensorFlow's own way, or this "
                "process trains alone.",
            ),
            Flag(
                "worker_id",
                int,
                None,
                "Which one of --worker_hosts this process is, from 0. 0 writes the run folder.",
                minimum=0,
            ),
            Flag(
                "simulate_devices",
                int,
                0,
                "Split the CPU into so many logical devices, to try multi-GPU training without "
                "GPUs; 0: do not.",
                minimum=0,
            ),
            Flag(
                "random_seed",
                int,
                None,
                "Seed of initial weights, data order and dropout; drawn if not given.",
                minimum=0,
                maximum=2**32 - 1,
            ),
        ),
    },
)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command and exits."""
    COMMAND.run(_run, argv)


def _run(args: types.SimpleNamespace) -> None:
    config = configure(args)
    if args.generate_data:
        COMMAND.require(args, "tmp_dir")
        names = t2t_datagen.select_problems(config.problem)
        t2t_datagen.generate(names, config.data_dir, args.tmp_dir, DatagenOptions())
    with quiet_import():
        from t2t_lite.planning import batch_size, dry_run
        from t2t_lite.training import trainer
    if args.find_batch_size:
        config = batch_size.with_found_batch_size(config, args.t2t_usr_dir)
    if args.dry_run:
        dry_run.dry_run(config, args.t2t_usr_dir)
    else:
        trainer.run(config)


def configure(args: types.SimpleNamespace) -> TrainerConfig:
    """Turns the flags into the trainer's configuration, after checking all names in them.

    Raises:
        UsageError: a flag is missing, or a name or hyperparameter unknown.
    """
    COMMAND.require(args, "problem", "model", "hparams_set", "data_dir", "output_dir")
    problem = registry.problem(args.problem)
    registry.require_model(args.model)
    registry.hparams(args.hparams_set).override(args.hparams)
    if args.eval_early_stopping_steps and args.schedule == "train":
        raise UsageError(
            "--eval_early_stopping_steps needs evaluations, and --schedule=train has none"
        )
    for name in (args.best_metric, args.eval_early_stopping_metric):
        Metric.named(name, problem.metric)
    DecodeHParams().override(args.decode_hparams)
    values = vars(args) | {"max_train_minutes": args.train_minutes}
    return TrainerConfig(**{f.name: values[f.name] for f in dataclasses.fields(TrainerConfig)})


if __name__ == "__main__":
    main()
