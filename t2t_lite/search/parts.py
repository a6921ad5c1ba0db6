"""What a search is made of: a model that decodes step by step, and the parts that guide it."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, Self, cast

import tensorflow as tf

from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import DecodeState, Seq2Seq
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder

# Log-probability of a hypothesis that does not exist; T2T's value. No real one is this unlikely.
DEAD = -1e7


class StepModel(Protocol):
    """A model that decodes step by step: see `models/seq2seq`."""

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Starts `beams` hypotheses of each of `inputs` [B, S], with room for `length` steps."""

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Returns the state with room for `length` steps in all."""

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Returns the logits [B, K, V] after `ids` [B, K], and the state after them.

        At step 0 the ids are ignored.
        """

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Hooks the attention to the source; only the coverage penalty uses it."""


class NarrowModel(StepModel, Protocol):
    """A model that can predict a part of its vocabulary alone."""

    def narrow(self, state: DecodeState, ids: tf.Tensor) -> DecodeState:
        """Narrows the vocabulary; see `EncoderDecoder.narrow`."""


class Sentences(NamedTuple):
    """What the caller of a search says of each sentence."""

    limits: tf.Tensor  # [B], the maximum length of its output, EOS included
    prefixes: tf.Tensor  # [B, P], how its output begins; 0 after that
    ends: tf.Tensor  # [B], the id that ends its output: EOS
    uncounted: tf.Tensor  # [B], tokens at the start that no length counts: those of a prompt
    given: tf.Tensor  # [B], tokens at the start whose log-probability is 0: a prompt, a language
    permitted: tf.Tensor  # [B, U], which ids of a narrowed vocabulary may come; else [B, 0]
    extra: Sequence[tf.Tensor] = ()  # what a search needs besides, each with leading dimension B


class SearchPart:
    """The base of what guides a search: a `Constraint`, a `Penalty` or a `Sampler`.

    Its methods are traced: they compute with TensorFlow's operations, not with Python's `if`. They
    see the rows of a batch and must treat each by itself: outputs never depend on the batch.
    """

    @classmethod
    def from_hparams(
        cls, hparams: DecodeHParams, encoders: Mapping[str, TextEncoder], text: str
    ) -> Self:
        """Builds the part that the decode hparam `search` names.

        Args:
            hparams: all search settings.
            encoders: the encoders of "inputs" and "targets".
            text: what follows the name and a colon; "" if nothing does.
        """
        del hparams, encoders, text
        return cls()

    def wrap(self, model: StepModel) -> StepModel:
        """Returns the model to search with: a `WrappedModel` if the part has a state of its own."""
        return model


class WrappedModel:
    """A model around another one, whose decoding state adds to the other's own.

    The state of each sentence and that of each hypothesis are named tuples; their field `model` is
    the wrapped model's.

    Args:
        model: the model to wrap.
    """

    def __init__(self, model: StepModel) -> None:
        self._model = model

    @property
    def never_output(self) -> tuple[int, ...]:
        """The ids that the wrapped model never outputs, if it tells any."""
        return getattr(self._model, "never_output", ())

    @property
    def other_ends(self) -> tuple[int, ...]:
        """The ids that end an output of the wrapped model besides EOS, if it tells any."""
        return getattr(self._model, "other_ends", ())

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Grows the state to `length` steps in all."""
        inner = self._model.grow(inner_state(state), length)
        return outer_state(inner, state.sentence, state.hypothesis)

    def narrow(self, state: DecodeState, ids: tf.Tensor) -> DecodeState:
        """Narrows the vocabulary; see `EncoderDecoder.narrow`."""
        inner = narrowed(self._model, inner_state(state), ids)
        return outer_state(inner, state.sentence, state.hypothesis)

    def hook_attention(self, hook: AttentionHook) -> AbstractContextManager[None]:
        """Hooks the model's attention to the source; see `Seq2Seq.hook_attention`."""
        return self._model.hook_attention(hook)


def ends_of(model: Any) -> tuple[int, ...]:
    """Returns the ids that end an output: EOS, then those of the model's `other_ends`, if any."""
    return (EOS_ID, *getattr(model, "other_ends", ()))


def narrowed(model: StepModel | Seq2Seq, state: DecodeState, ids: tf.Tensor) -> DecodeState:
    """Returns a model's state with a vocabulary narrowed to `ids` [U]; its `can_narrow` is True."""
    return cast(NarrowModel, model).narrow(state, ids)


def inner_state(state: DecodeState) -> DecodeState:
    """Returns the wrapped model's state."""
    return DecodeState(state.sentence.model, state.hypothesis.model, state.weights)


def outer_state(inner: DecodeState, sentence: Any, hypothesis: Any) -> DecodeState:
    """Returns the state of a `WrappedModel` with `inner` inside.

    Args:
        inner: the wrapped model's.
        sentence: the wrapper's state of each sentence, whose field `model` is set.
        hypothesis: its state of each hypothesis, likewise.
    """
    return DecodeState(
        sentence._replace(model=inner.sentence),
        hypothesis._replace(model=inner.hypothesis),
        inner.weights,
    )
