"""Adapts plain Keras models to search: without a cache, each step recomputes the whole target."""

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import DecodeState

_Logits = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]  # of [B, S] and [B, T]: [B, T, V]


def as_step_model(model: Any) -> Any:
    """Returns a model that decodes step by step: `model` itself, or a plain Keras model's adapter.

    Raises:
        UsageError: Keras uses a backend other than TensorFlow, or a plain Keras model does not map
            (inputs, targets) to logits.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"search needs Keras's TensorFlow backend, but this is {backend}: set "
            "KERAS_BACKEND=tensorflow before you import Keras"
        )
    is_plain = isinstance(model, keras.Model) and not hasattr(model, "decode_step")
    return PlainKerasModel(model) if is_plain else model


class PlainKerasModel:
    """Decodes step by step with a model that maps whole sequences to logits.

    Correct for every causal model, but slow: step t computes t + 1 positions.

    Args:
        model: maps source ids [B, S] and target ids [B, T] to logits [B, T, V]. The logits at
            position t depend only on targets before t, as in a `Seq2Seq`: the model itself shifts
            its targets right. A functional model has a dict of `inputs` and `targets`, or two
            inputs: by name if they are named so, otherwise the source first. The method `call` of
            any other model has two arguments without a default, by name or in order likewise; or
            one, which is the list [inputs, targets], or a dict if `call` does not take the list.

    Raises:
        UsageError: the model has other inputs.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._logits = _logits_function(model)

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Stores the source [B, S] and `beams` empty targets [B, K, L] of each sentence."""
        return DecodeState(
            sentence=inputs, hypothesis=tf.zeros([tf.shape(inputs)[0], beams, length], tf.int32)
        )

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Lengthens the targets [B, K, L] to `length` positions."""
        missing = length - tf.shape(state.hypothesis)[2]
        return state._replace(hypothesis=tf.pad(state.hypothesis, [[0, 0], [0, 0], [0, missing]]))

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Writes `ids` [B, K] at the position before `step`; returns logits [B, K, V]."""
        beams, length = ids.shape[1], tf.shape(state.hypothesis)[2]
        is_last = tf.range(length) == step - 1  # [L]; nowhere at step 0
        targets = tf.where(is_last, ids[..., None], state.hypothesis)  # [B, K, L]
        sources = tf.repeat(state.sentence, beams, axis=0)  # [B·K, S]
        logits = self._logits(sources, tf.reshape(targets, [-1, length])[:, : step + 1])
        last = logits[:, step]  # [B·K, V]
        last = tf.reshape(last, [-1, beams, logits.shape[-1]])
        return last, state._replace(hypothesis=targets)

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Raises UsageError: the model's attention is unknown."""
        raise UsageError(
            f"{self._model.name} is a plain Keras model, whose attention is unknown: leave out the "
            "coverage penalty"
        )


def _logits_function(model: keras.Model) -> _Logits:
    """Returns the function from inputs and targets to the logits of a model."""
    if hasattr(model, "inputs"):  # a functional model
        if isinstance(model.input, dict):
            _require(model, {*model.input} == {"inputs", "targets"}, [*model.input])
            return _of_dict(model)
        names = [tensor.name for tensor in model.inputs]
        _require(model, len(names) == 2, names)
        return _of_list(model, swapped=names == ["targets", "inputs"])
    names = _call_arguments(model)
    if len(names) == 1:
        return _of_one_argument(model, names)
    _require(model, len(names) == 2, names)
    if names == ["targets", "inputs"]:
        return lambda inputs, targets: model(targets, inputs, training=False)
    return lambda inputs, targets: model(inputs, targets, training=False)


def _of_dict(model: keras.Model) -> _Logits:
    return lambda inputs, targets: model({"inputs": inputs, "targets": targets}, training=False)


def _of_list(model: keras.Model, swapped: bool = False) -> _Logits:
    if swapped:
        return lambda inputs, targets: model([targets, inputs], training=False)
    return lambda inputs, targets: model([inputs, targets], training=False)


def _of_one_argument(model: keras.Model, names: list[str]) -> _Logits:
    """Finds out what the argument is by calls with one short sentence."""
    inputs, targets = tf.ones([1, 2], tf.int32), tf.ones([1, 3], tf.int32)
    cause: Exception | None = None
    for logits in (_of_list(model), _of_dict(model)):
        try:
            shape = tuple(logits(inputs, targets).shape)
        except Exception as error:  # whatever a stranger's model makes of the wrong argument
            cause = error
            continue
        if len(shape) == 3 and shape[:2] == (1, 3):
            return logits
    raise _unexpected(model, names) from cause


def _call_arguments(model: keras.Model) -> list[str]:
    """Names of the arguments without a default of the model's `call`."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [
        name
        for name, parameter in inspect.signature(model.call).parameters.items()
        if parameter.kind in positional
        and parameter.default is parameter.empty
        and name not in ("training", "mask")
    ]


def _require(model: keras.Model, is_expected: bool, names: list[str]) -> None:
    if not is_expected:
        raise _unexpected(model, names)


def _unexpected(model: keras.Model, names: list[str]) -> UsageError:
    return UsageError(
        f"the inputs of the model {model.name!r} are {', '.join(names) or 'unknown'}: search needs "
        "(inputs, targets) as two inputs or arguments, as a list, or as a dict with these keys, "
        "and logits [B, T, V] for them"
    )
