"""Models and their traced searches, for all tests of a process that load equal ones.

Tracing a search takes a hundred times as long as a search for a few lines. Two loads are equal if
the checkpoints, vocabularies and settings are, whatever the folder; that nobody has changed the
weights since is looked at each time.
"""

import collections
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from t2t_lite.decoding import tensorflow_engine
from t2t_lite.decoding.trained_model import TrainedModel

MOST_MODELS = 6  # each with a few traces of some 20 MB
# What the engine's worker does not see: sizes of batches and limits come with each call.
_OF_CALLS = ("batch_size", "extra_length", "max_input_size")

_load = TrainedModel.load
_Worker = tensorflow_engine.TensorFlowWorker


class SharedSearches:
    """Keeps the models that were loaded last, and their workers."""

    def __init__(self) -> None:
        self._models: collections.OrderedDict[str, Any] = collections.OrderedDict()
        self._workers: dict[tuple[int, ...], dict[str, Any]] = {}

    def load(self, trained: TrainedModel, dtype: str = "") -> tuple[Any, TrainedModel]:
        """Stands for `TrainedModel.load`."""
        model, found = _load(trained, dtype)
        run = found.run
        key = json.dumps([found.origin(), run.model_name, run.problem.name, dtype], sort_keys=True)
        known = self._models.get(key)
        if known is not None and not _have_equal_weights(known, model):
            self._forget(self._models.pop(key))
        self._models.setdefault(key, model)
        self._models.move_to_end(key)
        if len(self._models) > MOST_MODELS:
            self._forget(self._models.popitem(last=False)[1])
        return self._models[key], found

    def worker(
        self, models: Sequence[Any], encoders: Mapping, hparams: Any, parts: Sequence = ()
    ) -> Any:
        """Stands for `TensorFlowWorker`."""
        ids = tuple(map(id, models))
        if parts or not set(ids) <= {id(model) for model in self._models.values()}:
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

    def _forget(self, model: Any) -> None:
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


def _have_equal_weights(one: Any, other: Any) -> bool:
    return all(
        np.array_equal(a.numpy(), b.numpy(), equal_nan=True)
        for a, b in zip(one.weights, other.weights, strict=True)
    )
