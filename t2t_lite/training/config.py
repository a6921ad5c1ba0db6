"""What a training run is told, field by field as `t2t-trainer`'s flags; needs no TensorFlow."""

import dataclasses

SCHEDULES = ("continuous_train_and_eval", "train", "evaluate")


@dataclasses.dataclass(frozen=True)
class TrainerConfig:
    """One run of `trainer.run`; where T2T has a flag, its name and default."""

    data_dir: str  # folder of t2t-datagen's vocabulary and TFRecord files
    output_dir: str  # run folder: checkpoints, hparams, metrics
    problem: str  # registered name, `_rev` and `_copy` understood
    model: str  # registered name
    hparams_set: str  # registered name
    hparams: str = ""  # changes to the set: "name=value,..."
    warm_start_from: str = ""  # run folder or checkpoint whose weights a new run begins with
    accept_changed_data: bool = False  # go on over other training files than the checkpoint's
    train_steps: int = 250000  # updates in all, those before a resume included
    eval_steps: int = 100  # batches per evaluation at most; fewer if the data ends
    local_eval_frequency: int = 1000  # updates between checkpoints, and between evaluations
    keep_checkpoint_max: int = 20  # newest checkpoints that stay on disk
    keep_best_max: int = 1  # checkpoints with the best evaluations that stay, too; 0: none
    best_metric: str = ""  # which number of an evaluation makes them so; empty: the problem's own
    eval_early_stopping_steps: int | None = None  # updates without a gain to stop; None: never
    eval_early_stopping_metric: str = "loss"  # which number of an evaluation must gain
    eval_early_stopping_metric_delta: float = 0.1  # the least difference that is a gain
    eval_early_stopping_metric_minimize: bool | None = None  # lower is better; None: as usual
    save_checkpoints_secs: int = 0  # seconds between checkpoints; 0: local_eval_frequency decides
    random_seed: int | None = None  # of initial weights, data order and dropout; None: drawn
    schedule: str = "continuous_train_and_eval"  # one of SCHEDULES
    worker_gpu: int | None = None  # GPUs to use; None: all
    worker_hosts: str = ""  # "host:port,..." of all workers; empty: TF_CONFIG says, or one worker
    worker_id: int | None = None  # which of them this process is, from 0; the chief is 0
    simulate_devices: int = 0  # logical CPU devices in place of GPUs; 0: none
    log_step_count_steps: int = 100  # updates between progress lines
    eval_use_test_set: bool = False  # evaluate on the test split instead of dev
    decode_hparams: str = ""  # of the search in evaluations: "name=value,..."
    max_train_minutes: float = 0.0  # minutes of training after which to save and stop; 0: no limit
