"""Warm start: initialises a new run with the weights of another, where they fit."""

import collections
import logging
import pathlib
from collections.abc import Sequence

import keras
import numpy as np
import tensorflow as tf

from t2t_lite.errors import UserError
from t2t_lite.models.seq2seq import Seq2Seq, VocabularyRows
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.text.text_encoder import RESERVED_TOKENS, TextEncoder

log = logging.getLogger(__name__)

_MOST_NAMED = 3  # weights in an error


def warm_start(model: Seq2Seq, source: str, run: RunFolder | None = None) -> None:
    """Copies the weights of another run that have the same names and shapes to a model.

    Weights with a row for each id of a vocabulary get the rows of the ids that stand for the same
    there. Logs how many weights there are, and which keep their initial values. Only weights are
    copied: no optimizer state, no step.

    Args:
        model: the model of the new run.
        source: a run folder, for its newest checkpoint, or a checkpoint in one.
        run: the new run; None: one with the vocabularies of the other.

    Raises:
        UserError: nothing fits; or not all does, and the hparam `warm_start_model` asks for it.
    """
    other_run, checkpoint = open_source(source)
    other, step, _ = other_run.load_model(checkpoint)
    theirs, ours = _by_name(other), _by_name(model)
    vocabularies = _Vocabularies(run, other_run)
    values: dict[str, np.ndarray] = {}
    missing, partly, reshaped = [], [], []
    used = set()
    every_row = list(model.vocabulary_rows())
    for name, weight in ours.items():
        rows = [declared for declared in every_row if declared.weight is weight]
        pairs = _pairs(rows, other)
        there = pairs[0][1].weight if pairs else None if rows else theirs.get(name)
        if there is None:
            missing.append(name)
            continue
        used.add(id(there))
        if pairs and (run or there.shape == weight.shape):
            matched = vocabularies.match(pairs)
            value = _gathered(pairs[0], matched)
            if value is not None and (matched < 0).any():
                partly.append(f"{name} ({(matched >= 0).sum()} of {len(matched)} rows copied)")
        else:
            value = there.numpy() if there.shape == weight.shape else None
        if value is None:
            reshaped.append(f"{name} {tuple(weight.shape)}, there {tuple(there.shape)}")
            continue
        values[name] = value
    if not values:
        raise UserError(
            f"--warm_start_from={source}: none of its weights has the name and shape of a weight "
            f"of this {type(model).__name__}"
        )
    others = [*reshaped, *partly, *missing]
    if model.hparams.warm_start_model and others:
        shown = "; ".join(others[:_MOST_NAMED]) + ("; ..." if len(others) > _MOST_NAMED else "")
        raise UserError(
            f"--warm_start_from={source}: {len(others)} weights of the model that is trained "
            f"further (hparam warm_start_model) do not fit: {shown}. Generate the data with its "
            f"vocabulary (cp {other_run.folder}/vocab.* into --data_dir) and change none of its "
            "sizes, or set warm_start_model=false to copy what fits"
        )
    for name, value in values.items():
        ours[name].assign(value)
    log.info(
        "warm start from %s (step %d): copied %d of %d weights",
        source,
        step,
        len(values),
        len(ours),
    )
    _report("have another shape there and keep their initial values", reshaped)
    _report("are of another vocabulary there; rows that it lacks keep their initial values", partly)
    _report("are missing there and keep their initial values", missing)
    unused = [name for name, weight in theirs.items() if id(weight) not in used]
    _report("exist there, but not in this model", unused)


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


def _pairs(
    rows: Sequence[VocabularyRows], other: Seq2Seq
) -> list[tuple[VocabularyRows, VocabularyRows]]:
    """Returns a weight's declarations, each with that of the weight there that has its role.

    A matrix that both sides share here may be several there: the first role decides.
    """
    theirs = {declared.role: declared for declared in other.vocabulary_rows()}
    pairs = [(ours, theirs[ours.role]) for ours in rows if ours.role in theirs]
    return [pair for pair in pairs if pair[1].weight is pairs[0][1].weight]


def _gathered(
    pair: tuple[VocabularyRows, VocabularyRows], matched: np.ndarray
) -> np.ndarray | None:
    """Returns the new value of a weight; None where a row has another shape there.

    Args:
        pair: the declarations here and there.
        matched: for each row here, the row there; -1: none.
    """
    ours, theirs = pair
    value = np.moveaxis(ours.weight.numpy(), ours.axis, 0)
    there = np.moveaxis(theirs.weight.numpy(), theirs.axis, 0)
    if value.shape[1:] != there.shape[1:]:
        return None
    value = value.copy()
    value[matched >= 0] = there[matched[matched >= 0]]
    return np.moveaxis(value, 0, ours.axis)


class _Vocabularies:
    """Matches the ids of two runs by what they stand for.

    Args:
        run: the new run; None: its vocabularies are those of the other.
        other: the other run.
    """

    def __init__(self, run: RunFolder | None, other: RunFolder) -> None:
        self._ours = None if run is None else _symbols(run)
        self._theirs = {} if run is None else _symbols(other)

    def match(self, pairs: Sequence[tuple[VocabularyRows, VocabularyRows]]) -> np.ndarray:
        """Returns, for each row of a weight, the row of the weight there; -1: none.

        Args:
            pairs: the declarations of the weight here and there; where there are several, as for
                a matrix that both sides share, a row must be the same for all of them.
        """
        found = [self._rows(ours, theirs) for ours, theirs in pairs]
        agreed = np.all(np.equal(found, found[0]), axis=0)
        return np.where(agreed, found[0], -1)

    def _rows(self, ours: VocabularyRows, theirs: VocabularyRows) -> np.ndarray:
        """Returns the matching rows for one side."""
        size = ours.weight.shape[ours.axis]
        there = theirs.weight.shape[theirs.axis]
        ids = self._ids(ours.side, theirs.side)
        rows = np.full(size, -1)
        for row in range(size):
            id_ = row + ours.first_id
            other_id = id_ if ids is None else ids.get(id_, -1)
            if 0 <= other_id - theirs.first_id < there:
                rows[row] = other_id - theirs.first_id
        return rows

    def _ids(self, side: str, other_side: str) -> dict[int, int] | None:
        """Returns the ids there of ids here; None: they are the same."""
        if self._ours is None:
            return None
        ours, theirs = self._ours[side], self._theirs[other_side]
        if ours == theirs and ours:
            return None
        ids = {symbol: id_ for id_, symbol in enumerate(theirs)}
        repeated = {
            symbol
            for symbols in (ours, theirs)
            for symbol, count in collections.Counter(symbols).items()
            if count > 1
        }
        found = {
            id_: ids[symbol]
            for id_, symbol in enumerate(ours)
            if symbol in ids and symbol not in repeated
        }
        reserved = {id_: id_ for id_ in range(len(RESERVED_TOKENS))}
        return {i: j for i, j in found.items() if min(i, j) >= len(reserved)} | reserved


def _symbols(run: RunFolder) -> dict[str, list[str]]:
    """Returns what each id of each side stands for; of a side where that is unknown, nothing."""
    return {side: _symbols_of(encoder, side) for side, encoder in run.encoders.items()}


def _symbols_of(encoder: TextEncoder, side: str) -> list[str]:
    symbols = list(RESERVED_TOKENS)  # a user's encoder need not decode them
    try:
        symbols += map(encoder.symbol, range(len(symbols), encoder.vocab_size))
    except Exception as error:  # a user's encoder may raise anything
        log.warning(
            "%s of the %s cannot decode id %d by itself (%s: %s): of its rows, only those of "
            "padding and EOS match",
            type(encoder).__name__,
            side,
            len(symbols),
            type(error).__name__,
            error,
        )
        return []
    return symbols


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
