"""Warm start: initialises a new run with the weights of another, where they fit."""

import collections
import dataclasses
import logging
import pathlib
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.errors import UntrainableError, UserError
from t2t_lite.models.seq2seq import Seq2Seq, VocabularyRows
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.runs.vocabulary_match import Origins, Pair, Vocabularies, gathered, loses_rows

log = logging.getLogger(__name__)

_MOST_NAMED = 3  # weights in an error


def warm_start(model: Seq2Seq, source: str, run: RunFolder | None = None) -> None:
    """Copies the weights of another run that have the same names and shapes to a model.

    Weights with a row for each id of a vocabulary get the rows of the ids that stand for the same
    there; the rows of other ids, the mean of those that spell them there (`vocabulary_match`). Logs
    how many weights there are, and which keep their initial values; warns of hyperparameters with
    which they compute something else. Only weights are copied: no optimizer state, no step.

    Args:
        model: the model of the new run.
        source: a run folder, for its newest checkpoint, or a checkpoint in one.
        run: the new run; None: one with the vocabularies of the other.

    Raises:
        UntrainableError: nothing fits; or the hparam `warm_start_model` asks for all of it, and
            something does not fit, other than a vocabulary with more ids than that of the other.
    """
    other_run, checkpoint = open_source(source)
    other, step, _ = other_run.load_model(checkpoint)
    theirs, ours = _by_name(other), _by_name(model)
    fit = _fit(model, other, Vocabularies(run, other_run), has_vocabulary=run is not None)
    if not fit.values:
        raise UntrainableError(
            f"--warm_start_from={source}: none of its weights has the name and shape of a weight "
            f"of this {type(model).__name__}"
        )
    others = [*fit.reshaped, *fit.losing, *fit.missing]
    if model.hparams.warm_start_model and others:
        shown = "; ".join(others[:_MOST_NAMED]) + ("; ..." if len(others) > _MOST_NAMED else "")
        raise UntrainableError(
            f"--warm_start_from={source}: {len(others)} weights of the model that is trained "
            f"further (hparam warm_start_model) do not fit: {shown}. Generate the data with its "
            f"vocabulary (cp {other_run.folder}/vocab.* into --data_dir) and change none of its "
            "sizes, or set warm_start_model=false to copy what fits"
        )
    for name, value in fit.values.items():
        ours[name].assign(value)
    log.info(
        "warm start from %s (step %d): copied %d of %d weights",
        source,
        step,
        len(fit.values),
        len(ours),
    )
    _report("have another shape there and keep their initial values", fit.reshaped)
    _report("are of another vocabulary there", fit.partly)
    _report("are missing there and keep their initial values", fit.missing)
    unused = [name for name, weight in theirs.items() if id(weight) not in fit.used]
    _report("exist there, but not in this model", unused)
    for name, (own, there) in model.hparams.computed_otherwise(other.hparams).items():
        log.warning(
            "%s was trained with %s=%s, but this model has %s, with which the same weights compute "
            "something else: give --hparams=%s=%s, unless you mean it",
            *(source, name, there, own, name, there),
        )


@dataclasses.dataclass
class _Fit:
    """How the weights of another model fit those of a model.

    Attributes:
        values: of the weights that fit, by the name that they have in the model.
        missing: names of weights that the other model lacks.
        reshaped: names and shapes of those with another shape there.
        partly: names of those some of whose rows the other model lacks, with the numbers of rows.
        losing: those of `partly` that leave rows of the other model out.
        used: identities of the other model's weights that belong to one of the model's.
    """

    values: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    missing: list[str] = dataclasses.field(default_factory=list)
    reshaped: list[str] = dataclasses.field(default_factory=list)
    partly: list[str] = dataclasses.field(default_factory=list)
    losing: list[str] = dataclasses.field(default_factory=list)
    used: set[int] = dataclasses.field(default_factory=set)


def _fit(model: Seq2Seq, other: Seq2Seq, vocabularies: Vocabularies, has_vocabulary: bool) -> _Fit:
    """Finds the values of a model's weights in another model.

    Args:
        model: the model of the new run.
        other: the model of the other run.
        vocabularies: of both runs.
        has_vocabulary: whether the new run has a vocabulary, which may not be the other run's.
    """
    fit, theirs, every_row = _Fit(), _by_name(other), list(model.vocabulary_rows())
    for name, weight in _by_name(model).items():
        rows = [declared for declared in every_row if declared.weight is weight]
        pairs = _pairs(rows, other)
        there = pairs[0][1].weight if pairs else None if rows else theirs.get(name)
        if there is None:
            fit.missing.append(name)
            continue
        fit.used.add(id(there))
        if pairs and (has_vocabulary or there.shape == weight.shape):
            origins = vocabularies.origins(pairs)
            value = gathered(pairs[0], origins)
            if value is not None and any(len(rows) != 1 for rows in origins):
                fit.partly.append(f"{name} ({_counted(origins)})")
                fit.losing += fit.partly[-1:] if loses_rows(pairs[0], origins) else []
        else:
            value = there.numpy() if there.shape == weight.shape else None
        if value is None:
            fit.reshaped.append(f"{name} {tuple(weight.shape)}, there {tuple(there.shape)}")
        else:
            fit.values[name] = value
    return fit


def open_source(source: str) -> tuple[RunFolder, str | None]:
    """Returns the run that `source` names, and the checkpoint if it names one.

    Raises:
        UserError: it names neither.
    """
    path = pathlib.Path(source)
    checkpoint = None if path.is_dir() else source
    if checkpoint and not run_folder.is_run(path.parent):
        there = checkpoint_files.is_whole(checkpoint)
        raise UserError(
            f"--warm_start_from={source} {'is in no run folder' if there else 'does not exist'}: "
            "name a run folder, or a checkpoint in one"
        )
    return run_folder.RunFolder.open(str(path.parent if checkpoint else path)), checkpoint


def _pairs(rows: Sequence[VocabularyRows], other: Seq2Seq) -> list[Pair]:
    """Returns a weight's declarations, each with that of the weight there that has its role.

    A matrix that both sides share here may be several there: the first role decides.
    """
    theirs = {declared.role: declared for declared in other.vocabulary_rows()}
    pairs = [(ours, theirs[ours.role]) for ours in rows if ours.role in theirs]
    return [pair for pair in pairs if pair[1].weight is pairs[0][1].weight]


def _counted(origins: Origins) -> str:
    """Says where the rows of a weight come from."""
    copied = sum(len(rows) == 1 for rows in origins)
    initial = sum(not rows for rows in origins)
    means = len(origins) - copied - initial
    return (
        f"{copied} of {len(origins)} rows copied, {means} start from the mean of those that spell "
        f"them there, {initial} keep their initial values"
    )


def _by_name(model: Seq2Seq) -> dict[str, keras.Variable]:
    """Returns the weights by attribute path, `encoder/stack/layer_0/...`, as in checkpoints.

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
