"""The trainer: a loop over batches, interrupted by log lines, checkpoints and evaluations."""

import dataclasses
import functools
import logging
import math
import signal
import time

import keras
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.cluster.cluster import Cluster
from t2t_lite.cluster.detector_client import DetectorClient, join_cluster
from t2t_lite.cluster.worker_sync import WorkerSync
from t2t_lite.data.batching import BatchingScheme
from t2t_lite.data.data_statistics import count_examples
from t2t_lite.data.example_reader import ExampleReader, naming_bad_file
from t2t_lite.data.input_pipeline import eval_dataset, train_dataset
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.rewriting import Rewriter
from t2t_lite.decoding.dataset_decoding import Decodes, decode_examples
from t2t_lite.decoding.decoder import Decoder
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.errors import UsageError, UserError
from t2t_lite.generation import findings
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.metrics.base import Score
from t2t_lite.metrics.by_name import check_metrics, output_metrics
from t2t_lite.metrics.command_metric import ProgramError
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles
from t2t_lite.runs.opening import open_for_evaluation, open_for_training
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.selection import Criterion, EarlyStopping, Selection
from t2t_lite.runs.warm_start import warm_start
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.training import devices, memory, rdrop
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.cost_tracker import CostTracker, Hardware
from t2t_lite.training.moving_average import averaged_weights
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.preemption import StopSignals
from t2t_lite.training.run_log import MetricsWriter, ProgressLine, Values, train_values
from t2t_lite.training.samples import attention_images, sample_table
from t2t_lite.training.shared_settings import shared_settings
from t2t_lite.training.skipped_steps import SkippedSteps
from t2t_lite.training.teacher_forced_evaluation import Evaluation
from t2t_lite.training.train_step import TrainStep

log = logging.getLogger(__name__)


def run(config: TrainerConfig) -> None:
    """Trains, evaluates, or alternates between the two, by `config.schedule`.

    Raises:
        UserError: the settings, the data or the run folder are invalid, or SIGTERM arrived (then
            `PreemptionError`).
    """
    cluster = Cluster.of(config.worker_hosts, config.worker_id)
    hparams = resolve_hparams(config)
    _decode_hparams(config)
    with (
        StopSignals() as stop,
        join_cluster(cluster, lambda: shared_settings(config, hparams)) as detector,
        cluster.own_folder(config.output_dir) as folder,
    ):
        trainer = Trainer(config, hparams, folder, cluster, stop, detector)
        if config.schedule == "evaluate":
            trainer.evaluate_newest()
        else:
            trainer.train()


class Trainer:
    """One run: its model, its devices and its folder.

    Args:
        config: what to train, where and how long.
        hparams: the resolved hyperparameters.
        folder: the run folder; on a worker other than the chief, a scratch folder instead.
        cluster: the workers.
        stop: the signals that end training early.
        detector: notices when a worker is lost.
    """

    def __init__(
        self,
        config: TrainerConfig,
        hparams: BasicHParams,
        folder: str,
        cluster: Cluster,
        stop: StopSignals,
        detector: DetectorClient,
    ) -> None:
        self.stop = stop
        self.detector = detector
        self.strategy = devices.make_strategy(config.worker_gpu, config.simulate_devices, cluster)
        self.sync = WorkerSync(cluster, self.strategy, detector)
        cluster.bring_run(config.output_dir, folder)
        config = dataclasses.replace(config, output_dir=folder)
        if not cluster.is_chief:  # nobody reads its checkpoints
            config = dataclasses.replace(config, keep_checkpoint_max=1, keep_best_max=0)
        self.config = config
        flags = dataclasses.asdict(config)
        if config.schedule == "evaluate":
            self.run = open_for_evaluation(flags, hparams)
        else:
            self.run = open_for_training(flags, hparams, self.replicas, cluster.is_alone)
        self.seed, self.parts = self.run.flags["random_seed"], self.run.flags["parts"]
        self.hparams = self.run.hparams
        self.reader = ExampleReader.of(self.run.problem, self.hparams)
        keras.utils.set_random_seed(self.seed)
        with self.strategy.scope():
            self.model = self.run.build_model()
            self.optimizer = make_optimizer(self.hparams)
        self.evaluation = Evaluation(self.strategy, self.model)
        self.selection = _selection(config, self.run)
        self.decoder = Decoder(
            self.model,
            self.run.problem,
            self.run.encoders,
            _decode_hparams(config),
            devices=self.strategy.extended.worker_devices,
        )
        log.info(
            "%s with %s: %s parameters on %d device(s)",
            self.run.model_name,
            self.run.hparams_set,
            f"{self.model.count_params():,}",
            self.replicas,
        )
        log.info(
            "batches of %d parts: %d devices × %d accumulation, up to %s subwords per side",
            self.parts,
            self.replicas,
            self.parts // self.replicas,
            f"{self.parts * self.hparams.batch_size:,}",
        )

    @property
    def replicas(self) -> int:
        """R, the number of devices."""
        return self.strategy.num_replicas_in_sync

    # ---- training

    def train(self) -> None:
        """Trains up to `train_steps`, resuming from the newest checkpoint if there is one."""
        config = self.config
        optimizer = self.optimizer
        with self.strategy.scope():
            optimizer.build(self.model.trainable_variables)
        rdrop.refuse_equal_passes(self.model)
        train_step = TrainStep(self.strategy, self.model, optimizer, self.parts, self.seed)
        paths = self.run.problem.existing_filepaths(config.data_dir, DatasetSplit.TRAIN)
        scheme = BatchingScheme.from_hparams(self.hparams, training=True)
        rewriter = Rewriter.of(self.hparams, self.reader, self.run.encoders, self.seed)
        counted = count_examples(paths, scheme, self.reader, rewriter=rewriter)
        log.info("training data: %s", counted)
        for line in findings.of_data(self.run.problem, config.data_dir):
            log.warning("the data's text: %s", line)
        batches = iter(
            train_dataset(
                paths,
                scheme,
                self.reader,
                parts=self.parts,
                seed=self.seed,
                batch_shuffle_size=self.hparams.batch_shuffle_size,
                rewriter=rewriter,
            )
        )
        checkpoints = Checkpoints(
            self.run.folder,
            self.model,
            optimizer,
            batches,
            TrainingFiles.of(self.run.problem, config.data_dir),
            train_step.state,
            config.keep_checkpoint_max,
        )
        skipped = SkippedSteps(train_step, self.run.encoders)
        step = checkpoints.restore(config.accept_changed_data)
        self.sync.check("restored step", step)
        writer = MetricsWriter(self.run.folder, step)
        self._try_largest_batch(train_step, scheme)
        if step:
            log.info("resuming after step %d", step)
            self._evaluate_if_due(step, writer, checkpoints)
        elif config.warm_start_from:
            warm_start(self.model, config.warm_start_from, self.run)

        costs = CostTracker(
            self.run.folder, step, train_step.window, Hardware.measure(self.strategy, self.model)
        )
        timer = _Timer(config, self.sync)
        progress = ProgressLine(step, config.train_steps, self.replicas)
        with self.stop.held(), checkpoints:
            with naming_bad_file(paths), progress:
                while step < config.train_steps and not self._must_stop(timer):
                    batch = next(batches)
                    with self.detector.collective_step():
                        skipped.check(train_step(batch, step), batch, step)
                    step += 1
                    if step % config.log_step_count_steps == 0:
                        totals = train_step.totals()
                        auxiliary = train_step.auxiliary_totals()
                        rate = float(optimizer.learning_rate)
                        values = train_values(totals, rate, auxiliary)
                        writer.write("train", step, values)
                        speeds = progress.update(step, totals, values)
                        writer.write_tensorboard("speed", step, speeds)
                    if timer.checkpoint_due(step):
                        with progress.paused():
                            checkpoints.save(step)
                            costs.update(step, progress.seconds)
                            self._evaluate_if_due(step, writer, checkpoints)
            if step > checkpoints.newest_step:
                checkpoints.save(step)
                costs.update(step, progress.seconds)  # a signal ends the evaluation, and the run
                self._evaluate_if_due(step, writer, checkpoints, finished=True)
            costs.log(step, progress.seconds)
        self.sync.wait()
        log.info("trained %d steps; the run folder is %s", step, self.run.folder)

    def _must_stop(self, timer: "_Timer") -> bool:
        """Whether to stop before `train_steps`; a signal to one worker stops all."""
        signalled, finished = self.sync.any(
            self.stop.received is not None, timer.out_of_time() or self.selection.stopped
        )
        if signalled:
            self.detector.close(done=True)  # each saves and ends by itself
            self.stop.received = self.stop.received or signal.SIGTERM
        return signalled or finished

    def _try_largest_batch(self, train_step: TrainStep, scheme: BatchingScheme) -> None:
        """Tries the largest batch, changing nothing, so that lack of memory shows at the start."""
        sentences, length = scheme.worst_bucket
        log.info(
            "trying the largest batch, %d × %d subwords per side and device; if memory runs out "
            "here, lower batch_size or max_length with --hparams",
            sentences,
            length,
        )
        ids = tf.ones((self.parts, sentences, length), tf.int32)
        try:
            with self.detector.collective_step():
                train_step({"inputs": ids, "targets": ids}, step=0, learn=False)
        except tf.errors.ResourceExhaustedError as error:
            raise UserError(
                f"the largest batch, {sentences} × {length} subwords per side, does not fit into "
                f"memory: lower batch_size={self.hparams.batch_size} or "
                f"max_length={self.hparams.max_length} with --hparams"
            ) from error

    # ---- evaluation

    def evaluate_newest(self) -> None:
        """Evaluates the newest checkpoint."""
        step = self.run.restore_weights(self.model)
        # A separate kind of record: whatever its split and search, it does not choose checkpoints.
        self._evaluate(step, MetricsWriter(self.run.folder), "evaluate")

    def _evaluate_if_due(
        self, step: int, writer: MetricsWriter, checkpoints: Checkpoints, finished: bool = False
    ) -> None:
        """Evaluates if due, at most once per step; then keeps the best checkpoints."""
        config = self.config
        due = finished or step % config.local_eval_frequency == 0 or step == config.train_steps
        if config.schedule == "train" or not due:
            return
        if step not in writer.evaluated:
            with averaged_weights(self.model, self.optimizer):
                self._evaluate(step, writer)
        checkpoints.wait()  # the best are kept by linking their files
        self.selection.update()

    @functools.cached_property
    def _eval_data(self) -> tuple[str, list[str], tf.data.Dataset]:
        """The split of evaluations, its files, and its batches.

        Created once: TensorFlow never frees the functions of a dataset.
        """
        split = DatasetSplit.TEST if self.config.eval_use_test_set else DatasetSplit.EVAL
        paths = self.run.problem.existing_filepaths(self.config.data_dir, split)
        scheme = BatchingScheme.from_hparams(self.hparams, training=False)
        batches = eval_dataset(
            paths, scheme, self.reader, parts=self.replicas, limit=self.config.eval_steps
        )
        return split, paths, batches

    def _evaluate(self, step: int, writer: MetricsWriter, kind: str = "eval") -> None:
        split, paths, batches = self._eval_data
        with naming_bad_file(paths), self.stop.at_once():
            values = self.evaluation(self.detector.collective_steps(batches))
            try:
                decodes = decode_examples(self.decoder, paths, f"{split} example")
            except NoOutputError as error:
                self._record_diverged(step, writer, kind, values, error)
                return
            images = attention_images(self.model, paths, self.reader)
            memory.give_back()
            scores = self._scores(step, decodes)
        for score in scores:
            values |= score.values
        writer.write(kind, step, values)
        writer.write_samples(step, sample_table(decodes), images)
        log.info(
            "step %d, %s split: loss %.4f  perplexity %.2f  accuracy %.4f  per sequence %.4f  %s",
            step,
            split,
            *(values[key] for key in ("loss", "perplexity", "accuracy", "accuracy_per_sequence")),
            "  ".join(score.summary for score in scores),
        )

    def _scores(self, step: int, decodes: Decodes) -> list[Score]:
        """Scores outputs by the problem's metrics; NaN if a metric's program fails."""
        scores: list[Score] = []
        for name in output_metrics(self.run.problem.metrics):
            try:
                scores += decodes.score([name]).values()
            except ProgramError as error:
                log.error("step %d: no %s: %s", step, name, error)
                scores.append(Score({name: math.nan}, report="", summary=f"no {name}"))
        return scores

    def _record_diverged(
        self, step: int, writer: MetricsWriter, kind: str, values: Values, error: NoOutputError
    ) -> None:
        """Records the evaluation of a model that gives NaN in decoding; training continues."""
        names = output_metrics(self.run.problem.metrics)
        writer.write(kind, step, values | dict.fromkeys(names, math.nan))
        log.error(
            "step %d: loss %.4f, and no %s: %s. An evaluation with NaN is never chosen as the "
            "best; if the next ones fail as well, end this run, and start another with a lower "
            "learning rate or a longer warm-up",
            step,
            values["loss"],
            ", ".join(names),
            error,
        )


class _Timer:
    """Decides when a checkpoint is due and when the time for training is over."""

    def __init__(self, config: TrainerConfig, sync: WorkerSync) -> None:
        self.config = config
        self.sync = sync
        self.start = self.saved = time.monotonic()

    def checkpoint_due(self, step: int) -> bool:
        """Whether to save: by time if so configured, else by steps; and before every evaluation."""
        config = self.config
        by_steps = step % config.local_eval_frequency == 0
        if not config.save_checkpoints_secs:
            return by_steps
        (late,) = self.sync.any(time.monotonic() - self.saved >= config.save_checkpoints_secs)
        due = late or (by_steps and config.schedule != "train")
        if due:
            self.saved = time.monotonic()
        return due

    def out_of_time(self) -> bool:
        """Whether `train_minutes` are over."""
        minutes = self.config.train_minutes
        return minutes > 0 and time.monotonic() - self.start >= 60 * minutes


def resolve_hparams(config: TrainerConfig) -> BasicHParams:
    """Returns the hyperparameter set with the run's changes.

    Raises:
        UsageError: the set is not for the model, the model is not for the problem, or R-Drop has no
            dropout.
    """
    hparams = registry.hparams(config.hparams_set).override(config.hparams)
    model = registry.model(config.model)
    if model.only_labels and not registry.problem(config.problem).has_labels:
        raise UsageError(
            f"model {config.model!r} is a classifier, and problem {config.problem!r} has no labels "
            "(Text2ClassProblem): use another model, such as transformer"
        )
    wanted = model.hparams_class
    if not isinstance(hparams, wanted):
        raise UsageError(
            f"hparams set {config.hparams_set!r} is a {type(hparams).__name__}, "
            f"but model {config.model!r} needs a {wanted.__name__}: choose a set of this model, or "
            "start from one"
        )
    rdrop.refuse_without_dropout(hparams)
    return hparams.freeze()


def _decode_hparams(config: TrainerConfig) -> DecodeHParams:
    """Returns the search settings of evaluations.

    Raises:
        UsageError: one is invalid, or asks for another dtype than that of training.
    """
    if dtype := DecodeHParams().override(config.decode_hparams).dtype:
        raise UsageError(
            f"decode hparam dtype={dtype}: evaluations during training decode with the model that "
            "is trained; leave it out, or train with --hparams=dtype=..."
        )
    problem = registry.problem(config.problem)
    return DecodeHParams.of(problem, config.decode_hparams).copy(dtype="")


def _selection(config: TrainerConfig, run: RunFolder) -> Selection:
    """Returns the choice of the best checkpoints, and of the end of training.

    Raises:
        UserError: evaluations have no such metric, or one cannot be computed on this machine.
    """
    metrics = run.problem.metrics
    check_metrics(metrics)
    stopping = Criterion.named(
        config.eval_early_stopping_metric, metrics, config.eval_early_stopping_metric_minimize
    )
    steps = config.eval_early_stopping_steps
    early_stopping = (
        EarlyStopping(stopping, steps, config.eval_early_stopping_metric_delta) if steps else None
    )
    return Selection(
        run.folder,
        Criterion.named(config.best_metric, metrics),
        config.keep_best_max,
        early_stopping,
    )
