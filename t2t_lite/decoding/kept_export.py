"""The export for CTranslate2 that a run folder keeps for each of its checkpoints in use."""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any, NamedTuple

from t2t_lite import files, json_files
from t2t_lite.alignment.shortlist import VMAP, Shortlist
from t2t_lite.decoding.config import FLOAT32
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.runs import checkpoint_files

log = logging.getLogger(__name__)

FOLDER = "engines"  # in the run folder
_ABOUT = "engine.json"  # written last: what `KeptExport` holds, and what the export was made of
_MOST = 3  # exports that a run folder keeps
_FORMAT = 1  # of the export; another one is made again


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

    It is made if the run folder does not have it yet. Of several, the least recently used go.

    Args:
        trained: the run, and the prefix of a checkpoint; "": the newest.
        compute_type: what CTranslate2 computes in; weights are stored as it needs them, so that
            they need not be converted in memory.
        shortlist: what outputs may consist of, which is part of an export; None: all ids.

    Raises:
        UserError: CTranslate2 cannot hold the model, or the checkpoint cannot be read.
    """
    folder = trained.run.folder / FOLDER
    vmap = "".join(f"{line}\n" for line in shortlist.lines()) if shortlist else ""
    form = _Form("int8" if compute_type.startswith("int8") else compute_type, vmap)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot create {folder}, where --engine=ctranslate2 keeps its export: {error}; make "
            "the run folder writable, or use --engine=tensorflow"
        ) from error
    with locked(folder / ".lock", "t2t_lite command", f"is using {folder}", wait=True):
        newest = checkpoint_files.whole_checkpoints(trained.run.folder)
        checkpoint = trained.checkpoint or (newest[-1] if newest else "")
        found = None
        if checkpoint:
            trained = dataclasses.replace(trained, checkpoint=checkpoint)
            found = _find(folder, trained, form)
        if found is None:
            found, trained = _make(folder, trained, form)
        os.utime(found.folder)
        _prune(folder)
        yield found, trained


def _find(folder: pathlib.Path, trained: TrainedModel, form: _Form) -> KeptExport | None:
    """Returns the export of a checkpoint, if there is one."""
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
    about = json.dumps({"format": _FORMAT, **form._asdict(), **trained.origin()}, sort_keys=True)
    digest = hashlib.sha256(about.encode()).hexdigest()[:16]
    return f"ctranslate2-{pathlib.Path(trained.checkpoint).name}-{digest}"


def _prune(folder: pathlib.Path) -> None:
    """Deletes all exports but those used last."""
    kept = sorted(folder.glob("ctranslate2-*"), key=lambda path: path.stat().st_mtime)
    for path in kept[:-_MOST]:
        shutil.rmtree(path, ignore_errors=True)
