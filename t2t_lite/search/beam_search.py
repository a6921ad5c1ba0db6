"""Beam search, with T2T's scores and stopping rule, over any model that decodes step by step.

Hypotheses of a sentence are either alive or finished. In each step all continuations of the K alive
ones compete. Of the best 2K, those that end compete with the K finished ones; the best K of the
others stay alive. (At most K of the 2K end, so that K always stay alive.) Finished hypotheses are
scored by a `Penalty`; alive ones, all of the same length, by their log-probability.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.constraints import Constraint
from t2t_lite.search.parts import DEAD, Sentences, StepModel
from t2t_lite.search.penalties import DEFAULT_PENALTY, NO_PENALTY, Penalty, coverage_so_far
from t2t_lite.search.search_loop import Asked, Hypotheses, SearchLoop, hypotheses, reorder
from t2t_lite.search.stopping import Standing, Stopping, T2TStopping
from t2t_lite.search.top_k import top_k
from t2t_lite.text.alignment.shortlist import Shortlist
from t2t_lite.text.text_encoder import EOS_ID

_T2T_STOPPING = T2TStopping()


class _Beams(NamedTuple):
    """The state of the search between steps; all best first."""

    alive_ids: tf.Tensor  # [B, K, L]
    alive_log_probs: tf.Tensor  # [B, K]
    finished_ids: tf.Tensor  # [B, K, L], 0 after EOS
    finished_scores: tf.Tensor  # [B, K], `DEAD` if missing; NaN: see `Hypotheses`
    done: tf.Tensor  # [B]: the sentence's search has ended


class BeamSearch(SearchLoop):
    """Searches for the best outputs of a model.

    Examples:
        >>> search = BeamSearch(model, beam_size=4, penalty=Penalty(alpha=0.6))
        >>> ids, scores = search(inputs, max_lengths=50)

    Args:
        model: any `Seq2Seq` or `StepModel`, or a plain `keras.Model` that maps (inputs, targets) to
            logits or probabilities: correct too, but slow (see `PlainKerasModel`).
        beam_size: K.
        penalty: scores finished hypotheses; one of your own, too.
        stopping: when the search for a sentence ends; a rule of your own, too.
        constraints: what outputs must or must not contain; your own, too.
        candidates: continuations considered per sentence and step, at least K; None: K for each id
            that ends an output, and K more.
        is_prompt: whether prefixes are prompts, whose log-probability and length do not count.
        xla_compile: whether XLA compiles the steps.
        shortlist: the ids that outputs may consist of; None: all.
        start_id: for a plain Keras model that does not shift its targets right: the id with which
            they begin, such as that of `[start]`. Outputs are returned without it.
        eos_id: the id that ends an output.
        shifts: whether a plain Keras model shifts its targets; None: as is found out, when the
            search is made, by calls with a small random batch.

    Raises:
        UsageError: `beam_size` or `candidates` is too small, a plain Keras model is not causal, or
            does not fit `start_id`, `eos_id` and `shifts`, or Keras uses a backend other than
            TensorFlow.
    """

    def __init__(
        self,
        model: StepModel | keras.Model,
        beam_size: int = 4,
        penalty: Penalty = DEFAULT_PENALTY,
        stopping: Stopping = _T2T_STOPPING,
        constraints: Sequence[Constraint] = (),
        candidates: int | None = None,
        is_prompt: bool = False,
        xla_compile: bool = False,
        shortlist: Shortlist | None = None,
        start_id: int | None = None,
        eos_id: int = EOS_ID,
        shifts: bool | None = None,
    ) -> None:
        if candidates is not None and candidates < beam_size:
            raise UsageError(
                f"candidates={candidates}: expected at least beam_size={beam_size}, or None"
            )
        parts = (constraints, penalty, is_prompt, xla_compile, shortlist)
        super().__init__(model, beam_size, *parts, start_id, eos_id, shifts)
        self._stopping = stopping
        every = (1 + len(self._ends)) * beam_size  # K of them go on, whichever end
        self._candidates = every if candidates is None else candidates

    @property
    def _most_candidates(self) -> int:
        return self._candidates

    def _begin(self, sentences: Sentences, asked: Asked) -> Any:
        """Returns one alive hypothesis, the empty one, and no finished ones."""
        batch = tf.shape(sentences.limits)[0]
        none = tf.fill([batch, self._beam_size], DEAD)
        ids = tf.zeros([batch, self._beam_size, asked.length], tf.int32)
        first = tf.concat([tf.zeros([batch, 1]), none[:, 1:]], axis=1)  # [B, K]
        return _Beams(ids, first, ids, none, tf.zeros([batch], tf.bool))

    def _lengthen(self, beams: _Beams, length: tf.Tensor) -> _Beams:
        more = [[0, 0], [0, 0], [0, length - tf.shape(beams.alive_ids)[2]]]
        return beams._replace(
            alive_ids=tf.pad(beams.alive_ids, more), finished_ids=tf.pad(beams.finished_ids, more)
        )

    def _step(
        self, step: tf.Tensor, old: Any, state: DecodeState, sentences: Sentences
    ) -> tuple[Any, Any]:
        last = tf.gather(old.alive_ids, tf.maximum(step - 1, 0), axis=2)  # [B, K]
        logits, state = self._decode_step(last, step, state, sentences)
        logits, left = self._constrained(logits, old.alive_ids, step, sentences)
        # C candidates for each sentence, all [B, C]; ids [B, C, L]
        log_probs, parents, tokens, is_nan = self._best(logits, old.alive_log_probs + left)
        here = tf.range(tf.shape(old.alive_ids)[2]) == step  # [L]
        ids = tf.where(here, tokens[..., None], reorder(old.alive_ids, parents))
        length = step + 1 - sentences.uncounted  # [B]
        ended = self._ended(tokens)
        counts = self._stopping.counts(old.finished_scores, self._candidates)
        may_end, survives = ended, ~ended
        if self._stopping.ends_at_limit:
            may_end |= (length >= sentences.limits - sentences.uncounted)[:, None]
        may_end &= counts
        if self._stopping.shrinks:
            survives &= counts
        alive_log_probs, (alive_ids, survivors) = best_of(
            tf.where(survives, log_probs, DEAD), self._beam_size, (ids, parents)
        )
        scores = self.penalty.score(
            log_probs, length[:, None], self._log_coverage(state, parents), ids
        )
        finished_scores, finished_ids = best_of(
            # A continuation of a dead hypothesis may end, but does not count.
            tf.concat(
                [old.finished_scores, tf.where(may_end & (log_probs > DEAD), scores, DEAD)], axis=1
            ),
            self._beam_size,
            tf.concat([old.finished_ids, ids], axis=1),
        )
        new = _Beams(
            alive_ids=alive_ids,
            alive_log_probs=alive_log_probs,
            finished_ids=finished_ids,
            finished_scores=tf.where(is_nan[:, None], float("nan"), finished_scores),
            done=self._done(length, alive_log_probs, finished_scores, sentences) | is_nan,
        )
        hypothesis = state.hypothesis
        if self._beam_size > 1:
            hypothesis = tf.nest.map_structure(lambda x: reorder(x, survivors), hypothesis)
        return new, hypothesis

    def _log_coverage(self, state: DecodeState, parents: tf.Tensor) -> tf.Tensor | float:
        """Returns the coverage of candidates [B, C], including the step that found them."""
        if not self.penalty.coverage_penalty:
            return 0.0
        return reorder(coverage_so_far(state), parents)

    def _best(
        self, logits: tf.Tensor, alive_log_probs: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Finds the best candidates.

        Returns:
            The log-probability, parent beam and last token of each candidate, all [B, C]; and
            whether the model output NaN [B]: NaN in any logit is NaN in their sum.
        """
        logits = tf.cast(logits, tf.float32)  # [B, K, V]
        per_beam = min(self._candidates, logits.shape[-1] or self._candidates)
        best, tokens = top_k(logits, per_beam)  # [B, K, per_beam]
        # log P = logit - log Σ exp(logits), relative to the largest, which is already known.
        relative = tf.reduce_sum(tf.exp(logits - best[..., :1]), axis=-1, keepdims=True)
        totals = best - best[..., :1] - tf.math.log(relative) + alive_log_probs[..., None]
        is_nan = tf.reduce_any(tf.math.is_nan(relative), axis=[1, 2])
        totals = tf.where(is_nan[:, None, None], DEAD, totals)  # NaN has no order
        flat = [-1, self._beam_size * per_beam]
        log_probs, places = tf.math.top_k(tf.reshape(totals, flat), self._candidates)
        return log_probs, places // per_beam, reorder(tf.reshape(tokens, flat), places), is_nan

    def _done(
        self,
        length: tf.Tensor,
        alive_log_probs: tf.Tensor,
        finished_scores: tf.Tensor,
        sentences: Sentences,
    ) -> tf.Tensor:
        """Returns which sentences' searches [B] end.

        Args:
            length: [B], of the alive hypotheses.
            alive_log_probs: [B, K].
            finished_scores: [B, K].
            sentences: their greatest lengths.
        """
        limits = sentences.limits - sentences.uncounted
        standing = Standing(length, limits, alive_log_probs[:, 0], finished_scores)
        return self._stopping.done(standing, self.penalty)

    def _results(self, beams: _Beams) -> Hypotheses:
        """Returns the finished hypotheses, or the alive ones if a sentence has none."""
        unfinished = beams.finished_scores[:, :1] <= DEAD  # [B, 1]
        ids = tf.where(unfinished[..., None], beams.alive_ids, beams.finished_ids)
        scores = tf.where(unfinished, beams.alive_log_probs, beams.finished_scores)
        return hypotheses(ids, scores)


def greedy_search(
    model: StepModel | keras.Model,
    constraints: Sequence[Constraint] = (),
    is_prompt: bool = False,
    xla_compile: bool = False,
    shortlist: Shortlist | None = None,
) -> BeamSearch:
    """Returns a search that takes the likeliest token in every step, as T2T does for beam_size=1.

    The score is the log-probability, whatever the length.
    """
    return BeamSearch(
        model,
        beam_size=1,
        penalty=NO_PENALTY,
        constraints=constraints,
        candidates=1,
        is_prompt=is_prompt,
        xla_compile=xla_compile,
        shortlist=shortlist,
    )


def best_of(scores: tf.Tensor, count: int, entries: Any) -> tuple[tf.Tensor, Any]:
    """Selects the `count` best of each sentence's N candidates, best first.

    Args:
        scores: [B, N].
        count: at most N.
        entries: a nest of [B, N, ...], the candidates' values.

    Returns:
        Their scores [B, count] and their entries [B, count, ...].
    """
    best, order = tf.math.top_k(scores, count)
    return best, tf.nest.map_structure(lambda x: reorder(x, order), entries)
