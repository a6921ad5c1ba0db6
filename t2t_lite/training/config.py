"""Options of a training run, which are `t2t-trainer`'s flags; needs no TensorFlow."""

import dataclasses

from t2t_lite.data.problem import DatasetSplit
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.runs.selection import EVALUATOR
from t2t_lite.settings import REQUIRED, Config, setting


@dataclasses.dataclass(frozen=True)
class Followed:
    """What a process beside the trainer does with each of its checkpoints.

    Attributes:
        folder: where its results are, in the run folder; as in T2T, where T2T has one.
        on_train_data: whether with the training data, else with the dev or test split.
        decodes: whether the outputs are written, else they are only scored.
    """

    folder: str
    on_train_data: bool = False
    decodes: bool = False

    def split(self, eval_split: str) -> str:
        """Returns the split that is read; `eval_split` is that of evaluations."""
        return DatasetSplit.TRAIN if self.on_train_data else eval_split


# By the schedule of the process (training/following.py).
FOLLOWING = {
    "continuous_eval": Followed(EVALUATOR),
    "continuous_eval_on_train_data": Followed("eval_train", on_train_data=True),
    "continuous_decode": Followed("decode", decodes=True),
    "continuous_decode_on_eval_data": Followed("decode", decodes=True),
}
SCHEDULES = ("continuous_train_and_eval", "train", "evaluate", *FOLLOWING)
# T2T's other schedules.
_REMEDIES = {
    "continuous_decode_from_file": "t2t-translate-all --wait_minutes=N decodes a file with each "
    "checkpoint",
    "continuous_decode_on_train_data": "t2t-decoder --dataset_split=train decodes the training "
    "data with a checkpoint, which takes too long for each one",
    "decode": "t2t-decoder decodes with a checkpoint",
    "evaluate_on_train_data": "give continuous_eval_on_train_data and --eval_timeout_mins=0, which "
    "evaluates the checkpoints that are there",
    "run_std_server": "there are no parameter servers; --worker_hosts trains on several machines",
    "test": "give --train_steps=1 --eval_steps=1 for a trial, whose evaluation still decodes the "
    "whole dev split; t2t-datagen --max_cases=N makes a short one",
    "train_and_evaluate": "give continuous_train_and_eval",
    "train_eval_and_decode": "give continuous_train_and_eval, whose evaluations decode; with "
    "--schedule=continuous_decode, another process also writes the outputs",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainerConfig(Config):
    """Settings of `trainer.run`; where T2T has the flag, with its name and default."""

    problem: str = setting(
        REQUIRED,
        "Name of the problem; NAME_rev swaps its two sides; A+B or A:0.7+B:0.3 mixes problems.",
        group="What to train",
    )
    model: str = setting(REQUIRED, "Name of the model.")
    hparams_set: str = setting(REQUIRED, "Name of the hyperparameter set.")
    hparams: str = setting(
        "",
        "Changes to the hyperparameter set: NAME=VALUE,... (--help_hparams lists them).",
        listed=True,
    )

    data_dir: str = setting(REQUIRED, "Folder of t2t-datagen's files.", path=True, group="Where")
    accept_changed_data: bool = setting(
        False,
        "Resume although the training files have changed since the newest checkpoint: keep its "
        "weights and optimizer state, and start the data from the beginning.",
    )
    output_dir: str = setting(
        REQUIRED,
        "Run folder for checkpoints, hyperparameters and metrics. Created if missing.",
        path=True,
    )
    warm_start_from: str = setting(
        "",
        "Run folder or checkpoint to initialize the weights of a new run from, where names and "
        "shapes match. Ignored when a run is resumed. Sets for fine-tuning, such as "
        "transformer_finetune, also take the model's hyperparameters from there.",
        path=True,
    )

    train_steps: int = setting(
        250000,
        "Total number of updates, including those before a resume.",
        minimum=1,
        group="How long",
    )
    train_minutes: float = setting(
        0.0,
        "Save and stop after this many minutes, even if steps remain. Evaluations count, but not "
        "what comes before: loading, and trying the largest batch. The limit restarts with every "
        "start. 0 sets no limit.",
        minimum=0,
    )

    schedule: str = setting(
        "continuous_train_and_eval",
        "Alternate training and evaluation, only train, or only evaluate the newest checkpoint. "
        "Or, beside another process that trains, evaluate or decode each of its checkpoints.",
        choices=SCHEDULES,
        remedies=_REMEDIES,
        group="Evaluation and checkpoints",
    )
    local_eval_frequency: int = setting(
        1000, "Updates between checkpoints; each checkpoint is evaluated.", minimum=1
    )
    save_checkpoints_secs: int = setting(
        0, "Seconds between checkpoints; 0 uses --local_eval_frequency.", minimum=0
    )
    keep_checkpoint_max: int = setting(20, "Number of newest checkpoints to keep.", minimum=1)
    keep_best_max: int = setting(
        1, "Number of best checkpoints to keep as well, as best.ckpt-STEP.", minimum=0
    )
    best_metric: str = setting(
        "",
        "Metric in metrics.jsonl that ranks checkpoints, such as bleu, loss or accuracy, or "
        "bleu__de for a member of a mixture (default: the problem's first metric).",
    )
    eval_early_stopping_steps: int | None = setting(
        None,
        "Stop when evaluations have not improved for this many updates (default: never). With "
        "--schedule=train, the evaluations of a continuous_eval beside it count.",
        minimum=1,
    )
    eval_early_stopping_metric: str = setting(
        "loss",
        "Metric that must improve; named as for --best_metric.",
        needs="eval_early_stopping_steps",
    )
    eval_early_stopping_metric_delta: float = setting(
        0.1,
        "Smallest change that counts as an improvement.",
        minimum=0,
        needs="eval_early_stopping_steps",
    )
    eval_early_stopping_metric_minimize: bool | None = setting(
        None,
        "Lower is better (default: as registered for the metric).",
        needs="eval_early_stopping_steps",
    )
    eval_steps: int = setting(
        100,
        "Maximum number of batches per evaluation for loss and accuracy; the whole split is "
        "decoded. A batch is as large as that of one device in training, whatever the number of "
        "devices.",
        minimum=1,
    )
    eval_timeout_mins: float = setting(
        240,
        "Minutes for which the schedules continuous_* (except continuous_train_and_eval) wait for "
        "the next checkpoint; -1 waits for ever. After the checkpoint of the last update, they "
        "wait no longer.",
        minimum=-1,
    )
    eval_use_test_set: bool = setting(False, "Evaluate on the test split instead of dev.")
    decode_hparams: str = setting(
        "",
        "Changes to the problem's search settings in evaluations: NAME=VALUE,... (t2t-decoder "
        "--help).",
        listed=True,
    )
    log_step_count_steps: int = setting(100, "Updates between progress lines.", minimum=1)
    callbacks: str = setting(
        "",
        "Names of callbacks that --t2t_usr_dir registers, separated by commas. A callback gets the "
        "metrics of progress lines and evaluations.",
        listed=True,
    )
    profile: bool = setting(
        False,
        "Record the 11th to the 20th update after the start with TensorFlow's profiler, in "
        "--output_dir. TensorBoard shows them (pip install tensorboard-plugin-profile).",
    )

    worker_gpu: int | None = setting(
        None,
        "GPUs to use; 0 uses the CPU (default: all).",
        minimum=0,
        group="Devices and randomness",
    )
    worker_hosts: str = setting(
        "",
        "Train with several processes, one per HOST:PORT in this comma-separated list. All need "
        "the same flags except --worker_id, and must share --output_dir (default: the workers in "
        "the environment variable TF_CONFIG, in TensorFlow's format; without it, one process).",
        listed=True,
    )
    worker_id: int | None = setting(
        None,
        "Index of this process in --worker_hosts, from 0. Worker 0 writes the run folder.",
        minimum=0,
    )
    simulate_devices: int = setting(
        0,
        "Split the CPU into this many logical devices, to try multi-GPU training without GPUs; 0 "
        "does not split it.",
        minimum=0,
    )
    random_seed: int | None = setting(
        None,
        "Seed of initial weights, data order and dropout (default: drawn at random).",
        minimum=0,
        maximum=2**32 - 1,
    )

    @property
    def eval_split(self) -> str:
        """The split that evaluations read, one of `DatasetSplit`."""
        return DatasetSplit.TEST if self.eval_use_test_set else DatasetSplit.EVAL

    @property
    def run_settings(self) -> RunSettings:
        """What the run folder keeps of these settings."""
        return RunSettings.of(dataclasses.asdict(self))
