"""Resolves a user's name of a checkpoint: a path, a step, `newest`, `best` or `averaged`."""

import os
import pathlib

from t2t_lite import files
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.checkpoint_files import CHECKPOINT_NAME
from t2t_lite.runs.search_folder import criterion_of
from t2t_lite.runs.selection import best_checkpoints


def named_checkpoint(name: str, output_dir: str) -> str:
    """Returns the prefix of a checkpoint.

    Args:
        name: in `output_dir`, the name of a checkpoint (`averaged.ckpt-300`), its step, `newest`,
            `best` or `averaged` (the most recent average); or a prefix elsewhere.
        output_dir: a run folder; may be empty if `name` is a prefix.

    Raises:
        UserError: there is no such checkpoint.
    """
    in_run = os.path.join(output_dir, name)
    for prefix in (name if "/" in name else in_run, name):
        if checkpoint_files.is_whole(prefix):
            return prefix
    return _existing(name if "/" in name else _path_in_run(name, output_dir), name, output_dir)


def _existing(path: str, name: str, output_dir: str) -> str:
    """Returns a prefix; UserError if there is no such checkpoint."""
    if not checkpoint_files.is_whole(path):
        place = f"{output_dir} has" if output_dir else "there is"
        raise UserError(
            f"{place} no checkpoint {name!r} ({path}.index is missing): name newest, best, "
            "averaged, a number of updates, or a path"
        )
    return path


def named_model(name: str, output_dir: str) -> tuple[run_folder.RunFolder, str | None]:
    """Opens the run folder of a checkpoint: the one that it lies in, or else `output_dir`.

    Args:
        name: as in `named_checkpoint`; "": the newest checkpoint in `output_dir`.
        output_dir: as in `named_checkpoint`.

    Returns:
        The run folder; the prefix of the checkpoint, or None for the newest readable one.
    """
    if not name:
        return run_folder.RunFolder.open(output_dir), None
    path = named_checkpoint(name, output_dir)
    own = pathlib.Path(path).parent
    if output_dir and not run_folder.is_run(own):
        return run_folder.RunFolder.open(output_dir), path
    return run_folder.RunFolder.open(str(own)), path


def checkpoint_of_run(name: str) -> str:
    """Returns the prefix of a checkpoint that is named together with its run folder.

    Args:
        name: a run folder, for its newest checkpoint; or `RUN/NAME`, where NAME is what
            `named_checkpoint` takes.

    Raises:
        UserError: there is no such run folder or checkpoint.
    """
    path = pathlib.Path(name)
    if not run_folder.is_run(path) and run_folder.is_run(path.parent):
        folder = str(path.parent)  # and not the working directory
        return _existing(_path_in_run(path.name, folder), path.name, folder)
    return run_folder.RunFolder.open(name).latest_checkpoint()


def checkpoints_of_runs(names: str) -> tuple[str, ...]:
    """Returns the prefixes of checkpoints, named as for `checkpoint_of_run`, with commas between.

    Raises:
        UsageError: there is no such run folder or checkpoint.
    """
    found = files.split_paths(names, lambda path: pathlib.Path(path).exists())
    return tuple(map(checkpoint_of_run, found))


def _path_in_run(name: str, output_dir: str) -> str:
    """Returns the prefix that a name without a folder stands for; see `named_checkpoint`."""
    run = run_folder.RunFolder.open(output_dir)
    if name == "newest":
        return run.latest_checkpoint()
    if name == "best":
        return best_checkpoints(run.folder, criterion_of(run), 1)[0]
    if name == "averaged":
        from t2t_lite.runs.averaging import has_other_sources  # loads TensorFlow

        averages = run.folder.glob("averaged.ckpt-*.index")
        # By time: an average of the best checkpoints may have an earlier step than an older one.
        newest = max(averages, key=lambda path: path.stat().st_mtime, default=None)
        if newest is None:
            raise UserError(f"{output_dir} holds no average: create one with t2t-avg-checkpoints")
        name = newest.stem
        if has_other_sources(str(run.folder / name), run.folder):
            raise UserError(
                f"{run.folder / name} was made of checkpoints that have since been replaced by "
                "others of the same names: create it again with t2t-avg-checkpoints, or use it "
                f"anyway with --checkpoint_path={name}"
            )
    return str(run.folder / (f"{CHECKPOINT_NAME}-{name}" if name.isdigit() else name))
