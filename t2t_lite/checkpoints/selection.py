"""Choosing the model: the best checkpoints are kept, and training stops when none gets better.

All is derived from the evaluations in metrics.jsonl and the files that are there, so that a run
that was killed and resumed chooses as an undisturbed one does.
"""

import dataclasses
import glob
import logging
import math
import os
import pathlib
import shutil
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from t2t_lite import files
from t2t_lite.errors import UsageError, UserError, did_you_mean
from t2t_lite.evaluation.metrics import check_metrics, evaluation_values
from t2t_lite.runs.checkpoint_files import CHECKPOINT_INDEX, CHECKPOINT_NAME, is_whole
from t2t_lite.runs.metrics_file import METRICS, read_metrics

if TYPE_CHECKING:
    from t2t_lite.training.config import TrainerConfig

log = logging.getLogger(__name__)

# The name of a kept checkpoint; TensorFlow's list of checkpoints to delete does not have it.
BEST_NAME = "best.ckpt"

_NAMES = (BEST_NAME, CHECKPOINT_NAME)

# Values of one criterion by step, in the order of the steps.
Curve = Mapping[int, float]


@dataclasses.dataclass(frozen=True)
class Criterion:
    """A number of the evaluation, and which way it gets better."""

    name: str  # as in metrics.jsonl
    minimize: bool

    @classmethod
    def named(cls, name: str, metrics: Sequence[str], minimize: bool | None = None) -> "Criterion":
        """Returns the number of that name.

        Args:
            name: one of an evaluation record of metrics.jsonl; empty: the first metric's.
            metrics: `Problem.metrics`.
            minimize: whether lower is better; None: as its metric says.

        Raises:
            UsageError: evaluations of such a problem have no such number.
        """
        known = evaluation_values(metrics)
        name = name or metrics[0]
        if name not in known:
            raise UsageError(
                f"unknown metric {name!r}{did_you_mean(name, known)}; known are {', '.join(known)}"
            )
        return cls(name, known[name].lower_is_better if minimize is None else minimize)

    def curve(self, folder: pathlib.Path) -> Curve:
        """Returns its finite values in the evaluations of a run folder, turned: higher is better.

        The record that counts is a step's last.
        """
        sign = -1.0 if self.minimize else 1.0
        return {
            record["step"]: sign * record[self.name]
            for _, record in read_metrics(folder)
            if record["kind"] == "eval" and math.isfinite(record.get(self.name, math.nan))
        }


def _evaluated(folder: pathlib.Path) -> list[int]:
    """Returns the steps of all evaluations of a run folder."""
    return [record["step"] for _, record in read_metrics(folder) if record["kind"] == "eval"]


def best_steps(curve: Curve, count: int) -> list[int]:
    """Returns the steps of the `count` highest values, the best first; of equals, the later."""
    return sorted(curve, key=lambda step: (curve[step], step), reverse=True)[:count]


def has_plateaued(curve: Curve, last: int, steps: int, delta: float) -> bool:
    """Whether the last `steps` updates brought no value that is higher by `delta` than before.

    Args:
        curve: values, higher is better; evaluations that gave NaN have none.
        last: the step of the last evaluation.
        steps: updates to wait for a better value.
        delta: the least difference that counts as better.
    """
    end = last - steps
    before = [value for step, value in curve.items() if step <= end]
    since = [value for step, value in curve.items() if step > end]
    return bool(before) and max(since, default=-math.inf) < max(before) + delta


class Selection:
    """What a training run does with its evaluations.

    Args:
        folder: the run folder.
        config: which metrics count, how many checkpoints to keep, and how long to wait.
        metrics: `Problem.metrics`.

    Raises:
        UsageError: evaluations of this problem have no such metric.
        UserError: one of its metrics cannot score on this machine.
    """

    def __init__(
        self, folder: pathlib.Path, config: "TrainerConfig", metrics: Sequence[str]
    ) -> None:
        check_metrics(metrics)
        self._folder = folder
        self._keep = config.keep_best_max
        self._best = Criterion.named(config.best_metric, metrics)
        self._steps = config.eval_early_stopping_steps
        self._delta = config.eval_early_stopping_metric_delta
        self._stopping = Criterion.named(
            config.eval_early_stopping_metric,
            metrics,
            config.eval_early_stopping_metric_minimize,
        )
        self.stopped = False

    def update(self) -> None:
        """Keeps the best checkpoints, and decides whether to go on; after every evaluation.

        The checkpoint of the evaluation must have reached the disk.
        """
        curve = self._best.curve(self._folder)
        there = {step: value for step, value in curve.items() if _prefix(self._folder, step)}
        keep_best(self._folder, best_steps(there, self._keep))
        if self._steps is not None and not self.stopped:
            curve = self._stopping.curve(self._folder)
            last = max(_evaluated(self._folder), default=0)
            self.stopped = has_plateaued(curve, last, self._steps, self._delta)
            if self.stopped:
                log.info(
                    "stopping early: %s has not improved by %g in the last %d steps",
                    self._stopping.name,
                    self._delta,
                    self._steps,
                )


def keep_best(folder: pathlib.Path, steps: Collection[int]) -> None:
    """Gives the checkpoints of `steps` names under which they stay, and deletes all other such.

    A checkpoint that is no longer there is passed over. What a kill leaves half done, the next
    call finishes.
    """
    for step in steps:
        best, own = (f"{folder}/{name}-{step}" for name in _NAMES)
        if is_whole(own) and not _is_copy(best, own):
            _link(own, best)
    names = {f"{BEST_NAME}-{step}" for step in steps}
    for path in sorted(folder.glob(f"{BEST_NAME}-*"), reverse=True):
        if path.name.partition(".data")[0].removesuffix(CHECKPOINT_INDEX) not in names:
            path.unlink()


def best_checkpoints(folder: pathlib.Path, criterion: Criterion, count: int) -> list[str]:
    """Returns the prefixes of the `count` best checkpoints that are still there, best first.

    Raises:
        UserError: there are fewer.
    """
    curve = criterion.curve(folder)
    steps = best_steps(curve, len(curve))
    found = [path for path in (_prefix(folder, step) for step in steps) if path]
    if len(found) < count:
        raise UserError(
            f"{folder} holds {len(found)} checkpoints with a {criterion.name} in {METRICS}, fewer "
            f"than {count}: ask for fewer, or train with a larger --keep_best_max"
        )
    return found[:count]


def _prefix(folder: pathlib.Path, step: int) -> str | None:
    """Returns where a step's checkpoint is; None: no longer there."""
    return next(filter(is_whole, (f"{folder}/{name}-{step}" for name in _NAMES)), None)


def _is_copy(best: str, own: str) -> bool:
    """Whether a kept checkpoint is there, and of the same values as the run's own."""
    return is_whole(best) and (
        files.digest(best + CHECKPOINT_INDEX) == files.digest(own + CHECKPOINT_INDEX)
    )


def _link(own: str, best: str) -> None:
    """Gives the files of a checkpoint second names, or copies them where there are no links."""
    pathlib.Path(best + CHECKPOINT_INDEX).unlink(missing_ok=True)  # old names, new values: neither
    for path in sorted(glob.glob(glob.escape(own) + ".*")):  # ".data" comes before ".index"
        kept = best + path.removeprefix(own)
        pathlib.Path(kept).unlink(missing_ok=True)
        try:
            os.link(path, kept)
        except OSError:
            with files.whole_file(kept) as temporary:
                shutil.copyfile(path, temporary)
