"""The devices that decode, each with its own copy of the models and their compiled functions."""

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import tensorflow as tf

from t2t_lite.decoding.engine import mapped
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.copies import copy_weights, empty_copy
from t2t_lite.models.known_weights import KnownWeights
from t2t_lite.models.seq2seq import Seq2Seq

# Batches in progress on a device at a time: one computes while the other waits for a single core.
_STREAMS = 2

# What `work` is called with: a device's compiled functions and a batch; and its result.
_Compiled = TypeVar("_Compiled")
_Batch = TypeVar("_Batch")
_Result = TypeVar("_Result")


def decoding_devices(worker_gpu: int | None) -> list[str]:
    """Returns the names of the devices to decode on.

    Args:
        worker_gpu: number of GPUs; 0: all logical devices of the CPU; None: all GPUs, or the CPU
            if there are none.

    Raises:
        UserError: there are fewer GPUs.
    """
    gpus = tf.config.list_logical_devices("GPU")
    if worker_gpu is not None and worker_gpu > len(gpus):
        raise UserError(f"--worker_gpu={worker_gpu}, but TensorFlow sees {len(gpus)} GPUs")
    return [device.name for device in gpus[:worker_gpu] or tf.config.list_logical_devices("CPU")]


def require_xla_decodes_on(devices: Sequence[str]) -> None:
    """Raises UsageError unless XLA's programs run on all these devices."""
    if len(devices) > 1 and any("CPU" in device for device in devices):
        # XLA runs all CPU programs on the first device, which lacks the others' variables.
        raise UsageError(
            "decode hparam 'xla_compile': XLA cannot decode on several logical CPU devices"
        )


def on_device(name: str) -> contextlib.AbstractContextManager[None]:
    """Returns a context in which TensorFlow computes on a device; "": TensorFlow's choice."""
    return tf.device(name) if name else contextlib.nullcontext()


class Replicas(Generic[_Compiled]):
    """Models replicated on one device or more, which share the batches.

    The first device computes with the models themselves, the others with copies, which are made on
    first use. The results are the same for any number of devices.

    Args:
        models: of an ensemble, or a single one.
        devices: their names; a single "": TensorFlow's choice.
        compile: returns the compiled functions of models; called once per device.
    """

    def __init__(
        self,
        models: Sequence[Seq2Seq],
        devices: Sequence[str],
        compile: Callable[[Sequence[Seq2Seq]], _Compiled],
    ) -> None:
        self._models = models
        self._devices = devices
        self._compile = compile
        self._replicas: list[_Replica[_Compiled]] = []

    def map(
        self, work: Callable[[_Compiled, _Batch], _Result], batches: Sequence[_Batch]
    ) -> Iterator[tuple[int, _Result]]:
        """Calls `work` for every batch; yields each batch's index and result as it finishes.

        On each device the first batch of a `work` runs alone: it traces, which two cannot do at
        once.
        """
        replicas = self._first(min(len(batches), len(self._devices))) * _STREAMS
        free: queue.SimpleQueue[_Replica[_Compiled]] = queue.SimpleQueue()
        for replica in replicas:
            free.put(replica)

        def on_next_free(batch: _Batch) -> _Result:
            replica = free.get()
            try:
                return replica(work, batch)
            finally:
                free.put(replica)

        yield from mapped(on_next_free, batches, len(replicas))

    def _first(self, count: int) -> list["_Replica[_Compiled]"]:
        """Returns the first `count` replicas, with the models' current weights."""
        for device in self._devices[len(self._replicas) : count]:
            models = _copies(self._models, device) if self._replicas else self._models
            self._replicas.append(_Replica(device, models, self._compile))
        for replica in self._replicas[1:count]:
            replica.copy_weights(self._models)
        return self._replicas[:count]


class _Replica(Generic[_Compiled]):
    """One device with its models and their compiled functions."""

    def __init__(
        self,
        device: str,
        models: Sequence[Seq2Seq],
        compile: Callable[[Sequence[Seq2Seq]], _Compiled],
    ) -> None:
        self._device = device
        self._models = models
        self._weights = [KnownWeights(model) for model in models]
        self._compile = compile
        self._first = threading.Lock()  # held by the first batch of each work, which traces
        self._traced: set[Callable[[_Compiled, Any], Any]] = set()

    def __call__(self, work: Callable[[_Compiled, _Batch], _Result], batch: _Batch) -> _Result:
        """Runs `work` on a batch, on this device.

        Raises:
            UsageError: a layer of a model creates weights, which no checkpoint holds.
        """
        with on_device(self._device):
            if work in self._traced:
                return work(self._compiled, batch)
            with self._first:
                result = work(self._compiled, batch)
                for weights in self._weights:
                    weights.require_no_others()
                self._traced.add(work)
                return result

    def copy_weights(self, models: Sequence[Seq2Seq]) -> None:
        """Copies the weights of the same models on another device."""
        for own, other in zip(self._models, models, strict=True):
            copy_weights(other, own)

    @functools.cached_property
    def _compiled(self) -> _Compiled:
        return self._compile(self._models)


def _copies(models: Sequence[Seq2Seq], device: str) -> list[Seq2Seq]:
    with on_device(device):
        return [empty_copy(model) for model in models]
