"""Training: a loop over batches, with log lines, checkpoints and evaluations between steps.

`run` opens the run (runs/opening.py) and builds what a training needs; `Trainer` is the loop,
step.py the step, objectives/ what it trains for, evaluation.py an evaluation, pace.py when to save
and to end, start.py what comes before the first step, callbacks.py what a user adds. Several
machines show in the loop as three calls of `workers`: `check`, `collective_step` and `wait`.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable, Sequence

import keras
import tensorflow as tf

from t2t_lite.data.example_reader import naming_bad_file
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.models.one_function import require_trained_call
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles
from t2t_lite.runs.opening import open_for_evaluation, open_for_training
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.selection import Selection
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.settings import meant_by
from t2t_lite.training import devices, following
from t2t_lite.training.callbacks import Callback, CallbackError, Callbacks
from t2t_lite.training.cluster.cluster import Cluster
from t2t_lite.training.cluster.workers import Workers, join_cluster
from t2t_lite.training.config import FOLLOWING, TrainerConfig
from t2t_lite.training.cost_tracker import CostTracker, Hardware
from t2t_lite.training.evaluation import Evaluator, averaged_weights
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.pace import Pace, selection_of
from t2t_lite.training.preemption import StopSignals
from t2t_lite.training.profiling import Profiler
from t2t_lite.training.resolved_settings import (
    origin_of_evaluations,
    resolve_decode_hparams,
    resolve_hparams,
    shared_settings,
)
from t2t_lite.training.run_log import MetricsWriter, ProgressLine, train_values
from t2t_lite.training.skipped_steps import SkippedSteps
from t2t_lite.training.start import log_settings, try_largest_batch, warn_of_unread_hparams
from t2t_lite.training.step import TrainStep
from t2t_lite.training.training_data import TrainingData

log = logging.getLogger(__name__)


def run(
    config: TrainerConfig,
    callbacks: Sequence[Callback] = (),
    ends: Callable[[], bool] = lambda: False,
) -> None:
    """Trains, evaluates, alternates between the two, or follows a trainer, by `config.schedule`.

    Args:
        config: the settings.
        callbacks: called after those that `config.callbacks` names.
        ends: whether to end the training, as `Selection` asks it.

    Raises:
        UserError: the settings, the data or the run folder are invalid, a callback failed, or
            SIGTERM arrived (then `PreemptionError`).
    """
    if config.schedule in FOLLOWING:
        following.run(config, callbacks)
        return
    cluster = Cluster.of(config.worker_hosts, config.worker_id)
    hparams = resolve_hparams(config)
    resolve_decode_hparams(config)  # refuses wrong ones before there is a folder
    called = Callbacks.of(config.callbacks, callbacks) if cluster.is_chief else Callbacks()
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
        opened = _opened(config, hparams, strategy.num_replicas_in_sync, cluster.is_alone)
        opened.hparams.note_reads()
        keras.utils.set_random_seed(opened.random_seed)
        with strategy.scope():
            model = opened.build_model()
        called.tell(opened)
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
            callbacks=called,
        )
        if config.schedule == "evaluate":
            # A separate kind of record: whatever its split and search, it chooses no checkpoints.
            step = opened.restore_weights(model)
            with called.ending(lambda: step):
                evaluator(step, MetricsWriter(opened.folder), "evaluate")
        else:
            if config.schedule != "train":
                evaluator.require_data()
            chosen = selection_of(config, opened, ends)
            Trainer(
                config, opened, model, strategy, evaluator, chosen, workers, stop, called
            ).train()


def _opened(
    config: TrainerConfig, hparams: BasicHParams, replicas: int, is_alone: bool
) -> RunFolder:
    """Opens the run folder as the schedule needs it; arguments as for `open_for_training`."""
    if config.schedule == "evaluate":
        return open_for_evaluation(config.run_settings, hparams)
    settings = config.run_settings
    origin_of = functools.partial(origin_of_evaluations, settings=settings)
    return open_for_training(settings, hparams, replicas, is_alone, origin_of)


class Trainer:
    """The training of one run.

    Args:
        config: what to train, where and how long.
        run: the opened run, whose settings include the seed and the parts of a batch.
        model: its model, created in the strategy's scope.
        strategy: the devices.
        evaluator: evaluates the model.
        selection: chooses the best checkpoints, and whether to stop early.
        workers: all of them, as seen by this one.
        stop: the signals that end training early.
        callbacks: what is told between steps.
    """

    def __init__(
        self,
        config: TrainerConfig,
        run: RunFolder,
        model: Seq2Seq,
        strategy: tf.distribute.Strategy,
        evaluator: Evaluator,
        selection: Selection,
        workers: Workers,
        stop: StopSignals,
        callbacks: Callbacks,
    ) -> None:
        self.config = config
        self.run = run
        self.model = model
        self.strategy = strategy
        self.evaluator = evaluator
        self.selection = selection
        self.workers = workers
        self.stop = stop
        self.callbacks = callbacks
        seed = run.random_seed
        with strategy.scope():
            self.optimizer = make_optimizer(run.hparams)
            self.optimizer.build(model.trainable_variables)
        self.train_step = TrainStep(strategy, model, self.optimizer, run.parts, seed)
        self.train_step.objective.require_effect(model)
        self.data = TrainingData(run.problem, config.data_dir, run.hparams, seed, run.encoders)
        self.batches = iter(self.data.batches(run.parts))
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
        config, folder = self.config, self.run.folder
        log_settings(config, self.run, self.model, self.strategy, self.data)
        self._begin()
        hardware = Hardware.measure(self.strategy, self.model)
        self.costs = CostTracker(folder, self.step, self.train_step.window.sums, hardware)
        self.pace = Pace(config, self.workers, self.stop, self.selection)
        replicas = self.strategy.num_replicas_in_sync
        self.progress = ProgressLine(self.step, config.train_steps, replicas)
        with (
            self.stop.held(),
            self.checkpoints,
            naming_bad_file(self.data.paths, self.run.problem.float_sides),
            self.progress,
            Profiler(folder, self.step, config.profile) as profiler,
            self.callbacks.ending(lambda: self.step),
        ):
            try:
                self._take_steps(profiler)
            except CallbackError:
                if self.step > self.checkpoints.newest_step:
                    self._save()
                raise
            self.costs.log(self.step, self.progress.seconds)
        self.workers.wait()
        log.info("trained %d steps; the run folder is %s", self.step, folder)

    def _take_steps(self, profiler: Profiler) -> None:
        """Takes steps, with what is due between them, until training ends.

        Before them, makes up for a missing evaluation of the checkpoint that training resumes from.
        """
        config = self.config
        skipped = SkippedSteps(self.train_step, self.run.encoders)
        if self.step:
            with self.progress.paused():
                self._evaluate_if_due()
        while self.step < config.train_steps and not self.pace.must_stop():
            self.checkpoints.check()
            profiler.before(self.step)
            batch = next(self.batches)
            with self.workers.collective_step():
                skipped.check(self.train_step(batch, self.step), batch, self.step)
            self.step += 1
            if self.step % config.log_step_count_steps == 0:
                self._log()
            if self.pace.checkpoint_due(self.step):
                with self.progress.paused():
                    self._save()
                    self._evaluate_if_due()
        if self.step > self.checkpoints.newest_step:
            with self.progress.paused():
                self._save()
                self._evaluate_if_due(finished=True)  # a signal ends it, and the run

    def _begin(self) -> None:
        """Restores the newest checkpoint, if any, and tries what each step needs."""
        config = self.config
        self.step = self.checkpoints.restore(config.accept_changed_data)
        self.workers.check("restored step", self.step)
        self.writer = MetricsWriter(self.run.folder, self.step)
        if config.warm_start_from and not self.step:  # refuses a model before anything takes long
            warm_start(self.model, config.warm_start_from, self.run)
        require_trained_call(self.model)
        try_largest_batch(self.train_step, self.data, self.workers)
        warn_of_unread_hparams(self.run.hparams, meant_by(config.hparams))
        if not self.step:
            return
        log.info("resuming after step %d", self.step)
        if config.warm_start_from:
            log.info(
                "--warm_start_from=%s is not read: the run continues from its own checkpoint; "
                "to start from there, name a new --output_dir",
                config.warm_start_from,
            )

    def _log(self) -> None:
        """Writes and shows the metrics of the steps since the last line."""
        window = self.train_step.window
        totals, rate = window.take(), float(self.optimizer.learning_rate)
        values = train_values(totals, rate, window.take_auxiliary())
        self.writer.write("train", self.step, values)
        speeds = self.progress.update(self.step, totals, values)
        self.writer.write_tensorboard("speed", self.step, speeds)
        self.callbacks.step(self.step, values | speeds)

    def _save(self) -> None:
        """Saves a checkpoint, and what the run has cost so far."""
        self.checkpoints.save(self.step)
        self.costs.update(self.step, self.progress.seconds)

    def _evaluate_if_due(self, finished: bool = False) -> None:
        """Evaluates if due, at most once per step; then keeps the best checkpoints.

        Without evaluations of its own, only sees whether an evaluator's say that it should stop.
        """
        if self.config.schedule == "train":
            self.selection.stop_if_due()  # by what an evaluator has found so far
            return
        config, step = self.config, self.step
        if not (finished or step % config.local_eval_frequency == 0 or step == config.train_steps):
            return
        self.checkpoints.wait()  # its error comes before an evaluation; the best ones are linked
        if step not in self.writer.evaluated:
            with averaged_weights(self.model, self.optimizer):
                self.evaluator(step, self.writer)
        self.selection.update()
