"""Creates run folders: the lock, the settings and the copy of the vocabulary."""

import contextlib
import importlib.metadata
import json
import pathlib
import platform
import shutil
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from t2t_lite import files, registry
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.runs import checkpoint_files
from t2t_lite.runs.metrics_jsonl import METRICS
from t2t_lite.runs.run_folder import FLAGS, HPARAMS, VERSIONS, RunFolder, own_files
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.version import __version__

if TYPE_CHECKING:
    from t2t_lite.hparams.basic import BasicHParams


_PACKAGES = ("tensorflow", "keras", "tensorflow-text", "sentencepiece", "sacrebleu", "numpy")


@contextlib.contextmanager
def exclusive(output_dir: str) -> Iterator[None]:
    """Locks a run folder against other trainers within the block; creates it if missing.

    If the block fails before anything is trained, what it has written is removed.
    """
    folder = pathlib.Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with locked(folder / ".trainer.lock", "t2t-trainer", f"is using {folder}"):
            before = {path for path in own_files(folder) if path.exists()}
            try:
                yield
            except BaseException:
                _remove_unless_trained(folder, before)
                raise
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if it is still empty


def _remove_unless_trained(folder: pathlib.Path, kept: Collection[pathlib.Path]) -> None:
    """Removes a run's files, except `kept` ones, if it has no checkpoint and no metrics."""
    metrics = folder / METRICS
    if checkpoint_files.checkpoints(folder) or (metrics.is_file() and metrics.stat().st_size):
        return
    for path in own_files(folder):
        if path not in kept:
            path.unlink(missing_ok=True)


def create_run(settings: RunSettings, hparams: "BasicHParams", data_dir: str) -> RunFolder:
    """Creates a run folder, or writes new settings to one.

    Args:
        settings: the trainer's, including output_dir.
        hparams: the resolved hyperparameters.
        data_dir: the folder to copy the vocabulary from.
    """
    folder = pathlib.Path(settings.output_dir)
    registry.problem(settings.problem).get_feature_encoders(data_dir)  # before there is a folder
    folder.mkdir(parents=True, exist_ok=True)
    write_run(folder, settings, hparams, data_dir)
    return RunFolder.open(str(folder))


def write_run(
    folder: pathlib.Path, settings: RunSettings, hparams: "BasicHParams", data_dir: str
) -> None:
    """Writes the settings of a run and copies its vocabulary to an existing folder.

    Args:
        folder: the run folder.
        settings: the trainer's.
        hparams: the resolved hyperparameters.
        data_dir: the folder to copy the vocabulary from.
    """
    for name in registry.problem(settings.problem).vocab_files():
        _copy_vocabulary(pathlib.Path(data_dir) / name, folder / name)
    files.write_text(folder / HPARAMS, hparams.to_json())
    files.write_text(folder / VERSIONS, json.dumps(versions(), indent=1) + "\n")
    # Last: a folder that has this file has all the others.
    files.write_text(folder / FLAGS, settings.to_json())


def _copy_vocabulary(source: pathlib.Path, copy: pathlib.Path) -> None:
    if copy.is_file():
        if copy.read_bytes() != source.read_bytes():
            raise UserError(
                f"{copy}, which this run was trained with, differs from {source}: "
                "use the run's own --data_dir, or another --output_dir"
            )
        return
    with files.whole_file(copy) as temporary:
        shutil.copyfile(source, temporary)


def versions() -> dict[str, str | None]:
    """Returns the releases of this package and of its main dependencies; None: not installed."""
    own = {"t2t_lite": __version__, "python": platform.python_version()}
    return own | {name: _version(name) for name in _PACKAGES}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
