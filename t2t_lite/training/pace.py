"""When a training saves and ends; all workers decide alike."""

import signal
import time
from collections.abc import Callable

from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.search_folder import criterion_of
from t2t_lite.runs.selection import Criterion, EarlyStopping, Selection
from t2t_lite.training.cluster.workers import Workers
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preemption import StopSignals


class Pace:
    """Decides what is due after a step.

    Args:
        config: the settings.
        workers: all of them, as seen by this one.
        stop: the signals that end training early.
        selection: decides on early stopping.
    """

    def __init__(
        self, config: TrainerConfig, workers: Workers, stop: StopSignals, selection: Selection
    ) -> None:
        self._config = config
        self._workers = workers
        self._stop = stop
        self._selection = selection
        self._start = self._saved = time.monotonic()

    def checkpoint_due(self, step: int) -> bool:
        """Whether to save: by time if so configured, else by steps; and before every evaluation."""
        config = self._config
        by_steps = step % config.local_eval_frequency == 0
        if not config.save_checkpoints_secs:
            return by_steps
        late = time.monotonic() - self._saved >= config.save_checkpoints_secs
        (late,) = self._workers.any(late)
        due = late or (by_steps and config.schedule != "train")
        if due:
            self._saved = time.monotonic()
        return due

    def must_stop(self) -> bool:
        """Whether to stop before `train_steps`; a signal to one worker stops all."""
        minutes = self._config.train_minutes
        over = minutes > 0 and time.monotonic() - self._start >= 60 * minutes
        signalled, finished = self._workers.any(
            self._stop.received is not None, over or self._selection.stopped
        )
        if signalled:
            self._workers.leave(done=True)  # each saves and ends by itself
            self._stop.received = self._stop.received or signal.SIGTERM
        return signalled or finished


def selection_of(config: TrainerConfig, run: RunFolder, ends: Callable[[], bool]) -> Selection:
    """Returns the choice of the best checkpoints, and of the end of training.

    Args:
        config: the settings.
        run: the run.
        ends: whether to end the training, as `Selection` asks it.
    """
    stopping = Criterion.named(
        config.eval_early_stopping_metric, run.problem, config.eval_early_stopping_metric_minimize
    )
    steps = config.eval_early_stopping_steps
    early_stopping = (
        EarlyStopping(stopping, steps, config.eval_early_stopping_metric_delta) if steps else None
    )
    return Selection(
        run.folder,
        criterion_of(run),
        config.keep_best_max,
        early_stopping,
        ends,
    )
