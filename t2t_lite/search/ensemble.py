"""Ensembles: several models decode together."""

import contextlib
import math
from collections.abc import Iterator, Sequence

import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.models.seq2seq import DecodeState, Features, Seq2Seq
from t2t_lite.search.parts import narrowed


class Ensemble:
    """Models whose probabilities are averaged.

    They may be of different kinds and sizes. To a search, and to scoring, the ensemble is a model
    whose logits are log-probabilities.

    Args:
        models: at least one, all trained with the same vocabularies.

    Raises:
        UsageError: their vocabularies differ in size.
    """

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        sizes = [(model.inputs_vocab_size, model.targets_vocab_size) for model in models]
        for number, other in enumerate(sizes, 1):
            if other != sizes[0]:
                raise UsageError(
                    f"model {number} of the ensemble has vocabularies of {other[0]} and "
                    f"{other[1]} ids, model 1 of {sizes[0][0]} and {sizes[0][1]}: all models must "
                    "have the same vocabularies"
                )
        self.models = list(models)

    @property
    def has_inputs(self) -> bool:
        """Whether there is a source: language models have none."""
        return self.models[0].takes_inputs

    @property
    def has_source_attention(self) -> bool:
        """Whether every model has attention to the source; see `hook_attention`."""
        return all(model.has_source_attention for model in self.models)

    @property
    def can_narrow(self) -> bool:
        """Whether every model can compute a part of its logits alone."""
        return all(model.can_narrow for model in self.models)

    @property
    def never_output(self) -> tuple[int, ...]:
        """The ids that any of the models never outputs."""
        return tuple(sorted({id_ for model in self.models for id_ in model.never_output}))

    @property
    def other_ends(self) -> tuple[int, ...]:
        """The ids that end an output of any of the models, besides EOS."""
        return tuple(sorted({id_ for model in self.models for id_ in model.other_ends}))

    def __call__(self, features: Features) -> tf.Tensor:
        """Returns log-probabilities [B, T, V]; see `Seq2Seq.call`."""
        return _mean([model(features) for model in self.models])

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks each model's attention to the source; see `Seq2Seq.hook_attention`."""
        with contextlib.ExitStack() as stack:
            for model in self.models:
                stack.enter_context(model.hook_attention(hook))
            yield

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Encodes `inputs` [B, S] with every model."""
        return _joined([model.start_decoding(inputs, beams, length) for model in self.models])

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Grows the state to `length` steps in all."""
        states = zip(self.models, _split(state), strict=True)
        return _joined([model.grow(part, length) for model, part in states])

    def narrow(self, state: DecodeState, ids: tf.Tensor) -> DecodeState:
        """Narrows the vocabulary of every model; see `EncoderDecoder.narrow`."""
        states = zip(self.models, _split(state), strict=True)
        return _joined([narrowed(model, part, ids) for model, part in states])

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Takes one step of every model; returns log-probabilities [B, K, V]."""
        states = zip(self.models, _split(state), strict=True)
        steps = [model.decode_step(ids, step, part) for model, part in states]
        return _mean([logits for logits, _ in steps]), _joined([part for _, part in steps])


def _mean(logits: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns the logarithm of the mean probabilities."""
    log_probs = tf.stack([tf.nn.log_softmax(tf.cast(x, tf.float32)) for x in logits])
    return tf.reduce_logsumexp(log_probs, axis=0) - math.log(len(logits))


def _joined(states: Sequence[DecodeState]) -> DecodeState:
    return DecodeState(*map(list, zip(*states, strict=True)))


def _split(state: DecodeState) -> list[DecodeState]:
    return [DecodeState(*parts) for parts in zip(*state, strict=True)]
