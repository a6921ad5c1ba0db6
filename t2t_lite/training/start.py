"""What a training does before its first step: it says what it has, and tries the largest batch."""

import logging
import math
from collections.abc import Iterable

import tensorflow as tf

from t2t_lite import processor
from t2t_lite.data.generation import findings
from t2t_lite.errors import UntrainableError, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.frozen_weights import frozen_summary
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.settings import settings_by_group, settings_of
from t2t_lite.training.cluster.workers import Workers
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.features import batch_of_ones
from t2t_lite.training.step import TrainStep
from t2t_lite.training.training_data import TrainingData

log = logging.getLogger(__name__)

# A batch that exceeds the wanted one by a greater share is worth a warning.
_EXCESS = 0.15

# Where the classes of hparams are that are not a user's.
_HPARAMS_CLASSES = BasicHParams.__module__.removesuffix("basic")

# Hparams that a run reads before it has a model, or after its first step, or that have one value.
_READ_ELSEWHERE = frozenset(
    {
        *("warm_start_model", "optimizer_multistep_accumulate_steps"),
        *("eval_drop_long_sequences", "initializer"),
    }
)


def log_settings(
    config: TrainerConfig,
    run: RunFolder,
    model: Seq2Seq,
    strategy: tf.distribute.Strategy,
    data: TrainingData,
) -> None:
    """Logs the sizes of the model, of a batch and of the data."""
    replicas = strategy.num_replicas_in_sync
    log.info(
        "%s with %s: %s parameters on %d device(s)",
        run.model_name,
        run.hparams_set,
        f"{model.count_params():,}",
        replicas,
    )
    if summary := frozen_summary(model):
        log.info("%s", summary)
    log.info("%s", size_of_batches(run.hparams, run.parts, replicas))
    if line := excess_of_batches(run.hparams, run.parts):
        log.warning("%s", line)
    on_cpu = all("CPU" in name for name in strategy.extended.worker_devices)
    if on_cpu and (line := processor.slow_dtype(run.hparams.dtype)):
        log.warning("%s", line)
    if config.schedule == "train" and config.eval_early_stopping_steps:
        log.info(
            "early stopping reads the evaluations of another process: start it with the same "
            "flags and --schedule=continuous_eval"
        )
    for line in data.statistics():
        log.info("training data: %s", line)
    for line in findings.of_data(run.problem, config.data_dir):
        log.warning("the data's text: %s", line)


def size_of_batches(hparams: BasicHParams, parts: int, replicas: int) -> str:
    """Returns how many subwords a batch has at most, and how it is divided, if it is."""
    largest = f"batches of up to {parts * hparams.batch_size:,} source and as many target subwords"
    if parts == 1:
        return largest
    return f"{largest}, in {parts} parts: {replicas} devices × {parts // replicas} accumulation"


def excess_of_batches(hparams: BasicHParams, parts: int) -> str:
    """Returns that a batch is much larger than the wanted one, and the remedy; empty if not."""
    wanted, size = hparams.effective_batch_size, parts * hparams.batch_size
    if not wanted or size - wanted <= _EXCESS * wanted:
        return ""
    return (
        f"hparam effective_batch_size={wanted}: an update has up to {size:,} subwords per side, "
        f"{parts} × batch_size={hparams.batch_size}; for the wanted size, start a run with "
        f"batch_size={math.ceil(wanted / parts)}"
    )


def try_largest_batch(train_step: TrainStep, data: TrainingData, workers: Workers) -> None:
    """Tries the largest batch, changing nothing, so that lack of memory shows at the start.

    Raises:
        UntrainableError: it does not fit into memory.
    """
    hparams = train_step.hparams
    sentences, length = data.largest_batch
    log.info(
        "trying the largest batch, %d sentences of %d subwords per side and device; if memory "
        "runs out here, lower batch_size or max_length with --hparams",
        sentences,
        length,
    )
    ones = batch_of_ones(train_step.parts, sentences, length, hparams.is_guided)
    try:
        with workers.collective_step():
            train_step(ones, step=0, learn=False)
    except tf.errors.ResourceExhaustedError as error:
        raise UntrainableError(
            f"the largest batch, {sentences} sentences of {length} subwords, does not fit into "
            f"memory: lower batch_size={hparams.batch_size} or "
            f"max_length={hparams.max_length} with --hparams"
        ) from error


def warn_of_unread_hparams(hparams: BasicHParams, given: Iterable[str]) -> None:
    """Warns of hparams that were given and that the run does not read.

    When a step has been traced, model, optimizer, data and step have read all that they ever will.
    `learning_rate.warn_of_unread` speaks of those of the learning rate, and a field of a user's own
    may be read by any code at any time.

    Args:
        hparams: those of the run, which have noted since then what was read.
        given: names of fields.
    """
    ours = next(
        kind for kind in type(hparams).__mro__ if kind.__module__.startswith(_HPARAMS_CLASSES)
    )
    rates = {setting.name for setting in settings_by_group(BasicHParams)["Learning rate"]}
    judged = settings_of(ours).keys() - rates - _READ_ELSEWHERE
    for name in hparams.unread(given):
        value = getattr(hparams, name)
        if name in judged and value is not False:  # what is off does nothing, as it should
            warn_once(
                f"hparam {name}={value} has no effect: nothing in this run reads it; a new run can "
                "leave it out"
            )
