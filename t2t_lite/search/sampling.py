"""Sampling: outputs drawn at random, token by token, from the model's distribution."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import keras
import tensorflow as tf

from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.constraints import Constraint
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.parts import SearchPart, Sentences, StepModel
from t2t_lite.search.search_loop import Asked, Hypotheses, SearchLoop, hypotheses
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import EOS_ID, TextEncoder


@dataclasses.dataclass(frozen=True)
class Sampler(SearchPart):
    """Chooses the tokens to draw from, and their weights. A subclass may choose otherwise.

    Args:
        temperature: divides the logits; above 0. Smaller values favor the likeliest tokens.
        top_k: number of likeliest tokens to draw from, plus any that tie with the last; 0: all.
        top_p: then draws from the fewest likeliest tokens whose probabilities reach this sum; 1:
            all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @classmethod
    def from_hparams(
        cls, hparams: DecodeHParams, encoders: Mapping[str, TextEncoder], text: str
    ) -> Self:
        """Builds it with the decode hparams of its fields."""
        h = hparams
        return cls(h.sampling_temp, max(h.sampling_keep_top_k, 0), h.sampling_keep_top_p)

    def weights(self, log_probs: tf.Tensor) -> tf.Tensor:
        """Returns the probabilities to draw the next tokens with, up to a factor.

        Args:
            log_probs: [B, K, V], by the model; those of forbidden tokens are far below all others.

        Returns:
            [B, K, V], not negative; 0 is never drawn.
        """
        # At the lowest temperatures only the likeliest tokens are left, without overflow.
        below = log_probs - tf.reduce_max(log_probs, axis=-1, keepdims=True)
        logits = tf.where(below == 0.0, 0.0, below / self.temperature)
        if self.top_k:
            count = tf.minimum(self.top_k, tf.shape(logits)[-1])  # a short list's width varies
            logits = _cut(logits, tf.math.top_k(logits, count)[0][..., -1:])
        probabilities = tf.nn.softmax(logits)
        if self.top_p < 1.0:
            falling = tf.sort(probabilities, direction="DESCENDING")
            needed = tf.cumsum(falling, axis=-1, exclusive=True) < self.top_p
            least = tf.reduce_min(tf.where(needed, falling, 1.0), axis=-1, keepdims=True)
            probabilities = tf.where(probabilities >= least, probabilities, 0.0)
        return probabilities


def _cut(logits: tf.Tensor, least: tf.Tensor) -> tf.Tensor:
    """Excludes logits [..., V] below `least` [..., 1]."""
    return tf.where(logits >= least, logits, -float("inf"))


class _Samples(NamedTuple):
    """The state of the search between steps."""

    ids: tf.Tensor  # [B, K, L], 0 after EOS
    log_probs: tf.Tensor  # [B, K]
    ended: tf.Tensor  # [B, K]
    draws: tf.Tensor  # [B, longest, K], uniform in [0, 1): one for each token
    done: tf.Tensor  # [B]: all samples of the sentence have ended or reached its limit


class RandomSearch(SearchLoop):
    """Draws outputs of a model; called like a `BeamSearch`.

    The samples of a sentence depend only on the seed, K, and the sentence's number and limit. A
    sample's score is its log-probability by the model, whatever the settings.

    Args:
        model: any `Seq2Seq` or `StepModel`, or a plain `keras.Model`, as in `BeamSearch`.
        samples: K, the independent draws for each sentence.
        seed: of the random numbers.
        sampler: chooses the tokens to draw from; one of your own, too.
        constraints: what outputs must or must not contain; your own, too.
        is_prompt: whether prefixes are prompts, whose log-probability and length do not count.
        xla_compile: whether XLA compiles the steps.
        shortlist: the ids that outputs may consist of; None: all.
        start_id: as in `BeamSearch`.
        eos_id: as in `BeamSearch`.
        shifts: as in `BeamSearch`.
    """

    def __init__(
        self,
        model: StepModel | keras.Model,
        samples: int,
        seed: int,
        sampler: Sampler = Sampler(),
        constraints: Sequence[Constraint] = (),
        is_prompt: bool = False,
        xla_compile: bool = False,
        shortlist: Shortlist | None = None,
        start_id: int | None = None,
        eos_id: int = EOS_ID,
        shifts: bool | None = None,
    ) -> None:
        super().__init__(
            model,
            samples,
            constraints,
            is_prompt=is_prompt,
            xla_compile=xla_compile,
            shortlist=shortlist,
            start_id=start_id,
            eos_id=eos_id,
            shifts=shifts,
        )
        self._model = sampler.wrap(self._model)
        self._seed = seed
        self._sampler = sampler

    def _begin(self, sentences: Sentences, asked: Asked) -> _Samples:
        limits = sentences.limits
        batch, samples = tf.shape(limits)[0], self._beam_size

        def draw(sentence: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            number, limit = sentence
            seed = [self._seed, number]
            draws = tf.random.stateless_uniform(
                [limit, samples], seed
            )  # the same shape in any batch
            return tf.pad(draws, [[0, asked.longest - limit], [0, 0]])

        spec = tf.TensorSpec([None, samples], tf.float32)
        return _Samples(
            ids=tf.zeros([batch, samples, asked.length], tf.int32),
            log_probs=tf.zeros([batch, samples]),
            ended=tf.fill([batch, samples], False),
            draws=tf.map_fn(draw, (asked.numbers, limits), fn_output_signature=spec),
            done=tf.fill([batch], False),
        )

    def _lengthen(self, samples: _Samples, length: tf.Tensor) -> _Samples:
        more = [[0, 0], [0, 0], [0, length - tf.shape(samples.ids)[2]]]
        return samples._replace(ids=tf.pad(samples.ids, more))

    def _step(
        self, step: tf.Tensor, old: _Samples, state: DecodeState, sentences: Sentences
    ) -> tuple[_Samples, Any]:
        last = tf.gather(old.ids, tf.maximum(step - 1, 0), axis=2)  # [B, K]
        logits, state = self._decode_step(last, step, state, sentences)
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # [B, K, V]
        log_probs, _ = self._constrained(log_probs, old.ids, step, sentences)
        tokens = _chosen(self._sampler.weights(log_probs), tf.gather(old.draws, step, axis=1))
        chosen = tf.gather(log_probs, tokens, batch_dims=2)
        here = ~old.ended[..., None] & (tf.range(tf.shape(old.ids)[2]) == step)  # [B, K, L]
        log_probs = tf.where(old.ended, old.log_probs, old.log_probs + chosen)
        # A sample with NaN cannot be continued.
        ended = old.ended | self._ended(tokens) | tf.math.is_nan(log_probs)
        new = _Samples(
            ids=tf.where(here, tokens[..., None], old.ids),
            log_probs=log_probs,
            ended=ended,
            draws=old.draws,
            done=tf.reduce_all(ended, axis=1) | (step + 1 >= sentences.limits),
        )
        return new, state.hypothesis

    def _results(self, samples: _Samples) -> Hypotheses:
        # A sample with no permitted continuation is discarded.
        return hypotheses(samples.ids, samples.log_probs)


def _chosen(weights: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Returns the token [B, K] at which the running sum of `weights` [B, K, V] exceeds `draws`.

    The draws [B, K] are fractions of the total, in [0, 1).
    """
    sums = tf.cumsum(weights, axis=-1)
    passed = sums <= draws[..., None] * sums[..., -1:]
    last = tf.shape(weights)[-1] - 1  # where the model outputs NaN, all weights may be 0
    return tf.minimum(tf.reduce_sum(tf.cast(passed, tf.int32), axis=-1), last)
