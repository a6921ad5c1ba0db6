"""A search for hyperparameters: checks the settings, runs the trials, tells the best."""

import dataclasses
import logging
import os
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UsageError, UserError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.ranges import Range, check_values, ranges_of
from t2t_lite.lock import locked
from t2t_lite.runs import run_folder
from t2t_lite.runs.search_folder import SearchFolder
from t2t_lite.runs.selection import Criterion
from t2t_lite.settings import meant_by
from t2t_lite.training.cluster.cluster import Cluster
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.learning_rate import warn_of_unread
from t2t_lite.training.optimizers import DECAYS_WEIGHTS
from t2t_lite.training.resolved_settings import resolve_decode_hparams, resolve_hparams
from t2t_lite.training.tuning import summary
from t2t_lite.training.tuning.config import TuningConfig
from t2t_lite.training.tuning.process import GPUS
from t2t_lite.training.tuning.trials import Trials

log = logging.getLogger(__name__)

# Settings of a training that may change when a search is resumed: no value depends on them.
_MAY_CHANGE = frozenset(
    {
        *("output_dir", "data_dir", "accept_changed_data", "train_minutes", "keep_checkpoint_max"),
        *("save_checkpoints_secs", "keep_best_max", "eval_timeout_mins", "log_step_count_steps"),
        *("callbacks", "profile", "worker_gpu", "worker_hosts", "worker_id", "simulate_devices"),
    }
)

# Hparams that decide which others of the learning rate are read.
_OF_SCHEDULE = frozenset({"learning_rate_schedule", "learning_rate_decay_scheme"})


def run(config: TrainerConfig, tuning: TuningConfig, t2t_usr_dir: str = "") -> str:
    """Runs all trials that the search still lacks; returns what is best, to print.

    Args:
        config: the training that trials vary; its `output_dir` is the folder of the search.
        tuning: the search.
        t2t_usr_dir: as for the command; empty: none.

    Raises:
        UserError: the settings, the data or the folder are invalid, no trial is complete, or
            SIGTERM arrived (then `PreemptionError`).
    """
    ranges = _check(config, tuning)
    folder = pathlib.Path(config.output_dir)
    if run_folder.is_run(folder):
        raise UserError(f"{folder} holds a run: choose another --output_dir for the search")
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".search.lock", "t2t-trainer", f"is searching in {folder}"):
        search = SearchFolder.begin(folder, _settings(config, tuning, ranges))
        log.info("the search is in %s; each trial is a run folder there", folder)
        gpus = _shares_of_gpus(config, tuning.autotune_parallel_trials)
        Trials(config, tuning, t2t_usr_dir, search, ranges, gpus).run()
    return summary.summary(config, search)


def _check(config: TrainerConfig, tuning: TuningConfig) -> dict[str, Range]:
    """Returns the ranges, after refusing what would let every trial fail."""
    if config.schedule != "continuous_train_and_eval":
        raise UsageError(
            f"--schedule={config.schedule}: a search trains and evaluates in turn; omit the flag"
        )
    if not Cluster.of(config.worker_hosts, config.worker_id).is_alone:
        raise UsageError(
            "a search uses a single machine: omit --worker_hosts, --worker_id and TF_CONFIG"
        )
    hparams = resolve_hparams(config)
    resolve_decode_hparams(config)
    ranges = ranges_of(tuning.hparams_range, hparams.names())
    _leave_out_weight_decay(tuning.hparams_range, ranges, hparams)
    check_values(tuning.hparams_range, ranges, hparams)
    for name in meant_by(config.hparams):
        if name in ranges:
            raise UsageError(
                f"--hparams sets {name}, which --hparams_range={tuning.hparams_range} varies: "
                "leave it out of one of them"
            )
    if not ranges.keys() & _OF_SCHEDULE:
        warn_of_unread(hparams, ranges)
    problem = registry.problem(config.problem)
    for split in (DatasetSplit.TRAIN, config.eval_split):
        problem.existing_filepaths(config.data_dir, split)
    return ranges


def _leave_out_weight_decay(name: str, ranges: dict[str, Range], hparams: BasicHParams) -> None:
    """Removes the range of `weight_decay`, which T2T's ranges have, if no trial supports it."""
    optimizers = ranges["optimizer"].choices if "optimizer" in ranges else (hparams.optimizer,)
    if "weight_decay" not in ranges or DECAYS_WEIGHTS in optimizers:
        return
    del ranges["weight_decay"]
    reason = (
        f"weight_decay is left out: only optimizer={DECAYS_WEIGHTS} supports it; to vary "
        f"weight_decay, give --hparams=optimizer={DECAYS_WEIGHTS}"
    )
    if not ranges:
        raise UsageError(f"--hparams_range={name}: {reason}; no other range is left")
    log.warning("hparams range %s: %s", name, reason)


def _settings(
    config: TrainerConfig, tuning: TuningConfig, ranges: Mapping[str, Range]
) -> dict[str, Any]:
    """Returns what all trials have in common."""
    problem = registry.problem(config.problem)
    objective = tuning.autotune_objective or config.best_metric
    criterion = Criterion.named(objective, problem)
    maximize = not criterion.minimize
    if tuning.autotune_maximize is not None:
        maximize = tuning.autotune_maximize
    training = dataclasses.asdict(config)
    return {
        **{name: value for name, value in training.items() if name not in _MAY_CHANGE},
        "hparams_range": tuning.hparams_range,
        "ranges": {name: str(value) for name, value in ranges.items()},
        "objective": criterion.name,
        "maximize": maximize,
        "prune": tuning.autotune_prune,
    }


def _shares_of_gpus(config: TrainerConfig, count: int) -> list[str]:
    """Returns what CUDA_VISIBLE_DEVICES is for each of `count` trials; "": as it is."""
    visible = os.environ.get(GPUS)
    number = len(tf.config.list_physical_devices("GPU"))
    gpus = visible.split(",") if visible else [*map(str, range(number))]
    if not number or config.worker_gpu == 0 or count == 1:
        return [""] * count
    return [",".join(gpus[slot::count] or [gpus[slot % len(gpus)]]) for slot in range(count)]
