"""Model selection: keeps the best checkpoints, and stops training that no longer improves.

Everything is derived from the evaluations of the run and the existing files, so that a run that was
killed and resumed selects the same checkpoints as an uninterrupted one. Evaluations are the
trainer's, in metrics.jsonl, and those of an evaluator beside it, in eval/metrics.jsonl.
"""

import contextlib
import dataclasses
import glob
import itertools
import logging
import math
import operator
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

from t2t_lite import files
from t2t_lite.data.problem import SPLIT_FILE_NAMES, DatasetSplit, Problem
from t2t_lite.errors import UsageError, UserError, did_you_mean, warn_once
from t2t_lite.lock import locked
from t2t_lite.metrics.parts import known_values, parts_of
from t2t_lite.runs.checkpoint_files import (
    CHECKPOINT_INDEX,
    CHECKPOINT_NAME,
    checkpoints,
    is_whole,
    step_of,
)
from t2t_lite.runs.metrics_jsonl import METRICS, read_records

log = logging.getLogger(__name__)

# The name of a best checkpoint, which is exempt from the deletion of old ones.
BEST_NAME = "best.ckpt"

EVALUATOR = "eval"  # the folder, in a run folder, of an evaluator's metrics.jsonl
SIGNATURE = "checkpoint_signature"  # the field of its records that names the checkpoint
SPLIT = "split_signature"  # the field of an evaluation that names its split; without it:
DEV = SPLIT_FILE_NAMES[DatasetSplit.EVAL]
# Fields of an evaluation that say how its search differs from the defaults, and how many batches
# loss and accuracy may be of.
SEARCH, EVAL_STEPS = "search_signature", "eval_steps_signature"

_NAMES = (BEST_NAME, CHECKPOINT_NAME)
_BEST_FILE = re.compile(rf"{re.escape(BEST_NAME)}-([0-9]+)\.(index|data-[^.]*)(\.incomplete)?")

# Values of one criterion by step, in step order.
Curve = Mapping[int, float]


@dataclasses.dataclass(frozen=True)
class Criterion:
    """A value of the evaluation, and the direction in which it improves."""

    name: str  # as in metrics.jsonl
    minimize: bool

    @classmethod
    def named(cls, name: str, problem: Problem, minimize: bool | None = None) -> "Criterion":
        """Returns the criterion of a name.

        Args:
            name: a field of evaluation records in metrics.jsonl; empty: the first metric.
            problem: what is evaluated.
            minimize: whether lower is better; None: as registered for its metric.

        Raises:
            UsageError: evaluations have no such value.
        """
        known = known_values(problem, parts_of(problem, DatasetSplit.EVAL))
        name = name or problem.metrics[0]
        if name not in known:
            raise UsageError(
                f"unknown metric {name!r}{did_you_mean(name, known)}; evaluations of this problem "
                f"have {', '.join(known)}"
            )
        return cls(name, known[name].lower_is_better if minimize is None else minimize)

    def curve(self, folder: pathlib.Path) -> Curve:
        """Returns its finite values in a run's evaluations, negated if lower is better.

        If a step has several records, the last one counts.
        """
        sign = -1.0 if self.minimize else 1.0
        found = {
            record["step"]: sign * record[self.name]
            for record in evaluations(folder)
            if math.isfinite(record.get(self.name, math.nan))
        }
        return dict(sorted(found.items()))

    def warn_if_missing(self, folder: pathlib.Path, consequence: str) -> None:
        """Warns if the last evaluation of a run lacks the value, and says what follows."""
        last = max(evaluations(folder), key=operator.itemgetter("step"), default={self.name: 0})
        if self.name not in last:
            there = [name for name, value in last.items() if isinstance(value, float)]
            warn_once(
                f"evaluations of {folder} have no {self.name}: {consequence}; name one of their "
                f"values, {', '.join(there)}"
            )


def evaluations(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the records of a run's evaluations: the trainer's, then an evaluator's."""
    records = (record for _, record in read_records(folder) if record["kind"] == "eval")
    yield from itertools.chain(records, evaluators_records(folder))


def evaluators_records(folder: pathlib.Path) -> Iterator[dict[str, Any]]:
    """Yields the records of an evaluator, but those of checkpoints that were since replaced.

    The evaluator's file is not cut back when training resumes, or begins anew: a record counts if
    the checkpoint of its step is still the one that was evaluated, or has been deleted as an old
    one. Where only best checkpoints are left, the last of them is the newest.
    """
    names = (_BEST_FILE.fullmatch(path.name) for path in folder.glob(f"{BEST_NAME}-*.index"))
    best = max((int(name[1]) for name in names if name), default=0)
    newest = max(map(step_of, checkpoints(folder)), default=best)
    for _, record in read_records(folder / EVALUATOR):
        if record["kind"] == "eval" and record["step"] <= newest and _is_current(folder, record):
            yield record


def _is_current(folder: pathlib.Path, record: Mapping[str, Any]) -> bool:
    """Whether no other checkpoint has taken the place of the one that was evaluated."""
    path = _prefix(folder, record["step"])
    try:
        return path is None or checkpoint_signature(path) == record.get(SIGNATURE)
    except FileNotFoundError:  # it has just been deleted
        return True


def checkpoint_signature(path: str) -> str:
    """Returns the SHA-256 of a checkpoint's index file, which has a checksum of every value."""
    return files.digest(path + CHECKPOINT_INDEX)


def best_steps(curve: Curve, count: int) -> list[int]:
    """Returns the steps of the `count` highest values, best first; of equals, the later first."""
    return sorted(curve, key=lambda step: (curve[step], step), reverse=True)[:count]


def has_plateaued(curve: Curve, last: int, steps: int, delta: float) -> bool:
    """Whether no value of the last `steps` updates exceeds all earlier ones by `delta`.

    Args:
        curve: values, higher is better; evaluations with NaN are left out.
        last: the step of the last evaluation.
        steps: number of updates to wait for a better value.
        delta: the smallest difference that counts as an improvement.
    """
    end = last - steps
    before = [value for step, value in curve.items() if step <= end]
    since = [value for step, value in curve.items() if step > end]
    if not before:
        return False
    earlier, later = max(before), max(since, default=-math.inf)
    return later <= earlier or later < earlier + delta  # a delta of 0 needs a gain, too


class EarlyStopping(NamedTuple):
    """When training stops: `steps` updates without an improvement by `delta`."""

    criterion: Criterion
    steps: int
    delta: float

    def is_due(self, folder: pathlib.Path) -> bool:
        """Whether a run's evaluations have stopped improving."""
        last = max((record["step"] for record in evaluations(folder)), default=0)
        return has_plateaued(self.criterion.curve(folder), last, self.steps, self.delta)


class Selection:
    """Selects checkpoints and decides on early stopping, by a run's evaluations.

    Args:
        folder: the run folder.
        criterion: which checkpoints are the best.
        keep: the number of best checkpoints to keep.
        early_stopping: when to stop; None: never.
        ends: whether to stop for another reason; asked after every evaluation.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        criterion: Criterion,
        keep: int,
        early_stopping: EarlyStopping | None = None,
        ends: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder = folder
        self._criterion = criterion
        self._keep = keep
        self._early_stopping = early_stopping
        self._ends = ends
        self.stopped = False

    def update(self) -> None:
        """Keeps the best checkpoints, and decides whether to stop.

        Call it after every evaluation, when its checkpoint is on disk.
        """
        lock = self._folder / ".best.lock"  # the trainer and an evaluator may both choose
        with locked(lock, "process", f"is choosing the best of {self._folder}", wait=True):
            curve = self._criterion.curve(self._folder)
            there = {step: value for step, value in curve.items() if _prefix(self._folder, step)}
            keep_best(self._folder, best_steps(there, self._keep))
        if self._keep:
            consequence = "none of its checkpoints is kept as the best (--best_metric)"
            self._criterion.warn_if_missing(self._folder, consequence)
        self.stop_if_due()
        self.stopped = self.stopped or self._ends()

    def stop_if_due(self) -> None:
        """Decides whether to stop."""
        rule = self._early_stopping
        if rule:
            consequence = "it never stops early (--eval_early_stopping_metric)"
            rule.criterion.warn_if_missing(self._folder, consequence)
        if rule and not self.stopped and rule.is_due(self._folder):
            self.stopped = True
            log.info(
                "stopping early: %s has not improved by %g in the last %d steps",
                rule.criterion.name,
                rule.delta,
                rule.steps,
            )


def keep_best(folder: pathlib.Path, steps: Collection[int]) -> None:
    """Keeps the checkpoints of `steps` as best.ckpt-STEP, and deletes all other best checkpoints.

    Missing checkpoints are skipped. If the process is killed, the next call completes the work.
    """
    for step in steps:
        best, own = (f"{folder}/{name}-{step}" for name in _NAMES)
        with contextlib.suppress(FileNotFoundError):  # the trainer deletes it as an old one
            if is_whole(own) and not _is_copy(best, own):
                _link(own, best)
    # Not what a user has put there under a like name.
    for path in sorted(folder.glob(f"{BEST_NAME}-*"), reverse=True):
        name = _BEST_FILE.fullmatch(path.name)
        if name and int(name[1]) not in steps and path.is_file():
            path.unlink()


def best_checkpoints(folder: pathlib.Path, criterion: Criterion, count: int) -> list[str]:
    """Returns the prefixes of the `count` best checkpoints that still exist, best first.

    Raises:
        UserError: there are fewer.
    """
    curve = criterion.curve(folder)
    steps = best_steps(curve, len(curve))
    found = [path for path in (_prefix(folder, step) for step in steps) if path]
    records = f"{METRICS} or {EVALUATOR}/{METRICS}"
    if not curve:
        raise UserError(
            f"no evaluation in {folder}/{records} has a finite {criterion.name}: train until the "
            "first evaluation (--local_eval_frequency), or name a checkpoint by its number"
        )
    if not found:
        raise UserError(
            f"{folder} holds no checkpoint with a {criterion.name} in {records}: those that were "
            "evaluated are deleted; train with a larger --keep_best_max"
        )
    if len(found) < count:
        raise UserError(
            f"{folder} holds {len(found)} checkpoints with a {criterion.name} in {records}, fewer "
            f"than {count}: ask for fewer, or train with a larger --keep_best_max"
        )
    return found[:count]


def _prefix(folder: pathlib.Path, step: int) -> str | None:
    """Returns the prefix of a step's checkpoint; None if it no longer exists."""
    return next(filter(is_whole, (f"{folder}/{name}-{step}" for name in _NAMES)), None)


def _is_copy(best: str, own: str) -> bool:
    """Whether a best checkpoint exists, with the same values as the run's own."""
    return is_whole(best) and checkpoint_signature(best) == checkpoint_signature(own)


def _link(own: str, best: str) -> None:
    """Links the files of a checkpoint to other names; copies them if links are not supported."""
    pathlib.Path(best + CHECKPOINT_INDEX).unlink(missing_ok=True)  # old names, new values: neither
    for path in sorted(glob.glob(glob.escape(own) + ".*")):  # ".data" comes before ".index"
        kept = best + path.removeprefix(own)
        pathlib.Path(kept).unlink(missing_ok=True)
        try:
            os.link(path, kept)
        except OSError:
            with files.whole_file(kept) as temporary:
                shutil.copyfile(path, temporary)
