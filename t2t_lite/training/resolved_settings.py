"""What a trainer's settings come to: hyperparameters, search, and what all workers share."""

import dataclasses
import logging
import os
import pathlib

import tensorflow as tf

from t2t_lite import files, registry
from t2t_lite.data.generation import fingerprint
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UsageError, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.runs import opening, run_creation
from t2t_lite.runs.model_match import mismatch
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.runs.selection import EVAL_STEPS, SEARCH
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.settings import meant_by
from t2t_lite.training.cluster.rendezvous import Settings
from t2t_lite.training.config import FOLLOWING, TrainerConfig
from t2t_lite.training.learning_rate import warn_of_unread
from t2t_lite.training.objectives import objective_of

log = logging.getLogger(__name__)

# These may differ: machines may mount the same folder at different paths.
_OWN = {"worker_hosts", "worker_id", "data_dir", "output_dir"}


def resolve_hparams(config: TrainerConfig) -> BasicHParams:
    """Returns the hyperparameter set with the run's changes; warns of what has no effect.

    With the hparam `warm_start_model`, fields that describe the model come from the run that it
    continues.

    Raises:
        UsageError: model, problem and set do not belong together, or a change is invalid.
    """
    hparams = registry.hparams(config.hparams_set).override(config.hparams)
    model = registry.model(config.model)
    if found := mismatch(model, registry.problem(config.problem)):
        raise UsageError(
            f"model {config.model!r} {found.reason}: use another model, such as {found.suited}"
        )
    wanted = model.hparams_class
    if not isinstance(hparams, wanted):
        raise UsageError(
            f"hparams set {config.hparams_set!r} is a {type(hparams).__name__}, "
            f"but model {config.model!r} needs a {wanted.__name__}: choose a set of this model, or "
            "start from one"
        )
    if hparams.warm_start_model:
        hparams = _with_model_of_warm_start(config, hparams).override(config.hparams)
    objective_of(model, hparams).require_possible(hparams)
    warn_of_unread(hparams, meant_by(config.hparams))
    _warn_of_rate_0(config, hparams)
    return hparams.freeze()


def _warn_of_rate_0(config: TrainerConfig, hparams: BasicHParams) -> None:
    """Warns of updates that change nothing because the learning rate is 0."""
    end, steps = hparams.learning_rate_end, config.train_steps
    if end is None or steps <= end or config.schedule in ("evaluate", *FOLLOWING):
        return
    zero = f"the learning rate is 0 after {end:,} updates"
    if config.train_minutes and steps == TrainerConfig.train_steps:  # perhaps it never gets there
        minutes = f"--train_minutes={config.train_minutes:g}"
        log.info("%s: if %s suffices for more, they change nothing", zero, minutes)
        return
    warn_once(
        f"{zero}, and the rest of --train_steps={steps} changes nothing: give --train_steps={end}; "
        "or, in a new run, --hparams=learning_rate_decay_steps="
        f"{steps - hparams.learning_rate_warmup_steps}, with which the rate falls to 0 at the end"
    )


def _with_model_of_warm_start(config: TrainerConfig, hparams: BasicHParams) -> BasicHParams:
    """Returns a copy whose model is that of the run to continue."""
    source = opening.source_of_model(config.run_settings)
    ours = hparams.to_dict()
    fields = {n: value for n, value in source.hparams.model_fields().items() if n in ours}
    changed = {name: value for name, value in fields.items() if ours[name] != value}
    log.info(
        "the model is that of %s; other than in the set: %s",
        source.folder,
        ", ".join(f"{name}={value}" for name, value in changed.items()) or "nothing",
    )
    return hparams.copy(**fields)


def resolve_decode_hparams(config: TrainerConfig, run: RunFolder | None = None) -> DecodeHParams:
    """Returns the search settings of evaluations.

    Args:
        config: the trainer's settings.
        run: the run, for an imported model's settings; None: it is not open yet.

    Raises:
        UsageError: a setting is invalid, or cannot be had during training.
    """
    given = DecodeHParams().override(config.decode_hparams)
    given.require_one_output()
    if dtype := given.dtype:
        raise UsageError(
            f"decode hparam dtype={dtype}: evaluations during training decode with the model that "
            "is trained; leave it out, or train with --hparams=dtype=..."
        )
    owner = run or registry.problem(config.problem)
    return DecodeHParams.of(owner, config.decode_hparams).copy(dtype="")


def origin_of_evaluations(run: RunFolder, settings: RunSettings) -> dict[str, str]:
    """Returns what evaluations of a run depend on, beside the split, by the fields of records.

    Args:
        run: the run.
        settings: of who evaluates.
    """
    search = DecodeHParams.of(run, settings.decode_hparams).copy(dtype="")
    return {SEARCH: search.signature, EVAL_STEPS: str(settings.eval_steps)}


def shared_settings(config: TrainerConfig, hparams: BasicHParams) -> Settings:
    """Returns flags, hyperparameters, releases, devices and data, by name.

    Args:
        config: the trainer's settings.
        hparams: the resolved hyperparameters.
    """
    flags = {
        f"--{name}": value for name, value in dataclasses.asdict(config).items() if name not in _OWN
    }
    gpus = len(tf.config.list_physical_devices("GPU"))
    return (
        flags
        | {f"hparam {name}": str(value) for name, value in hparams.to_dict().items()}
        | {f"release of {name}": release for name, release in run_creation.versions().items()}
        | {"GPUs": gpus if config.worker_gpu is None else config.worker_gpu}
        | _data(config)
    )


def _data(config: TrainerConfig) -> dict[str, str | int]:
    """Returns the sizes of the data files, and digests of the vocabularies and fingerprint."""
    problem = registry.problem(config.problem)
    splits = [] if config.schedule == "evaluate" else [DatasetSplit.TRAIN]
    if config.schedule != "train":
        splits.append(config.eval_split)
    paths = [
        path for split in splits for path in problem.existing_filepaths(config.data_dir, split)
    ]
    sizes = {f"bytes of {os.path.basename(path)}": os.path.getsize(path) for path in paths}
    digests = {
        f"SHA-256 of {name}": files.digest(path)
        for name in problem.vocab_files()
        if (path := pathlib.Path(config.data_dir, name)).is_file()
    }
    made_from = {"fingerprint": fingerprint.training_digest(problem, config.data_dir)}
    return sizes | digests | made_from
