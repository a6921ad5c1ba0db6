"""Training: a loop over batches, with log lines, checkpoints and evaluations between steps.

`run` opens the run (runs/opening.py) and builds what a training needs; `Trainer.train` is the loop,
step.py the step, objectives/ what it trains for, evaluation.py an evaluation.
"""

import dataclasses
import logging
import signal
import time
from collections.abc import Callable

import keras
import tensorflow as tf

from t2t_lite import processor
from t2t_lite.data.example_reader import naming_bad_file
from t2t_lite.data.generation import findings
from t2t_lite.errors import UserError
from t2t_lite.models.frozen_weights import frozen_summary
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles
from t2t_lite.runs.opening import open_for_evaluation, open_for_training
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.selection import Criterion, EarlyStopping, Selection
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.training import devices
from t2t_lite.training.cluster.cluster import Cluster
from t2t_lite.training.cluster.workers import Workers, join_cluster
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.cost_tracker import CostTracker, Hardware
from t2t_lite.training.evaluation import Evaluator, averaged_weights
from t2t_lite.training.features import features_spec
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.preemption import StopSignals
from t2t_lite.training.profiling import Profiler
from t2t_lite.training.resolved_settings import (
    resolve_decode_hparams,
    resolve_hparams,
    shared_settings,
)
from t2t_lite.training.run_log import MetricsWriter, ProgressLine, train_values
from t2t_lite.training.skipped_steps import SkippedSteps
from t2t_lite.training.step import TrainStep
from t2t_lite.training.training_data import TrainingData

log = logging.getLogger(__name__)


def run(config: TrainerConfig, ends: Callable[[], bool] = lambda: False) -> None:
    """Trains, evaluates, or alternates between the two, by `config.schedule`.

    Args:
        config: the settings.
        ends: whether to end the training, as `Selection` asks it.

    Raises:
        UserError: the settings, the data or the run folder are invalid, or SIGTERM arrived (then
            `PreemptionError`).
    """
    cluster = Cluster.of(config.worker_hosts, config.worker_id)
    hparams = resolve_hparams(config)
    resolve_decode_hparams(config)  # refuses wrong ones before there is a folder
    with (
        StopSignals() as stop,
        join_cluster(cluster, lambda: shared_settings(config, hparams)) as workers,
        cluster.own_folder(config.output_dir) as folder,
    ):
        strategy = devices.make_strategy(config.worker_gpu, config.simulate_devices, cluster)
        workers.use(strategy)
        cluster.bring_run(config.output_dir, folder)
        config = dataclasses.replace(config, output_dir=folder)
        if not cluster.is_chief:  # nobody reads its checkpoints
            config = dataclasses.replace(config, keep_checkpoint_max=1, keep_best_max=0)
        flags = dataclasses.asdict(config)
        if config.schedule == "evaluate":
            opened = open_for_evaluation(flags, hparams)
        else:
            replicas = strategy.num_replicas_in_sync
            opened = open_for_training(flags, hparams, replicas, cluster.is_alone)
        keras.utils.set_random_seed(opened.flags["random_seed"])
        with strategy.scope():
            model = opened.build_model()
        evaluator = Evaluator(
            opened,
            model,
            strategy,
            resolve_decode_hparams(config, opened),
            data_dir=config.data_dir,
            split=config.eval_split,
            limit=config.eval_steps,
            stop=stop,
            workers=workers,
        )
        if config.schedule == "evaluate":
            # A separate kind of record: whatever its split and search, it chooses no checkpoints.
            step = opened.restore_weights(model)
            evaluator(step, MetricsWriter(opened.folder), "evaluate")
        else:
            if config.schedule != "train":
                evaluator.require_data()
            Trainer(config, opened, model, strategy, evaluator, workers, stop, ends).train()


@dataclasses.dataclass
class Trainer:
    """The training of one run.

    Attributes:
        config: what to train, where and how long.
        run: the opened run, whose settings include the seed and the parts of a batch.
        model: its model, created in the strategy's scope.
        strategy: the devices.
        evaluator: evaluates the model.
        workers: all of them, as seen by this one.
        stop: the signals that end training early.
        ends: whether to end the training, as `Selection` asks it.
    """

    config: TrainerConfig
    run: RunFolder
    model: Seq2Seq
    strategy: tf.distribute.Strategy
    evaluator: Evaluator
    workers: Workers
    stop: StopSignals
    ends: Callable[[], bool]

    def __post_init__(self) -> None:
        config, run, model, strategy = self.config, self.run, self.model, self.strategy
        self.selection = _selection(config, run, self.ends)
        seed, self.parts = run.flags["random_seed"], run.flags["parts"]
        with strategy.scope():
            self.optimizer = make_optimizer(run.hparams)
            self.optimizer.build(model.trainable_variables)
        self.train_step = TrainStep(strategy, model, self.optimizer, self.parts, seed)
        self.train_step.objective.require_effect(model)
        self.data = TrainingData(run.problem, config.data_dir, run.hparams, seed, run.encoders)
        self.batches = iter(self.data.batches(self.parts))
        self.checkpoints = Checkpoints(
            run.folder,
            model,
            self.optimizer,
            self.batches,
            TrainingFiles.of(run.problem, config.data_dir),
            self.train_step.state,
            config.keep_checkpoint_max,
        )

    def train(self) -> None:
        """Trains up to `train_steps`, resuming from the newest checkpoint if there is one."""
        config, folder, train_step = self.config, self.run.folder, self.train_step
        self._log_settings()
        step = self.checkpoints.restore(config.accept_changed_data)
        self.workers.check("restored step", step)
        writer = MetricsWriter(folder, step)
        if config.warm_start_from and not step:  # refuses a model before anything takes long
            warm_start(self.model, config.warm_start_from, self.run)
        self._try_largest_batch()
        if step:
            log.info("resuming after step %d", step)
            if config.warm_start_from:
                log.info(
                    "--warm_start_from=%s is not read: the run continues from its own checkpoint; "
                    "to start from there, name a new --output_dir",
                    config.warm_start_from,
                )
            self._evaluate_if_due(step, writer)

        hardware = Hardware.measure(self.strategy, self.model)
        costs = CostTracker(folder, step, train_step.window.sums, hardware)
        timer = _Timer(config, self.workers)
        progress = ProgressLine(step, config.train_steps, self.strategy.num_replicas_in_sync)
        with self.stop.held(), self.checkpoints:
            profiler = Profiler(folder, step, config.profile)
            with naming_bad_file(self.data.paths), progress, profiler:
                skipped = SkippedSteps(train_step, self.run.encoders)
                while step < config.train_steps and not self._must_stop(timer):
                    self.checkpoints.check()
                    profiler.before(step)
                    batch = next(self.batches)
                    with self.workers.collective_step():
                        skipped.check(train_step(batch, step), batch, step)
                    step += 1
                    if step % config.log_step_count_steps == 0:
                        totals = train_step.window.take()
                        rate = float(self.optimizer.learning_rate)
                        values = train_values(totals, rate, train_step.window.take_auxiliary())
                        writer.write("train", step, values)
                        speeds = progress.update(step, totals, values)
                        writer.write_tensorboard("speed", step, speeds)
                    if timer.checkpoint_due(step):
                        with progress.paused():
                            self.checkpoints.save(step)
                            costs.update(step, progress.seconds)
                            self._evaluate_if_due(step, writer)
            if step > self.checkpoints.newest_step:
                self.checkpoints.save(step)
                costs.update(step, progress.seconds)  # a signal ends the evaluation, and the run
                self._evaluate_if_due(step, writer, finished=True)
            costs.log(step, progress.seconds)
        self.workers.wait()
        log.info("trained %d steps; the run folder is %s", step, folder)

    def _log_settings(self) -> None:
        """Logs the sizes of the model, of a batch and of the data."""
        run, replicas = self.run, self.strategy.num_replicas_in_sync
        log.info(
            "%s with %s: %s parameters on %d device(s)",
            run.model_name,
            run.hparams_set,
            f"{self.model.count_params():,}",
            replicas,
        )
        if summary := frozen_summary(self.model):
            log.info("%s", summary)
        log.info(
            "batches of %d parts: %d devices × %d accumulation, up to %s subwords per side",
            self.parts,
            replicas,
            self.parts // replicas,
            f"{self.parts * run.hparams.batch_size:,}",
        )
        on_cpu = all("CPU" in name for name in self.strategy.extended.worker_devices)
        if on_cpu and (line := processor.slow_dtype(run.hparams.dtype)):
            log.warning("%s", line)
        if self.config.schedule == "train" and self.config.eval_early_stopping_steps:
            log.info(
                "early stopping reads the evaluations of another process: start it with the same "
                "flags and --schedule=continuous_eval"
            )
        for line in self.data.statistics():
            log.info("training data: %s", line)
        for line in findings.of_data(run.problem, self.config.data_dir):
            log.warning("the data's text: %s", line)

    def _must_stop(self, timer: "_Timer") -> bool:
        """Whether to stop before `train_steps`; a signal to one worker stops all."""
        signalled, finished = self.workers.any(
            self.stop.received is not None, timer.out_of_time() or self.selection.stopped
        )
        if signalled:
            self.workers.leave(done=True)  # each saves and ends by itself
            self.stop.received = self.stop.received or signal.SIGTERM
        return signalled or finished

    def _try_largest_batch(self) -> None:
        """Tries the largest batch, changing nothing, so that lack of memory shows at the start."""
        sentences, length = self.data.largest_batch
        log.info(
            "trying the largest batch, %d × %d subwords per side and device; if memory runs out "
            "here, lower batch_size or max_length with --hparams",
            sentences,
            length,
        )
        ids = tf.ones((self.parts, sentences, length), tf.int32)
        try:
            with self.workers.collective_step():
                names = features_spec(is_guided=self.run.hparams.is_guided)
                self.train_step(dict.fromkeys(names, ids), step=0, learn=False)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"the largest batch, {sentences} × {length} subwords per side, does not fit into "
                f"memory: lower batch_size={self.run.hparams.batch_size} or "
                f"max_length={self.run.hparams.max_length} with --hparams"
            ) from error

    def _evaluate_if_due(self, step: int, writer: MetricsWriter, finished: bool = False) -> None:
        """Evaluates if due, at most once per step; then keeps the best checkpoints.

        Without evaluations of its own, only sees whether an evaluator's say that it should stop.
        """
        config = self.config
        if config.schedule == "train":
            self.selection.stop_if_due()  # by what an evaluator has found so far
            return
        due = finished or step % config.local_eval_frequency == 0 or step == config.train_steps
        if not due:
            return
        self.checkpoints.wait()  # its error comes before an evaluation; the best ones are linked
        if step not in writer.evaluated:
            with averaged_weights(self.model, self.optimizer):
                self.evaluator(step, writer)
        self.selection.update()


class _Timer:
    """Decides when a checkpoint is due and when the time for training is over."""

    def __init__(self, config: TrainerConfig, workers: Workers) -> None:
        self.config = config
        self.workers = workers
        self.start = self.saved = time.monotonic()

    def checkpoint_due(self, step: int) -> bool:
        """Whether to save: by time if so configured, else by steps; and before every evaluation."""
        config = self.config
        by_steps = step % config.local_eval_frequency == 0
        if not config.save_checkpoints_secs:
            return by_steps
        (late,) = self.workers.any(time.monotonic() - self.saved >= config.save_checkpoints_secs)
        due = late or (by_steps and config.schedule != "train")
        if due:
            self.saved = time.monotonic()
        return due

    def out_of_time(self) -> bool:
        """Whether `train_minutes` are over."""
        minutes = self.config.train_minutes
        return minutes > 0 and time.monotonic() - self.start >= 60 * minutes


def _selection(config: TrainerConfig, run: RunFolder, ends: Callable[[], bool]) -> Selection:
    """Returns the choice of the best checkpoints, and of the end of training."""
    stopping = Criterion.named(
        config.eval_early_stopping_metric, run.problem, config.eval_early_stopping_metric_minimize
    )
    steps = config.eval_early_stopping_steps
    early_stopping = (
        EarlyStopping(stopping, steps, config.eval_early_stopping_metric_delta) if steps else None
    )
    return Selection(
        run.folder,
        Criterion.named(config.best_metric, run.problem),
        config.keep_best_max,
        early_stopping,
        ends,
    )
