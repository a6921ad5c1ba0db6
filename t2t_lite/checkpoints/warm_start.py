"""Warm start: initialises a new run with the weights of another, where they fit."""

import collections
import logging
import pathlib
from collections.abc import Sequence

import keras
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.models.seq2seq import Seq2Seq
from t2t_lite.runs import run_folder

log = logging.getLogger(__name__)


def warm_start(model: Seq2Seq, source: str) -> None:
    """Copies the weights of another run that have the same names and shapes to a model.

    Logs how many there are, and which weights keep their initial values, such as embeddings when
    the vocabulary differs. Only weights are copied: no optimizer state, no step.

    Args:
        model: the model of the new run.
        source: a run folder, for its newest checkpoint, or a checkpoint in one.

    Raises:
        UserError: it is neither, it cannot be read, or no weight fits.
    """
    path = pathlib.Path(source)
    checkpoint = None if path.is_dir() else source
    other_run = run_folder.open_run(str(path.parent if checkpoint else path))
    other, step, _ = other_run.load_model(checkpoint)
    theirs, ours = _by_name(other), _by_name(model)
    fitting = [name for name in ours if name in theirs and ours[name].shape == theirs[name].shape]
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
            if name in shared and name not in fitting
        ],
    )
    _report("are missing there and keep their initial values", [n for n in ours if n not in shared])
    _report("exist there, but not in this model", [n for n in theirs if n not in shared])


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
