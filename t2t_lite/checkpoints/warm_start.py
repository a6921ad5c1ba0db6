"""Warm start: initialises a new run with the weights of another, where they fit."""

import collections
import logging
import pathlib
from collections.abc import Sequence

import keras
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.run_folder import RunFolder

log = logging.getLogger(__name__)


# The weights that have a row for each subword, by the side whose vocabulary it is of.
_ROWS_OF_SUBWORDS = {
    "inputs": ("inputs_embedding/",),
    "targets": ("targets_embedding/", "softmax_embedding/", "output_projection/"),
}


def warm_start(model: Seq2Seq, source: str, run: RunFolder | None = None) -> None:
    """Copies the weights of another run that have the same names and shapes to a model.

    Logs how many there are, and which weights keep their initial values: those of another shape,
    and embeddings where the vocabulary differs. Only weights are copied: no optimizer state, no
    step.

    Args:
        model: the model of the new run.
        source: a run folder, for its newest checkpoint, or a checkpoint in one.
        run: the new run; None: one with the vocabularies of the other.

    Raises:
        UserError: it is neither, it cannot be read, or no weight fits.
    """
    path = pathlib.Path(source)
    checkpoint = None if path.is_dir() else source
    if checkpoint and not run_folder.is_run(path.parent):
        there = checkpoint_files.is_whole(checkpoint)
        raise UserError(
            f"--warm_start_from={source} {'is in no run folder' if there else 'does not exist'}: "
            "name a run folder, or a checkpoint in one"
        )
    other_run = run_folder.open_run(str(path.parent if checkpoint else path))
    other, step, _ = other_run.load_model(checkpoint)
    theirs, ours = _by_name(other), _by_name(model)
    same_shape = [n for n in ours if n in theirs and ours[n].shape == theirs[n].shape]
    other_subwords = _rows_of_other_subwords(run, other_run) if run else ()
    fitting = [name for name in same_shape if not name.startswith(other_subwords)]
    if not fitting:
        raise UserError(
            f"--warm_start_from={source}: none of its weights has the name and shape of a weight "
            f"of this {type(model).__name__}"
        )
    for name in fitting:
        ours[name].assign(theirs[name].numpy())
    log.info(
        "warm start from %s (step %d): copied %d of %d weights",
        source,
        step,
        len(fitting),
        len(ours),
    )
    shared = ours.keys() & theirs.keys()
    _report(
        "have another shape there and keep their initial values",
        [
            f"{name} {tuple(ours[name].shape)}, there {tuple(theirs[name].shape)}"
            for name in ours
            if name in shared and name not in same_shape
        ],
    )
    _report(
        "are of another vocabulary there and keep their initial values",
        [name for name in same_shape if name not in fitting],
    )
    _report("are missing there and keep their initial values", [n for n in ours if n not in shared])
    _report("exist there, but not in this model", [n for n in theirs if n not in shared])


def _rows_of_other_subwords(run: RunFolder, other: RunFolder) -> tuple[str, ...]:
    """Returns how the names of the weights begin whose rows stand for other subwords."""
    return tuple(
        start
        for side, starts in _ROWS_OF_SUBWORDS.items()
        if _subwords(run, side) != _subwords(other, side)
        for start in starts
    )


def _subwords(run: RunFolder, side: str) -> list[str]:
    """Returns what each id of a side stands for; none where the run has no such side."""
    encoder = run.encoders.get(side)
    return [encoder.decode([id_]) for id_ in range(encoder.vocab_size)] if encoder else []


def _by_name(model: Seq2Seq) -> dict[str, keras.Variable]:
    """Returns the weights by attribute path, `encoder_layers/layer_0/...`, as in checkpoints.

    (Keras's own paths depend on how many layers the process has created.)
    """
    found: dict[str, keras.Variable] = {}
    seen = {id(model)}
    queue = collections.deque([("", model)])
    while queue:
        name, node = queue.popleft()
        if isinstance(node, keras.Variable):
            found[name] = node
            continue
        for child_name, child in tf.train.TrackableView.children(node).items():
            if id(child) not in seen:
                seen.add(id(child))
                queue.append((f"{name}/{child_name}".removeprefix("/"), child))
    return found


def _report(what: str, weights: Sequence[str]) -> None:
    if weights:
        log.warning("%d weights %s: %s", len(weights), what, "; ".join(weights))
