"""Evaluates or decodes each checkpoint of a run, while another process trains it.

The schedules `continuous_eval`, `continuous_decode` and their kin. What is done with a checkpoint
is recorded in a file metrics.jsonl of the schedule's own folder in the run folder, so that a
process that was killed and started again does nothing twice. The trainer deletes no checkpoint
before that: see runs/followers.py.
"""

import logging
import math
import pathlib
from collections.abc import Callable, Sequence

import keras

from t2t_lite import files, registry
from t2t_lite.decoding.divergence import NoOutputError
from t2t_lite.errors import UsageError, UserError
from t2t_lite.metrics.by_name import output_metrics
from t2t_lite.metrics.parts import combined, parts_of
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, followers, metrics_jsonl
from t2t_lite.runs.opening import (
    differences_of_evaluations,
    has_started,
    open_for_evaluation,
    refuse_other_evaluations,
)
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.search_folder import criterion_of
from t2t_lite.runs.selection import (
    DEV,
    EVALUATOR,
    SEARCH,
    SIGNATURE,
    SPLIT,
    Selection,
    checkpoint_signature,
)
from t2t_lite.training import devices
from t2t_lite.training.callbacks import Callback, Callbacks
from t2t_lite.training.cluster.workers import Workers
from t2t_lite.training.config import FOLLOWING, Followed, TrainerConfig
from t2t_lite.training.evaluation import Evaluator
from t2t_lite.training.preemption import StopSignals
from t2t_lite.training.resolved_settings import (
    origin_of_evaluations,
    resolve_decode_hparams,
    resolve_hparams,
)
from t2t_lite.training.run_log import MetricsWriter, Values
from t2t_lite.waiting import arriving

log = logging.getLogger(__name__)


def run(config: TrainerConfig, callbacks: Sequence[Callback] = ()) -> None:
    """Evaluates or decodes each checkpoint once, by `config.schedule`, until training ends.

    Args:
        config: the settings.
        callbacks: called after those that `config.callbacks` names.

    Raises:
        UserError: the settings, the data or the run folder are invalid; another process does the
            same; a callback failed; or SIGTERM arrived (then `PreemptionError`).
    """
    schedule, folder = FOLLOWING[config.schedule], pathlib.Path(config.output_dir)
    if schedule.on_train_data:  # which is only scored
        for name in ("eval_use_test_set", "decode_hparams"):
            if getattr(config, name):
                log.warning("--%s has no effect on --schedule=%s", name, config.schedule)
    # What is wrong is refused before the wait.
    resolve_decode_hparams(config)
    called = Callbacks.of(config.callbacks, callbacks)
    problem, split = registry.problem(config.problem), schedule.split(config.eval_split)
    for part in parts_of(problem, split, data_dir=config.data_dir):
        part.problem.existing_filepaths(config.data_dir, split)
    with StopSignals() as stop:
        with followers.Follower(folder, schedule.folder) as follower:
            _wait_for_run(folder, config.eval_timeout_mins)
            opened = open_for_evaluation(config.run_settings, resolve_hparams(config))
            _refuse_other_evaluations(opened, config)
            _warn_of_other_choice(opened, config)
            called.tell(opened)
            _Following(config, schedule, opened, stop, called).follow(follower)
        followers.delete_leftovers(folder)


def _wait_for_run(folder: pathlib.Path, minutes: float) -> None:
    """Waits for the first checkpoint of a run.

    Raises:
        UserError: the minutes are over; negative ones never are.
    """
    if not has_started(folder):
        log.info("waiting for the first checkpoint in %s", folder)
    if not any(arriving(lambda: has_started(folder) or None, minutes)):
        raise UserError(
            f"{folder} has had no checkpoint for {minutes:g} minutes: start the trainer, or raise "
            "--eval_timeout_mins"
        )


def _refuse_other_evaluations(run: RunFolder, config: TrainerConfig) -> None:
    """Refuses evaluations unlike the trainer's own, beside which they would count.

    Raises:
        UsageError: the trainer evaluates on the other split, or with another search or number of
            batches.
    """
    trainers = bool(run.settings.eval_use_test_set)
    evaluates = run.settings.schedule == "continuous_train_and_eval"
    if config.schedule != "continuous_eval":
        return
    origin = origin_of_evaluations(run, config.run_settings)
    refuse_other_evaluations(run, config.eval_use_test_set, origin)
    if evaluates and trainers != config.eval_use_test_set:
        own = f"--{'' if trainers else 'no'}eval_use_test_set"
        raise UsageError(
            f"the trainer of {run.folder} evaluates with {own}, and the best checkpoint would be "
            f"chosen by both splits: give {own}, or let the trainer have --schedule=train"
        )
    if evaluates:
        trainers_origin = origin_of_evaluations(run, run.settings)
        if differences := differences_of_evaluations(trainers_origin, origin):
            raise UsageError(
                f"the trainer of {run.folder} evaluates with other settings (there != now): "
                f"{differences}, and the best checkpoint would be chosen by both: give the "
                "trainer's, or let the trainer have --schedule=train"
            )


def _warn_of_other_choice(run: RunFolder, config: TrainerConfig) -> None:
    """Warns of flags that would choose other best checkpoints than the trainer's, which count."""
    if config.schedule != "continuous_eval":
        return
    trainers = {"keep_best_max": run.settings.keep_best_max, "best_metric": criterion_of(run).name}
    for name, value in trainers.items():
        given = getattr(config, name)
        if value is not None and given not in (getattr(TrainerConfig, name), value):
            log.warning(
                "--%s=%s has no effect: the best checkpoints of %s are chosen with --%s=%s, as its "
                "trainer was started",
                *(name, given, run.folder, name, value),
            )


def _refuse_other_outputs(folder: pathlib.Path, origin: Values) -> None:
    """Refuses outputs of another split or search than those that a folder has.

    Args:
        folder: that of a schedule that decodes.
        origin: the split, if it is not dev, and the search, as records have them.

    Raises:
        UsageError: it has such outputs.
    """
    now = {SPLIT: DEV, **origin}
    names = {SPLIT: "split", SEARCH: "decode hparams"}
    for _, record in metrics_jsonl.read_records(folder):
        was = {SPLIT: DEV, SEARCH: "", **record}
        differences = [
            f"{title}: {was[name]!r} != {now[name]!r}"
            for name, title in names.items()
            if was[name] != now[name]
        ]
        if differences:
            raise UsageError(
                f"{folder} has other outputs (there != now): {'; '.join(differences)}. Give "
                "--eval_use_test_set and --decode_hparams as before, or move this folder elsewhere"
            )


class _Following:
    """What is done with the checkpoints of a run.

    Args:
        config: the settings.
        schedule: what is done.
        opened: the run.
        stop: the signals, which end an evaluation at once.
        callbacks: told the values of each checkpoint.
    """

    def __init__(
        self,
        config: TrainerConfig,
        schedule: Followed,
        opened: RunFolder,
        stop: StopSignals,
        callbacks: Callbacks,
    ) -> None:
        self._schedule = schedule
        self._run = opened
        self._minutes = config.eval_timeout_mins
        self._stop = stop
        self._callbacks = callbacks
        self._step = 0  # of the last checkpoint
        strategy = devices.make_strategy(config.worker_gpu, config.simulate_devices)
        keras.utils.set_random_seed(opened.random_seed)
        with strategy.scope():
            self._model: Seq2Seq = opened.build_model()
        decode_hparams = resolve_decode_hparams(config, opened)
        self._evaluator = Evaluator(
            opened,
            self._model,
            strategy,
            decode_hparams,
            data_dir=config.data_dir,
            split=schedule.split(config.eval_split),
            limit=config.eval_steps,
            stop=stop,
            workers=Workers(),
            decodes=not schedule.on_train_data,  # all of it, for each checkpoint
            callbacks=callbacks,
        )
        self._folder = opened.folder / schedule.folder
        self._folder.mkdir(exist_ok=True)
        self._origin = {**self._evaluator.of_split, SEARCH: decode_hparams.signature}  # of outputs
        if schedule.decodes:
            _refuse_other_outputs(self._folder, self._origin)
        self._writer = MetricsWriter(self._folder)
        self._done = {
            (record["step"], record.get(SIGNATURE))
            for _, record in metrics_jsonl.read_records(self._folder)
        }
        keep = opened.settings.keep_best_max
        self._selection = Selection(
            opened.folder, criterion_of(opened), config.keep_best_max if keep is None else keep
        )

    def follow(self, follower: followers.Follower) -> None:
        """Does it with each checkpoint, until training ends or the wait is too long."""
        work = self._decode if self._schedule.decodes else self._evaluate
        self._choose()  # a kill may have come between an evaluation and the choice
        with self._callbacks.ending(lambda: self._step):
            for path in follower.checkpoints(self._is_done, self._minutes):
                self._work(path, work)

    def _is_done(self, path: str) -> bool:
        """Whether a checkpoint has its record."""
        try:
            return (checkpoint_files.step_of(path), checkpoint_signature(path)) in self._done
        except FileNotFoundError:  # it has just been deleted
            return True

    def _work(self, path: str, work: Callable[[int, Values], None]) -> None:
        """Does it with one checkpoint; passes over one that is torn, as the trainer does."""
        try:
            signature = checkpoint_signature(path)
            step = self._run.restore_weights(self._model, path)
        except (FileNotFoundError, UserError) as error:
            if checkpoint_files.is_whole(path) and not checkpoint_files.damage(path):
                raise
            log.warning("passing over checkpoint %s, which cannot be read: %s", path, error)
            return
        self._step = step
        work(step, {SIGNATURE: signature})
        self._done.add((step, signature))
        self._choose()

    def _choose(self) -> None:
        if self._schedule.folder == EVALUATOR:
            self._selection.update()

    def _evaluate(self, step: int, name: Values) -> None:
        """Writes the record of an evaluation."""
        kind = "eval" if self._schedule.folder == EVALUATOR else self._schedule.folder
        self._evaluator(step, self._writer, kind, name)

    def _decode(self, step: int, name: Values) -> None:
        """Writes the outputs, and the record of their scores."""
        found: dict[str, Values] = {}
        for part in self._evaluator.parts:
            values: Values = dict.fromkeys(output_metrics(part.metrics), math.nan)
            base = self._folder / ".".join(filter(None, (self._run.problem.name, part.label)))
            found[part.label] = values
            try:
                with self._stop.at_once():
                    decodes = self._evaluator.decoded(part)
            except NoOutputError as error:
                log.error("step %d: no outputs: %s", step, error)
                continue
            outputs = [output.text for output in decodes.outputs]
            for path, lines in (
                (f"{base}.inputs", decodes.sources),
                (f"{base}.targets", decodes.references),
                (f"{base}-{step}", outputs),
            ):
                files.write_text(path, "".join(f"{line}\n" for line in lines))
            for score in self._evaluator.scores(step, part, decodes):
                values |= score.values
                log.info("step %d, %s-%d: %s", step, base, step, score.summary)
        values = combined(found)
        self._writer.write("decode", step, {**values, **self._origin, **name})
        self._callbacks.evaluation(step, values)
