"""The export for CTranslate2 that a run folder keeps for each of its checkpoints in use.

An export is named by the digest of its origin: of all that it was made from (kept_work.py). That of
a run folder that cannot be written is in the user's cache, where the same name finds it.
"""

import contextlib
import dataclasses
import json
import logging
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from t2t_lite import files, json_files, kept_work
from t2t_lite.decoding.config import FLOAT32
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.runs import checkpoint_files
from t2t_lite.text.alignment.shortlist import VMAP, Shortlist
from t2t_lite.version import __version__

log = logging.getLogger(__name__)

FOLDER = "engines"  # in the run folder, or in the user's cache of this package
_ABOUT = "engine.json"  # written last: what `KeptExport` holds
_MOST, _MOST_IN_CACHE = 3, 10  # exports that a run folder keeps, and the user's cache for all runs


@dataclasses.dataclass(frozen=True)
class KeptExport:
    """An export, and what an engine must know of the model besides.

    Attributes:
        folder: CTranslate2's model; its tokens are our ids as text.
        never_output: the ids that the model never outputs.
        positions: most ids of a source or an output; 0: any number.
        learned_positions: the positions that the model has learned; 0: it knows all.
    """

    folder: pathlib.Path
    never_output: tuple[int, ...]
    positions: int
    learned_positions: int


class _Form(NamedTuple):
    """What determines an export, other than the model."""

    quantization: str
    vmap: str  # the short list as CTranslate2 reads it


@contextlib.contextmanager
def kept_export(
    trained: TrainedModel, compute_type: str = FLOAT32, shortlist: Shortlist | None = None
) -> Iterator[tuple[KeptExport, TrainedModel]]:
    """Yields the export of a checkpoint, which no other process deletes during the block.

    It is made if neither the run folder nor the user's cache has it yet. Of several, the least
    recently used go.

    Args:
        trained: the run, and the prefix of a checkpoint; "": the newest.
        compute_type: what CTranslate2 computes in; weights are stored as it needs them, so that
            they need not be converted in memory.
        shortlist: what outputs may consist of, which is part of an export; None: all ids.

    Raises:
        UserError: CTranslate2 cannot hold the model, or the checkpoint cannot be read or was
            replaced meanwhile, or there is nowhere to keep the export.
    """
    vmap = "".join(f"{line}\n" for line in shortlist.lines()) if shortlist else ""
    form = _Form("int8" if compute_type.startswith("int8") else compute_type, vmap)
    if not trained.checkpoint:
        newest = checkpoint_files.whole_checkpoints(trained.run.folder)
        trained = dataclasses.replace(trained, checkpoint=newest[-1] if newest else "")
    if trained.checkpoint and trained.fingerprint is None:
        trained = trained.fingerprinted()
    own = trained.run.folder / FOLDER
    is_writable = _is_writable(own)
    if not is_writable and (found := _find(own, trained, form)):
        yield found, trained  # made while the run folder could be written
        return
    folder = own if is_writable else _folder_in_cache(own)
    with locked(folder / ".lock", "t2t_lite command", f"is using {folder}", wait=True):
        found = _find(folder, trained, form)
        if found is None:
            found, trained = _make(folder, trained, form)
        os.utime(found.folder)
        _prune(folder, _MOST if is_writable else _MOST_IN_CACHE)
        yield found, trained


def _is_writable(folder: pathlib.Path) -> bool:
    """Whether files can be made in a folder, which is created if missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # By trying: neither modes nor `os.access` tell of all file systems.
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _folder_in_cache(own: pathlib.Path) -> pathlib.Path:
    """Returns the folder in the user's cache that stands for one that cannot be written."""
    places = os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")
    cache = next(filter(os.path.isabs, places), "")  # a user without a home has none
    folder = pathlib.Path(cache, "t2t_lite", FOLDER)
    if not (cache and _is_writable(folder)):
        raise UserError(
            f"neither {own} nor {folder} can be written, where --engine=ctranslate2 keeps its "
            "export: make one of them writable, name another cache in the environment variable "
            "XDG_CACHE_HOME, or use --engine=tensorflow"
        )
    log.info("%s cannot be written: the export for CTranslate2 is kept in %s", own, folder)
    return folder


def _find(folder: pathlib.Path, trained: TrainedModel, form: _Form) -> KeptExport | None:
    """Returns the export of a checkpoint, if there is one."""
    if not trained.checkpoint:
        return None
    path = folder / _name(trained, form)
    if not (path / _ABOUT).is_file():
        return None
    about = json_files.read_object(path / _ABOUT)
    about.check({"never_output": list, "positions": int, "learned_positions": int})
    never = tuple(about["never_output"])
    return KeptExport(path, never, about["positions"], about["learned_positions"])


def _make(
    folder: pathlib.Path, trained: TrainedModel, form: _Form
) -> tuple[KeptExport, TrainedModel]:
    """Makes an export, whole or not at all."""
    # Here, since they load TensorFlow, which an engine with an export does not need.
    from t2t_lite.decoding.ctranslate2_model import POSITIONS, convert, limits_positions
    from t2t_lite.models.finite_weights import require_finite_weights

    log.info("making the export for CTranslate2, which is kept in %s", folder)
    model, trained = trained.load("float32")
    require_finite_weights(model, trained.checkpoint)
    try:
        spec = convert(model, quantization=form.quantization, is_for_engine=True)
    except UserError as error:
        reason = str(error).partition("; export a SavedModel")[0]
        raise UserError(f"--engine=ctranslate2: {reason}; use --engine=tensorflow") from None
    about: dict[str, Any] = {
        "never_output": [*model.never_output],
        "positions": POSITIONS if limits_positions(model) else 0,
        "learned_positions": model.learned_positions,
    }
    path = folder / _name(trained, form)
    with files.whole_folder(path) as made:
        spec.save(str(made))
        if form.vmap:
            files.write_text(made / VMAP, form.vmap)
        files.write_text(made / _ABOUT, json.dumps(about, indent=1) + "\n")
    found = _find(folder, trained, form)
    assert found is not None
    return found, trained


def _name(trained: TrainedModel, form: _Form) -> str:
    """Returns the name of the folder for an export: of all that determines it."""
    origin = {"release": __version__, **form._asdict(), **trained.origin()}
    name = pathlib.Path(trained.checkpoint).name
    return f"ctranslate2-{name}-{kept_work.digest(origin)[:16]}"


def _prune(folder: pathlib.Path, most: int) -> None:
    """Deletes all exports but those used last, and what killed processes left of others."""
    found = {path for path in folder.glob("ctranslate2-*") if path.suffix != files.INCOMPLETE}
    for path in sorted(found, key=lambda path: path.stat().st_mtime)[:-most]:
        # Under another name first: nobody takes half an export for a whole one.
        path.rename(path.with_name(path.name + files.INCOMPLETE))
    for path in folder.glob(f"*{files.INCOMPLETE}"):
        shutil.rmtree(path, ignore_errors=True)
