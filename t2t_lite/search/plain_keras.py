"""Adapts plain Keras models to search: without a cache, each step recomputes the whole target."""

from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import DecodeState, Seq2Seq


def as_step_model(model: Any) -> Any:
    """Returns a model that decodes step by step: `model` itself, or a plain Keras model's adapter.

    Raises:
        UsageError: Keras uses a backend other than TensorFlow.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"search needs Keras's TensorFlow backend, but this is {backend}: set "
            "KERAS_BACKEND=tensorflow before you import Keras"
        )
    is_plain = isinstance(model, keras.Model) and not isinstance(model, Seq2Seq)
    return PlainKerasModel(model) if is_plain else model


class PlainKerasModel:
    """Decodes step by step with a model that maps whole sequences to logits.

    Correct for every causal model, but slow: step t computes t + 1 positions.

    Args:
        model: maps source ids [B, S] and target ids [B, T], as two inputs or as a dict of `inputs`
            and `targets`, to logits [B, T, V]. The logits at position t depend only on targets
            before t, as in a `Seq2Seq`: the model itself shifts its targets right.
    """

    def __init__(self, model: keras.Model) -> None:
        self._model = model
        self._takes_dict = isinstance(getattr(model, "input", None), dict)

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

    def _logits(self, sources: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        if self._takes_dict:
            return self._model({"inputs": sources, "targets": targets}, training=False)
        return self._model([sources, targets], training=False)

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Raises UsageError: the model's attention is unknown."""
        raise UsageError(
            f"{self._model.name} is a plain Keras model, whose attention is unknown: leave out the "
            "coverage penalty"
        )
