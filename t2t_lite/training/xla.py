"""What the hparam `xla_compile` asks for: the work of each replica as one program."""

from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import Seq2Seq

_Function = TypeVar("_Function", bound=Callable[..., object])


def compiled(model: Seq2Seq, function: _Function) -> _Function:
    """Returns a function of a replica, as a program if the model's hparams ask for one."""
    return tf.function(function, jit_compile=True) if model.hparams.xla_compile else function


def require_support(model: Seq2Seq, strategy: tf.distribute.Strategy) -> None:
    """Raises UsageError where XLA is asked for and cannot train a model."""
    if not model.hparams.xla_compile:
        return
    if not model.supports_jit:
        raise UsageError(f"hparam xla_compile: XLA cannot compile a {type(model).__name__}")
    devices = strategy.extended.worker_devices
    if len(devices) > 1 and any("CPU" in device for device in devices):
        # XLA runs all its CPU programs on the first device, which lacks the others' variables.
        raise UsageError("hparam xla_compile: XLA cannot train on several logical CPU devices")
