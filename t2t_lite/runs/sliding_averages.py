"""The averages of all checkpoints of a run, in a folder of their own: `t2t-avg-all`."""

import functools
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence

from t2t_lite import files
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files, followers, metrics_jsonl, run_folder
from t2t_lite.runs.averaging import (
    Mean,
    has_other_sources,
    is_of_training,
    made_of,
    names_in,
    recipe_of,
    sources_in,
    writing,
)
from t2t_lite.runs.checkpoint_files import (
    delete_checkpoint,
    is_whole,
    list_checkpoints,
    step_of,
    whole_checkpoints,
    written_at,
)
from t2t_lite.runs.opening import refuse_another_run

log = logging.getLogger(__name__)


def average_all(
    run: run_folder.RunFolder, output_dir: str, count: int, min_steps: int
) -> list[str]:
    """Writes, for every checkpoint of a run, the average of it and the `count - 1` before it.

    Args:
        run: the run.
        output_dir: the folder to write to, a run folder for decoding. Each average is named after
            its last checkpoint. Existing averages of the same checkpoints are kept, those of other
            checkpoints are replaced or deleted.
        count: number of checkpoints per average.
        min_steps: earlier checkpoints are ignored.

    Returns:
        The prefixes of the new averages.

    Raises:
        UserError: the run has fewer than `count` checkpoints.
    """
    averages = _Averages(run, pathlib.Path(output_dir), count, min_steps)
    return averages.update(averages.enough_sources())


def average_arriving(
    run: run_folder.RunFolder, output_dir: str, count: int, min_steps: int, minutes: float
) -> Iterator[str]:
    """Does what `average_all` does, also with the checkpoints that a training has yet to save.

    Args:
        run: the run.
        output_dir: as in `average_all`.
        count: as in `average_all`.
        min_steps: as in `average_all`.
        minutes: how long to wait for the next checkpoint; -1: for ever.

    Yields:
        The prefix of each new average, once it is written.

    Raises:
        UserError: in the end, there is no average: the run has fewer than `count` checkpoints.
    """
    folder = pathlib.Path(output_dir)
    averages = _Averages(run, folder, count, min_steps)

    def is_done(path: str) -> bool:  # false at first: averages of another count are to go
        return step_of(path) < min_steps or averages.is_right(path)

    name = f"average-{files.text_digest(str(folder.absolute()))}"
    for _ in followers.checkpoints_of(run.folder, name, is_done, minutes, before=count - 1):
        there = averages.sources()
        if len(there) >= count:
            yield from averages.update(there)
    averages.require_one()


class _Averages:
    """The averages of a run's checkpoints in a folder of their own.

    Args:
        run: the run.
        folder: the folder.
        count: number of checkpoints per average.
        min_steps: earlier checkpoints are ignored.

    Raises:
        UserError: the folder holds something else.
    """

    def __init__(
        self, run: run_folder.RunFolder, folder: pathlib.Path, count: int, min_steps: int
    ) -> None:
        _refuse_other_folder(run, folder)
        self._run = run
        self._folder = folder
        self._count = count
        self._min_steps = min_steps
        # Averages that are right, which are not read again, and the checkpoints by which that was
        # found; with the times at which they were written.
        self._right: dict[str, int | None] = {}
        self._sources: list[tuple[str, int | None]] = []

    @functools.cached_property
    def _mean(self) -> Mean:
        return Mean(self._run)

    def sources(self) -> list[str]:
        """Returns the prefixes of the checkpoints to average, in step order."""
        there = whole_checkpoints(self._run.folder)
        return [path for path in there if step_of(path) >= self._min_steps]

    def enough_sources(self) -> list[str]:
        """Returns `sources`; UserError if they are too few for an average."""
        there = self.sources()
        if len(there) < self._count:
            raise UserError(
                f"{self._run.folder} holds {len(there)} checkpoints from step {self._min_steps} "
                f"on, fewer than {self._count}: lower --n, or train with a larger "
                "--keep_checkpoint_max"
            )
        return there

    def is_right(self, source: str) -> bool:
        """Whether `update` has written, or found right, the average that ends with a checkpoint."""
        return str(self._folder / os.path.basename(source)) in self._right

    def require_one(self) -> None:
        """Raises UserError if there is no average of so many checkpoints."""
        there = whole_checkpoints(self._folder)
        if not self._right and all(_fault(path, self._run, None, self._count) for path in there):
            self.enough_sources()

    def update(self, sources: Sequence[str]) -> list[str]:
        """Writes the averages that are missing, and deletes wrong ones.

        Args:
            sources: the prefixes of the checkpoints, at least as many as an average has.

        Returns:
            The prefixes of the new averages.
        """
        wanted = {
            str(self._folder / os.path.basename(sources[end - 1])): sources[end - self._count : end]
            for end in range(self._count, len(sources) + 1)
        }
        mean = self._mean
        with writing(self._folder, "averages"):
            _copy_run(self._run, self._folder)
            self._forget_if_changed(sources)
            self._delete_others(wanted)
            missing = [path for path in wanted if not is_whole(path)]
            for path in missing:
                mean.take(wanted[path])
                mean.write(path)
                self._right[path] = written_at(path)
            list_checkpoints(self._folder, whole_checkpoints(self._folder))
        return missing

    def _forget_if_changed(self, sources: Sequence[str]) -> None:
        """Has all averages read again if a checkpoint was replaced, or deleted among newer ones."""
        now = [(path, written_at(path)) for path in sources]
        kept = [one for one in self._sources if step_of(one[0]) >= step_of(sources[0])]
        if now[: len(kept)] != kept:
            self._right.clear()
        self._sources = now

    def _delete_others(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Deletes the averages of other checkpoints, with a warning.

        Args:
            wanted: the checkpoints of each desired average, by its prefix.
        """
        written = {path: written_at(path) for path in checkpoint_files.checkpoints(self._folder)}
        there = [path for path, time in written.items() if time != self._right.get(path, -1)]
        sources = self._run.folder
        is_of_several_runs = any(has_other_sources(path, sources) for path in there)
        unknown = 0
        for path in there:
            fault = _fault(path, self._run, wanted.get(path), self._count)
            is_known = path in wanted or _has_sources(path, sources)
            if is_of_several_runs and not is_known:
                fault = fault or "was made of checkpoints that are not here"
            if fault:
                action = "replaced" if path in wanted else "deleted"
                log.warning("%s %s: it is %s", path, fault, action)
                delete_checkpoint(path)
                continue
            self._right[path] = written[path]
            unknown += not is_known
        if unknown:
            log.info("kept %d averages of checkpoints that are no longer in %s", unknown, sources)


def _refuse_other_folder(run: run_folder.RunFolder, folder: pathlib.Path) -> None:
    """Makes sure that a folder holds averages of this run, or no run."""
    there = checkpoint_files.checkpoints(folder)
    if (
        any(map(is_of_training, there))
        or _was_trained(folder)
        or os.path.realpath(folder) == os.path.realpath(run.folder)
    ):
        raise UserError(f"{folder} holds checkpoints of a run: choose another --output_dir")
    if there and run_folder.is_run(folder):
        old = run_folder.RunFolder.open(str(folder))
        refuse_another_run(old, run.settings, run.hparams)
        run.refuse_other_vocabulary(str(folder))


def _was_trained(folder: pathlib.Path) -> bool:
    """Whether a folder has a trainer's metrics, and not those of `--schedule=evaluate` alone."""
    kinds = {record["kind"] for _, record in metrics_jsonl.read_records(folder)}
    return (folder / metrics_jsonl.METRICS).is_file() and kinds != {"evaluate"}


def _has_sources(average_path: str, folder: pathlib.Path) -> bool:
    """Whether `folder` has a checkpoint named in an average's recipe."""
    recipe = made_of(average_path)
    return recipe is not None and any(sources_in(recipe, folder))


def _fault(path: str, run: run_folder.RunFolder, wanted: Sequence[str] | None, count: int) -> str:
    """Returns why an average is not the desired one; "" if it is, or if that is unknown.

    Args:
        path: its prefix.
        run: the run that it should be of.
        wanted: the checkpoints that it should be of; None: any of the run.
        count: the number of checkpoints that it should be of.
    """
    if reason := checkpoint_files.damage(path):
        return f"cannot be read ({reason})"
    recipe = made_of(path)
    if recipe is None:
        return "has no record of what it was made of" if wanted else ""
    if wanted:
        matches = recipe == recipe_of(wanted)
    else:
        matches = recipe["n"] == count and not has_other_sources(path, run.folder)
    return "" if matches else f"was made of other checkpoints ({names_in(recipe)})"


def _copy_run(run: run_folder.RunFolder, folder: pathlib.Path) -> None:
    """Copies the files that decoding needs beside a checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = (run_folder.HPARAMS, run_folder.VERSIONS, run_folder.FLAGS)
    for name in (*run.problem.vocab_files(), *settings):
        with files.whole_file(folder / name) as temporary:
            shutil.copyfile(run.folder / name, temporary)
