"""Beam search, with T2T's scores and stopping rule, over any model that takes decoding steps.

Hypotheses of a sentence are either alive or finished. In each step the K alive ones compete with
all their continuations; of the best 2K, those that end go to the K finished ones, and the best K
of the others stay alive. (2K, because at most K of them end: the beam never runs dry.) A finished
hypothesis is scored `log P / ((5 + length) / 6)^alpha` (Wu et al. 2016, equation 14), its EOS
counted in the length.

Every sentence has its own limit and stops by itself: what comes out does not depend on the other
sentences of the batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from t2t_lite.data.text_encoder import EOS_ID
from t2t_lite.models.seq2seq import DecodeState

# Log-probability of a hypothesis that does not exist; T2T's value. None that exists is so unlikely.
DEAD = -1e7

# Steps taken in one compiled loop. Between loops the finished sentences leave the batch and the
# model's memory grows; so few steps compute little in vain, and so many hide the cost of Python.
_CHUNK = 16


class Steps(Protocol):
    """What the search needs of a model: see `models/seq2seq`."""

    def start_decoding(self, inputs: tf.Tensor, beams: int, length: tf.Tensor) -> DecodeState:
        """Begins `beams` hypotheses of each sentence."""

    def grow(self, state: DecodeState, length: tf.Tensor) -> DecodeState:
        """Makes room for more steps."""

    def decode_step(
        self, ids: tf.Tensor, step: tf.Tensor, state: DecodeState
    ) -> tuple[tf.Tensor, DecodeState]:
        """Takes one step of every hypothesis."""


class Hypotheses(NamedTuple):
    """The results of a search, best first."""

    ids: np.ndarray  # [B, K, L] int32, EOS included, 0 behind it
    scores: np.ndarray  # [B, K] float32; `DEAD` where fewer than K were found


class _Beams(NamedTuple):
    """What the search remembers between steps; all best first."""

    alive_ids: tf.Tensor  # [B, K, L]
    alive_log_probs: tf.Tensor  # [B, K]
    finished_ids: tf.Tensor  # [B, K, L], 0 behind EOS
    finished_scores: tf.Tensor  # [B, K], `DEAD` where there is none
    done: tf.Tensor  # [B]: the sentence's search has ended


class BeamSearch:
    """Searches for the best outputs of a model; compiled once, for batches of all shapes.

    Example:
        >>> search = BeamSearch(model, beam_size=4, alpha=0.6)
        >>> ids, scores = search(inputs, max_lengths=[50] * len(inputs))

    Args:
        model: any `Seq2Seq`, or what stands before one.
        beam_size: K.
        alpha: exponent of the length penalty; 0: none. Not negative, or stopping is not sound.
        stop_early: whether a sentence ends as soon as its best hypothesis cannot be beaten. The
            others are then what was found so far. False: as soon as none of the K can be beaten.
        candidates: continuations of a sentence looked at in a step; None: 2K.
    """

    def __init__(
        self,
        model: Steps,
        beam_size: int,
        alpha: float,
        stop_early: bool = True,
        candidates: int | None = None,
    ) -> None:
        self._model = model
        self._beam_size = beam_size
        self._alpha = alpha
        self._stop_early = stop_early
        self._candidates = candidates or 2 * beam_size
        self._start, self._run, self._go_on = self._compile()

    def __call__(self, inputs: np.ndarray, max_lengths: np.ndarray) -> Hypotheses:
        """Searches for the outputs of a batch.

        A sentence for which no hypothesis has ended within its limit gets its alive ones, scored
        by their log-probability without a length penalty, as in T2T.

        Args:
            inputs: [B, S] ids, 0 at padding.
            max_lengths: [B], the greatest length of each output, EOS included; at least 1.
        """
        limits = np.asarray(max_lengths, np.int32)
        shape = (len(limits), self._beam_size, int(limits.max()))
        found = Hypotheses(np.zeros(shape, np.int32), np.zeros(shape[:2], np.float32))
        rows = np.arange(len(limits))  # where the sentences still searched for belong in `found`
        length = min(_CHUNK, shape[2])
        state = self._start(tf.constant(inputs, tf.int32), tf.constant(length))
        beams = self._empty_beams(*shape[:2], length)
        step = tf.constant(0)
        while True:
            state, beams, step = self._run(state, beams, tf.constant(limits), step)
            done = beams.done.numpy()
            ids, scores = _results(beams)
            found.ids[rows[done], :, :length] = ids[done]
            found.scores[rows[done]] = scores[done]
            (kept,) = np.nonzero(~done)
            rows, limits = rows[kept], limits[kept]
            if not len(rows):
                return found
            length = min(length + _CHUNK, shape[2])
            state, beams = self._go_on(
                state, beams, tf.constant(kept, tf.int32), tf.constant(length)
            )

    def _compile(self) -> tuple[Callable[..., Any], ...]:
        """Traces the three compiled parts, once for all B, S and L."""
        scalar = tf.TensorSpec([], tf.int32)
        start = _traced(
            lambda inputs, length: self._model.start_decoding(inputs, self._beam_size, length),
            tf.TensorSpec([None, None], tf.int32),
            scalar,
        )
        # The model alone knows its state's shapes; what varies with B, S or L is None in them.
        state = tf.nest.map_structure(
            lambda x: tf.TensorSpec(x.shape, x.dtype), start.structured_outputs
        )
        beams = _Beams(
            alive_ids=tf.TensorSpec([None, self._beam_size, None], tf.int32),
            alive_log_probs=tf.TensorSpec([None, self._beam_size], tf.float32),
            finished_ids=tf.TensorSpec([None, self._beam_size, None], tf.int32),
            finished_scores=tf.TensorSpec([None, self._beam_size], tf.float32),
            done=tf.TensorSpec([None], tf.bool),
        )
        rows = tf.TensorSpec([None], tf.int32)
        run = _traced(self._run_steps, state, beams, rows, scalar)
        go_on = _traced(self._keep_and_grow, state, beams, rows, scalar)
        return start, run, go_on

    def _empty_beams(self, batch: int, beams: int, length: int) -> _Beams:
        """One alive hypothesis, the empty one, and none finished."""
        none = tf.fill([batch, beams], DEAD)
        ids = tf.zeros([batch, beams, length], tf.int32)
        first = tf.concat([tf.zeros([batch, 1]), none[:, 1:]], axis=1)  # [B, K]
        return _Beams(ids, first, ids, none, tf.zeros([batch], tf.bool))

    def _keep_and_grow(
        self, state: DecodeState, beams: _Beams, kept: tf.Tensor, length: tf.Tensor
    ) -> tuple[DecodeState, _Beams]:
        """Keeps the sentences `kept` [B'] and makes room for `length` steps in all."""
        state, beams = tf.nest.map_structure(lambda x: tf.gather(x, kept), (state, beams))
        more = [[0, 0], [0, 0], [0, length - tf.shape(beams.alive_ids)[2]]]
        beams = beams._replace(
            alive_ids=tf.pad(beams.alive_ids, more), finished_ids=tf.pad(beams.finished_ids, more)
        )
        return self._model.grow(state, length), beams

    def _run_steps(
        self, state: DecodeState, beams: _Beams, limits: tf.Tensor, step: tf.Tensor
    ) -> tuple[DecodeState, _Beams, tf.Tensor]:
        """Takes steps until there is no room for more or all sentences are done."""
        length = tf.shape(beams.alive_ids)[2]
        sentence = state.sentence

        def goes_on(step: tf.Tensor, beams: _Beams, hypothesis: Any) -> tf.Tensor:
            del hypothesis
            return (step < length) & ~tf.reduce_all(beams.done)

        def body(step: tf.Tensor, beams: _Beams, hypothesis: Any) -> tuple[tf.Tensor, _Beams, Any]:
            beams, hypothesis = self._step(step, beams, DecodeState(sentence, hypothesis), limits)
            return step + 1, beams, hypothesis

        step, beams, hypothesis = tf.while_loop(goes_on, body, (step, beams, state.hypothesis))
        return DecodeState(sentence, hypothesis), beams, step

    def _step(
        self, step: tf.Tensor, old: _Beams, state: DecodeState, limits: tf.Tensor
    ) -> tuple[_Beams, Any]:
        """Takes one step of all sentences; those that are done stay as they are.

        Returns:
            The beams, and the state of the model's hypotheses, in the order of the alive ones.
        """
        last = tf.gather(old.alive_ids, tf.maximum(step - 1, 0), axis=2)  # [B, K]
        logits, state = self._model.decode_step(last, step, state)
        # C candidates for each sentence, all [B, C]; ids [B, C, L]
        log_probs, parents, tokens = self._best(logits, old.alive_log_probs)
        here = tf.range(tf.shape(old.alive_ids)[2]) == step  # [L]
        ids = tf.where(here, tokens[..., None], _reorder(old.alive_ids, parents))
        ended = tokens == EOS_ID

        alive_log_probs, (alive_ids, survivors) = best_of(
            tf.where(ended, DEAD, log_probs), self._beam_size, (ids, parents)
        )
        # A continuation of a dead hypothesis may end, but is none.
        scores = tf.where(
            ended & (log_probs > DEAD), log_probs / self._length_penalty(step + 1), DEAD
        )
        finished_scores, finished_ids = best_of(
            tf.concat([old.finished_scores, scores], axis=1),
            self._beam_size,
            tf.concat([old.finished_ids, ids], axis=1),
        )
        new = _Beams(
            alive_ids=alive_ids,
            alive_log_probs=alive_log_probs,
            finished_ids=finished_ids,
            finished_scores=finished_scores,
            done=self._done(step + 1, alive_log_probs, finished_scores, limits),
        )
        hypothesis = state.hypothesis
        if self._beam_size > 1:
            hypothesis = tf.nest.map_structure(lambda x: _reorder(x, survivors), hypothesis)
        return _where_done(old, new), hypothesis

    def _best(
        self, logits: tf.Tensor, alive_log_probs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns log-probability, parent beam and last token of each candidate, [B, C]."""
        logits = tf.cast(logits, tf.float32)  # [B, K, V]
        per_beam = min(self._candidates, logits.shape[-1])
        best, tokens = tf.math.top_k(logits, per_beam)  # [B, K, per_beam]
        normaliser = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
        totals = best + (alive_log_probs - normaliser)[..., None]
        flat = [-1, self._beam_size * per_beam]
        log_probs, places = tf.math.top_k(tf.reshape(totals, flat), self._candidates)
        return log_probs, places // per_beam, _reorder(tf.reshape(tokens, flat), places)

    def _done(
        self,
        length: tf.Tensor,
        alive_log_probs: tf.Tensor,
        finished_scores: tf.Tensor,
        limits: tf.Tensor,
    ) -> tf.Tensor:
        """Tells which sentences [B] are at their limit or cannot find anything better.

        No alive hypothesis can end with a better score than its log-probability now, which only
        falls, over the length penalty at the limit, which is the greatest.
        """
        attainable = alive_log_probs[:, 0] / self._length_penalty(limits)
        to_beat = finished_scores[:, 0 if self._stop_early else -1]
        return (to_beat > attainable) | (length >= limits)

    def _length_penalty(self, length: tf.Tensor) -> tf.Tensor:
        return ((5.0 + tf.cast(length, tf.float32)) / 6.0) ** self._alpha


def greedy_search(model: Steps) -> BeamSearch:
    """Returns the search that takes the likeliest token in every step, T2T's for beam_size 1.

    The score is the log-probability; the length does not matter.
    """
    return BeamSearch(model, beam_size=1, alpha=0.0, candidates=1)


def _traced(
    function: Callable[..., Any], *signature: Any
) -> tf.types.experimental.ConcreteFunction:
    """Compiles for this one signature (nests of specs), so that nothing is ever traced again."""
    return tf.function(function, input_signature=signature).get_concrete_function()


def best_of(scores: tf.Tensor, count: int, entries: Any) -> tuple[tf.Tensor, Any]:
    """Chooses the `count` best of each sentence's N candidates, best first.

    Args:
        scores: [B, N].
        count: how many; at most N.
        entries: a nest of [B, N, ...], what belongs to the candidates.

    Returns:
        Their scores [B, count], and of `entries` what belongs to them, [B, count, ...].
    """
    best, order = tf.math.top_k(scores, count)
    return best, tf.nest.map_structure(lambda x: _reorder(x, order), entries)


def _reorder(x: tf.Tensor, order: tf.Tensor) -> tf.Tensor:
    """Takes from `x` [B, N, ...] the entries `order` [B, M] of each sentence: [B, M, ...]."""
    return tf.gather(x, order, axis=1, batch_dims=1)


def _where_done(old: _Beams, new: _Beams) -> _Beams:
    """Returns the `old` beams of sentences that were done before, and the `new` of the others."""

    def choose(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
        done = tf.reshape(old.done, [-1] + [1] * (len(before.shape) - 1))  # [B, 1, ...]
        return tf.where(done, before, after)

    return _Beams(*map(choose, old, new))


def _results(beams: _Beams) -> Hypotheses:
    """Returns the finished hypotheses, or the alive ones of sentences that have none finished."""
    finished = beams.finished_scores[:, :1] > DEAD  # [B, 1]
    ids = tf.where(finished[..., None], beams.finished_ids, beams.alive_ids)
    scores = tf.where(finished, beams.finished_scores, beams.alive_log_probs)
    return Hypotheses(ids.numpy(), scores.numpy())
