"""Sampling: outputs drawn at random, token by token, from the model's distribution."""

from typing import Any, NamedTuple

import tensorflow as tf

from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.constraints import NO_CONSTRAINTS, Constraints
from t2t_lite.search.search_loop import Hypotheses, SearchLoop, Sentences, Steps, hypotheses
from t2t_lite.text.text_encoder import EOS_ID


class _Samples(NamedTuple):
    """What the search remembers between steps."""

    ids: tf.Tensor  # [B, K, L], 0 behind EOS
    log_probs: tf.Tensor  # [B, K]
    ended: tf.Tensor  # [B, K]
    draws: tf.Tensor  # [B, longest, K], uniform in [0, 1): one for each token
    done: tf.Tensor  # [B]: all samples of the sentence have ended, or are at its limit


class Sampler(SearchLoop):
    """Draws outputs of a model; called as a `BeamSearch` is.

    What is drawn for a sentence depends on the seed and the sentence's number, its limit and K
    alone. Its score is the log-probability that the model gives it, unchanged by the settings.

    Args:
        model: any `Seq2Seq`, or what stands before one.
        samples: K, drawn for each sentence independently of each other.
        seed: of all that is drawn.
        temperature: divides the logits; above 0. The smaller, the nearer to the likeliest.
        top_k: draw among so many of the likeliest tokens, and any as likely as the last; 0: all.
        top_p: then among the likeliest whose probabilities add up to so much, as few as can be;
            1: all.
        constraints: what outputs must or must not have.
        xla_compile: whether XLA compiles the steps.
    """

    def __init__(
        self,
        model: Steps,
        samples: int,
        seed: int,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        constraints: Constraints = NO_CONSTRAINTS,
        xla_compile: bool = False,
    ) -> None:
        super().__init__(model, samples, xla_compile)
        self._seed = seed
        self._temperature = temperature
        self._top_k = top_k
        self._top_p = top_p
        self._constraints = constraints

    def _begin(
        self, limits: tf.Tensor, numbers: tf.Tensor, length: tf.Tensor, longest: tf.Tensor
    ) -> _Samples:
        batch, samples = tf.shape(limits)[0], self._beam_size

        def draw(sentence: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            number, limit = sentence
            seed = [self._seed, number]
            draws = tf.random.stateless_uniform([limit, samples], seed)  # of one shape in any batch
            return tf.pad(draws, [[0, longest - limit], [0, 0]])

        spec = tf.TensorSpec([None, samples], tf.float32)
        return _Samples(
            ids=tf.zeros([batch, samples, length], tf.int32),
            log_probs=tf.zeros([batch, samples]),
            ended=tf.fill([batch, samples], False),
            draws=tf.map_fn(draw, (numbers, limits), fn_output_signature=spec),
            done=tf.fill([batch], False),
        )

    def _lengthen(self, samples: _Samples, length: tf.Tensor) -> _Samples:
        more = [[0, 0], [0, 0], [0, length - tf.shape(samples.ids)[2]]]
        return samples._replace(ids=tf.pad(samples.ids, more))

    def _step(
        self, step: tf.Tensor, old: _Samples, state: DecodeState, sentences: Sentences
    ) -> tuple[_Samples, Any]:
        last = tf.gather(old.ids, tf.maximum(step - 1, 0), axis=2)  # [B, K]
        logits, state = self._model.decode_step(last, step, state)
        log_probs = tf.nn.log_softmax(tf.cast(logits, tf.float32))  # [B, K, V]
        log_probs, _ = self._constraints(log_probs, old.ids, step, sentences.prefixes)
        tokens = _chosen(self._candidates(log_probs), tf.gather(old.draws, step, axis=1))
        chosen = tf.gather(log_probs, tokens, batch_dims=2)
        here = ~old.ended[..., None] & (tf.range(tf.shape(old.ids)[2]) == step)  # [B, K, L]
        log_probs = tf.where(old.ended, old.log_probs, old.log_probs + chosen)
        # One of NaN cannot be gone on with.
        ended = old.ended | (tokens == EOS_ID) | tf.math.is_nan(log_probs)
        new = _Samples(
            ids=tf.where(here, tokens[..., None], old.ids),
            log_probs=log_probs,
            ended=ended,
            draws=old.draws,
            done=tf.reduce_all(ended, axis=1) | (step + 1 >= sentences.limits),
        )
        return new, state.hypothesis

    def _candidates(self, log_probs: tf.Tensor) -> tf.Tensor:
        """Returns the probabilities [B, K, V] to draw from, up to a factor; 0: never."""
        logits = log_probs / self._temperature
        if self._top_k:
            count = min(self._top_k, logits.shape[-1])
            logits = _cut(logits, tf.math.top_k(logits, count)[0][..., -1:])
        probabilities = tf.nn.softmax(logits)
        if self._top_p < 1.0:
            falling = tf.sort(probabilities, direction="DESCENDING")
            needed = tf.cumsum(falling, axis=-1, exclusive=True) < self._top_p
            least = tf.reduce_min(tf.where(needed, falling, 1.0), axis=-1, keepdims=True)
            probabilities = tf.where(probabilities >= least, probabilities, 0.0)
        return probabilities

    def _results(self, samples: _Samples) -> Hypotheses:
        # One that could not be gone on with, as all was forbidden, is none.
        return hypotheses(samples.ids, samples.log_probs)


def _cut(logits: tf.Tensor, least: tf.Tensor) -> tf.Tensor:
    """Gives no probability to logits [..., V] below `least` [..., 1]."""
    return tf.where(logits >= least, logits, -float("inf"))


def _chosen(weights: tf.Tensor, draws: tf.Tensor) -> tf.Tensor:
    """Returns the token [B, K] at which the running sum of `weights` [B, K, V] passes `draws`.

    The draws [B, K] are parts of the whole sum, in [0, 1).
    """
    sums = tf.cumsum(weights, axis=-1)
    passed = sums <= draws[..., None] * sums[..., -1:]
    last = tf.shape(weights)[-1] - 1  # where there is no weight, as the model gave NaN, all passed
    return tf.minimum(tf.reduce_sum(tf.cast(passed, tf.int32), axis=-1), last)
