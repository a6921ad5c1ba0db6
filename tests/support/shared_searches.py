"""Models and their traced searches, for all tests of a process that load equal ones.

Tracing a search takes a hundred times as long as a search for a few lines, and building a model
ten times as long. Two loads are equal if the checkpoints, vocabularies and settings are, whatever
the folder; that nobody has changed the weights since is looked at each time.
"""

import collections
import contextlib
import dataclasses
import glob
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from t2t_lite.decoding import tensorflow_engine
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.kept_work import contents
from t2t_lite.runs import checkpoint_files

MOST_MODELS = 6  # each with a few traces of some 20 MB
# What the engine's worker does not see: sizes of batches and limits come with each call.
_OF_CALLS = ("batch_size", "extra_length", "max_input_size")

_load = TrainedModel.load
_Worker = tensorflow_engine.TensorFlowWorker


class _Kept(NamedTuple):
    """A model, and its weights as they were loaded."""

    model: Any
    weights: Sequence[np.ndarray]

    def is_unchanged(self) -> bool:
        weights = zip(self.model.weights, self.weights, strict=True)
        return all(np.array_equal(now.numpy(), then, equal_nan=True) for now, then in weights)


class SharedSearches:
    """Keeps the models that were loaded last, and their workers."""

    def __init__(self) -> None:
        self._models: collections.OrderedDict[str, _Kept] = collections.OrderedDict()
        self._workers: dict[tuple[int, ...], dict[str, Any]] = {}

    def load(self, trained: TrainedModel, dtype: str = "") -> tuple[Any, TrainedModel]:
        """Stands for `TrainedModel.load`."""
        trained = trained if trained.fingerprint else trained.fingerprinted()
        whole = checkpoint_files.whole_checkpoints(trained.run.folder)
        found = dataclasses.replace(trained, checkpoint=trained.checkpoint or (whole or [""])[-1])
        kept = None
        if found.checkpoint + checkpoint_files.CHECKPOINT_INDEX in trained.fingerprint:
            kept = self._unchanged(_key_of(found, dtype))
        if kept:
            found.require_same_vocabulary()
            return kept.model, found
        model, found = _load(trained, dtype)
        key = _key_of(found, dtype)
        kept = self._unchanged(key)
        if kept is None:
            kept = self._models[key] = _Kept(model, [one.numpy() for one in model.weights])
        if len(self._models) > MOST_MODELS:
            self._forget(next(iter(self._models)))
        return kept.model, found

    def worker(
        self, models: Sequence[Any], encoders: Mapping, hparams: Any, parts: Sequence = ()
    ) -> Any:
        """Stands for `TensorFlowWorker`."""
        ids = tuple(map(id, models))
        if parts or not set(ids) <= {id(kept.model) for kept in self._models.values()}:
            return _Worker(models, encoders, hparams, parts)
        of_models = self._workers.setdefault(ids, {})
        settings = {k: v for k, v in hparams.to_dict().items() if k not in _OF_CALLS}
        key = json.dumps(settings, sort_keys=True)
        if key not in of_models:
            of_models[key] = _Worker(models, encoders, hparams, parts)
        return of_models[key]

    def clear(self) -> None:
        """Forgets all of them."""
        self._models.clear()
        self._workers.clear()

    def _unchanged(self, key: str) -> _Kept | None:
        """Returns what was loaded by a key, as the last one used, unless a test has changed it."""
        if key in self._models and not self._models[key].is_unchanged():
            self._forget(key)
        if key in self._models:
            self._models.move_to_end(key)
        return self._models.get(key)

    def _forget(self, key: str) -> None:
        model = self._models.pop(key).model
        for ids in [ids for ids in self._workers if id(model) in ids]:
            del self._workers[ids]


SHARED = SharedSearches()


@contextlib.contextmanager
def shared_searches() -> Iterator[None]:
    """Lets everything that decodes in this process share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainedModel, "load", lambda self, dtype="": SHARED.load(self, dtype))
        patch.setattr(tensorflow_engine, "TensorFlowWorker", SHARED.worker)
        yield


@contextlib.contextmanager
def own_searches() -> Iterator[None]:
    """Undoes `shared_searches` for a while."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainedModel, "load", _load)
        patch.setattr(tensorflow_engine, "TensorFlowWorker", _Worker)
        yield


def _key_of(found: TrainedModel, dtype: str) -> str:
    """Names a checkpoint's model, by the contents of all files that it is loaded from."""
    files = sorted(glob.glob(glob.escape(found.checkpoint) + ".*"))
    names = [found.run.model_name, found.run.problem.name, dtype]
    return json.dumps([found.origin(), list(map(contents, files)), names], sort_keys=True)
