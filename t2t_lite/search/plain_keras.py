"""Adapts models without steps to search: without a cache, each step recomputes the whole target.

Such are plain Keras models, and a user's `Seq2Seq` whose steps are not those of what is trained.
"""

import logging
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.one_function import has_trained_steps
from t2t_lite.models.seq2seq import DecodeState, Seq2Seq
from t2t_lite.search.keras_calls import KerasCall, find_call
from t2t_lite.text.text_encoder import EOS_ID

log = logging.getLogger(__name__)

# Stands for targets that are not known yet: not 0, which a model may mask.
_UNKNOWN = 1


def as_step_model(
    model: Any, start_id: int | None = None, eos_id: int = EOS_ID, shifts: bool | None = None
) -> Any:
    """Returns a model that decodes step by step, as it was trained: `model` itself, or an adapter.

    Args:
        model: either.
        start_id: see `PlainKerasModel`.
        eos_id: see `PlainKerasModel`.
        shifts: see `PlainKerasModel`.

    Raises:
        UsageError: Keras uses a backend other than TensorFlow, a plain Keras model does not fit a
            search, or another model is given `start_id` or `shifts`.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UsageError(
            f"search needs Keras's TensorFlow backend, but this is {backend}: set "
            "KERAS_BACKEND=tensorflow before you import Keras"
        )
    if isinstance(model, keras.Model) and not hasattr(model, "decode_step"):
        return PlainKerasModel(model, start_id, eos_id, shifts)
    if start_id is not None or shifts is not None:
        raise UsageError(
            f"{type(model).__name__} decodes step by step and starts outputs by itself: leave out "
            "start_id and shifts, which are for plain Keras models"
        )
    if not isinstance(model, Seq2Seq) or has_trained_steps(model):
        return model
    log.warning(
        "%s: decode_step gives other logits than the model's call: outputs are found without "
        "decode_step, and slowly, since each step computes the whole target again. Change "
        "both alike; what is on top of a decoder belongs to a decoder_class, whose call and step "
        "apply it",
        type(model).__name__,
    )
    return WholeTargets(model)


class PlainKerasModel:
    """Decodes step by step with a model that maps whole sequences to logits or probabilities.

    Correct for every causal model, but slow: step t computes t + 1 positions.

    A model either shifts its targets right itself, as a `Seq2Seq` does: its output at position t
    depends on targets before t. Or its caller does, as in Keras's tutorials: the targets begin with
    the id of a start, and the output at position t depends on target t, too. Calls with a small
    random batch find out which.

    Args:
        model: maps source ids [B, S] and target ids [B, T] to outputs [B, T, V]; how it takes them
            is found out, see `keras_calls`.
        start_id: the id with which targets begin if the model does not shift them.
        eos_id: the id that ends an output.
        shifts: whether the model shifts its targets; None: as is found out.

    Raises:
        UsageError: the model has other inputs or outputs, is not causal, or follows another
            convention than these arguments; or an id is not in its vocabulary.
    """

    def __init__(
        self,
        model: keras.Model,
        start_id: int | None = None,
        eos_id: int = EOS_ID,
        shifts: bool | None = None,
    ) -> None:
        self._call = find_call(model)
        if not 0 <= eos_id < self._call.vocab_size:
            raise UsageError(
                f"eos_id={eos_id}: the outputs of the model {model.name!r} are ids from 0 to "
                f"{self._call.vocab_size - 1}"
            )
        self._shifts = _shifts(self._call, start_id, shifts)
        self._start_id = start_id

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Stores the source [B, S] and `beams` unknown targets [B, K, L] of each sentence."""
        shape = [tf.shape(inputs)[0], beams, length]
        return DecodeState(sentence=inputs, hypothesis=tf.fill(shape, _UNKNOWN))

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Lengthens the targets [B, K, L] to `length` positions."""
        missing = [[0, 0], [0, 0], [0, length - tf.shape(state.hypothesis)[2]]]
        longer = tf.pad(state.hypothesis, missing, constant_values=_UNKNOWN)
        return state._replace(hypothesis=longer)

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Adds `ids` [B, K], the tokens before `step`, to the targets; returns logits [B, K, V]."""
        place = step - 1
        if not self._shifts:
            ids = tf.where(step == 0, self._start_id, ids)
            place = step
        beams, length = ids.shape[1], tf.shape(state.hypothesis)[2]
        is_last = tf.range(length) == place  # [L]; nowhere at step 0 if the model shifts
        targets = tf.where(is_last, ids[..., None], state.hypothesis)  # [B, K, L]
        sources = tf.repeat(state.sentence, beams, axis=0)  # [B·K, S]
        logits = self._logits(sources, tf.reshape(targets, [-1, length])[:, : step + 1])
        last = tf.reshape(logits[:, step], [-1, beams, logits.shape[-1]])
        return last, state._replace(hypothesis=targets)

    def _logits(self, sources: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        """Returns logits [N, T, V] for ids [N, S] and [N, T]."""
        return self._call(sources, targets)

    def require_lengths(self, source: int, longest: int) -> None:
        """Raises UsageError if the model does not take so many positions; see `KerasCall`."""
        self._call.require_lengths(source, longest)

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Raises UsageError: the model's attention is unknown."""
        raise UsageError(
            f"{self._call.name} is a plain Keras model, whose attention is unknown: leave out the "
            "coverage penalty"
        )


class WholeTargets(PlainKerasModel):
    """Decodes with the call of a `Seq2Seq` in place of its steps.

    Args:
        model: the model, which tells all else that a search asks.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        self._shifts, self._start_id = True, None

    def __getattr__(self, name: str) -> Any:
        """Returns what the model has."""
        return getattr(self._model, name)

    def _logits(self, sources: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        return tf.cast(self._model({"inputs": sources, "targets": targets}), tf.float32)

    def require_lengths(self, source: int, longest: int) -> None:
        """Does nothing: the decoder knows the limits."""

    @property
    def can_narrow(self) -> bool:
        """Raises UsageError: whole targets have logits of all ids."""
        raise UsageError(
            f"{type(self._model).__name__}: its decode_step is not used, so that it cannot decode "
            "with a short list: leave it out"
        )

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Raises UsageError: attention is known for whole targets alone."""
        raise UsageError(
            f"{type(self._model).__name__}: its decode_step is not used, so that the attention of "
            "a step is unknown: leave out the coverage penalty"
        )


def _shifts(call: KerasCall, start_id: int | None, shifts: bool | None) -> bool:
    """Returns whether a model shifts its targets, after checking what the caller says of it."""
    seen = call.dependence
    found = not seen.on_own
    if found and not seen.on_earlier:  # outputs that ignore all targets tell nothing
        found = start_id is None if shifts is None else shifts
    convention = f"the model {call.name!r} " + (
        "shifts its targets itself: its output at position t depends on targets before t alone"
        if found
        else "does not shift its targets: its output at position t depends on target t, too"
    )
    if shifts not in (None, found):
        raise UsageError(f"shifts={shifts}: {convention}; pass shifts={found}")
    if found and start_id is not None:
        raise UsageError(f"start_id={start_id}: {convention}; leave out start_id")
    if not found and start_id is None:
        raise UsageError(f"{convention}; pass start_id, the id with which targets begin")
    if start_id is not None and not call.reads(start_id):
        raise UsageError(f"start_id={start_id}: the model {call.name!r} cannot read it as a target")
    log.info("%s", convention)
    return found
