"""Beam search for outputs that contain given terms, and lack others.

After dynamic beam allocation (Post and Vilar 2018): the hypotheses that stay alive are shared out
among banks, by how many ids of the terms they have, so that some always go on to meet all terms.
Only those that do can end. An automaton for each sentence (`terms/term_automaton.py`) tells what a
hypothesis has; it takes the place of the trie of Hu et al. (2019).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.beam_search import BeamSearch, best_of
from t2t_lite.search.constraints import Constraint
from t2t_lite.search.parts import DEAD, Sentences, StepModel
from t2t_lite.search.penalties import Penalty, coverage_so_far
from t2t_lite.search.search_loop import Asked, reorder
from t2t_lite.search.stopping import T2TStopping
from t2t_lite.search.top_k import top_k
from t2t_lite.terms.term_automaton import KINDS, TermTables
from t2t_lite.text.text_encoder import EOS_ID, PAD_ID

# The kind of ids that the vocabulary does not know: they begin and end words.
_UNKNOWN_KIND = KINDS - 1


class _TermBeams(NamedTuple):
    """The state of the search between steps; all best first."""

    alive_ids: tf.Tensor  # [B, K, L]
    alive_log_probs: tf.Tensor  # [B, K]
    alive_nodes: tf.Tensor  # [B, K], of the automaton
    alive_met: tf.Tensor  # [B, K, C], how many times each term has appeared
    finished_ids: tf.Tensor  # [B, K, L], 0 after EOS
    finished_scores: tf.Tensor  # [B, K], `DEAD` if missing; NaN: see `Hypotheses`
    done: tf.Tensor  # [B]: the sentence's search has ended


class _Candidates(NamedTuple):
    """The continuations of all hypotheses but EOS: M = K (P + U - 5) for each sentence."""

    log_probs: tf.Tensor  # [B, M]
    parents: tf.Tensor  # [M]
    tokens: tf.Tensor  # [B, M]
    nodes: tf.Tensor  # [B, M]
    met: tf.Tensor  # [B, M, C]


class TermSearch(BeamSearch):
    """Searches for the best outputs of a model that meet the terms of their sentences.

    It ends by T2T's rule. Where no hypothesis meets all terms within its limit, the alive ones are
    returned.

    Args:
        model: any `Seq2Seq` or `StepModel`.
        kinds: [V], the kind of each id: see `term_automaton.kinds`.
        beam_size: K; more than the ids of all terms of a sentence, so that each bank has a place.
        penalty: scores finished hypotheses.
        stopping: as in `BeamSearch`; T2T's rule.
        constraints: as in `BeamSearch`.
        xla_compile: as in `BeamSearch`.
    """

    _extra_signature = tuple(
        tf.TensorSpec([None] * rank, tf.int32) for rank in (2, 2, 3, 2, 3, 2, 3, 2, 2)
    )

    def __init__(
        self,
        model: StepModel,
        kinds: np.ndarray,
        beam_size: int,
        penalty: Penalty,
        stopping: T2TStopping,
        constraints: Sequence[Constraint] = (),
        xla_compile: bool = False,
    ) -> None:
        super().__init__(model, beam_size, penalty, stopping, constraints, xla_compile=xla_compile)
        self._kinds = kinds

    def _begin(self, sentences: Sentences, asked: Asked) -> _TermBeams:
        beams = super()._begin(sentences, asked)
        none = tf.zeros_like(beams.alive_ids[:, :, 0])
        terms = tf.shape(TermTables(*sentences.extra).needed)[1]
        met = tf.tile(none[:, :, None], [1, 1, terms])
        return _TermBeams(**beams._asdict(), alive_nodes=none, alive_met=met)

    def _step(
        self, step: tf.Tensor, old: Any, state: DecodeState, sentences: Sentences
    ) -> tuple[Any, Any]:
        terms = TermTables(*sentences.extra)
        last = tf.gather(old.alive_ids, tf.maximum(step - 1, 0), axis=2)  # [B, K]
        logits, state = self._decode_step(last, step, state, sentences)
        logits, left = self._constrained(logits, old.alive_ids, step, sentences)
        logits = tf.cast(logits, tf.float32)
        total = tf.reduce_logsumexp(logits, axis=-1)  # [B, K]
        is_nan = tf.reduce_any(tf.math.is_nan(total), axis=1)  # NaN in any logit is NaN in the sum
        log_probs = logits + (old.alive_log_probs + left - total)[..., None]  # [B, K, V]
        log_probs = tf.where(is_nan[:, None, None], DEAD, log_probs)
        own = self._of_own_columns(log_probs, terms, old.alive_nodes)  # EOS first

        found = self._candidates_after(log_probs, own, old, terms)
        chosen = self._shared_out(found, terms)  # [B, K]
        parents, tokens, nodes, met = (
            reorder(x, chosen)
            for x in (
                tf.broadcast_to(found.parents, tf.shape(found.tokens)),
                found.tokens,
                found.nodes,
                found.met,
            )
        )
        here = tf.range(tf.shape(old.alive_ids)[2]) == step  # [L]
        alive_log_probs = reorder(found.log_probs, chosen)
        finished_ids, finished_scores = self._finished(step, own[..., 0], old, state, sentences)
        new = _TermBeams(
            alive_ids=tf.where(here, tokens[..., None], reorder(old.alive_ids, parents)),
            alive_log_probs=alive_log_probs,
            alive_nodes=nodes,
            alive_met=met,
            finished_ids=finished_ids,
            finished_scores=tf.where(is_nan[:, None], float("nan"), finished_scores),
            done=is_nan
            | self._done(
                step + 1 - sentences.uncounted, alive_log_probs, finished_scores, sentences
            ),
        )
        hypothesis = tf.nest.map_structure(lambda x: reorder(x, parents), state.hypothesis)
        return new, hypothesis

    def _of_own_columns(
        self, log_probs: tf.Tensor, terms: TermTables, nodes: tf.Tensor
    ) -> tf.Tensor:
        """Returns the log-probabilities of EOS and the ids in spellings: [B, K, U - 4]."""
        ids = tf.tile(terms.ids[:, None, KINDS:], [1, self._beam_size, 1])
        excluded = _completes_forbidden(terms, nodes)[..., KINDS:] | (ids == PAD_ID)
        return tf.where(excluded, 2 * DEAD, tf.gather(log_probs, ids, batch_dims=2))

    def _candidates_after(
        self, log_probs: tf.Tensor, own: tf.Tensor, old: _TermBeams, terms: TermTables
    ) -> _Candidates:
        """Returns the likeliest continuations of each hypothesis, and all ids in spellings.

        Args:
            log_probs: [B, K, V], of the hypotheses with each id.
            own: [B, K, U - 4], those of EOS and the ids in spellings.
            old: the hypotheses.
            terms: the automata.
        """
        size = log_probs.shape[-1] or tf.shape(log_probs)[-1]
        kinds = tf.constant(self._kinds)[:size]
        kinds = tf.pad(kinds, [[0, size - tf.shape(kinds)[0]]], constant_values=_UNKNOWN_KIND)
        by_kind = _completes_forbidden(terms, old.alive_nodes)[..., :KINDS]  # [B, K, 4]
        excluded = tf.gather(by_kind, kinds, axis=2) | _in_spellings(terms.ids, size)
        likeliest = min(2 * self._beam_size, log_probs.shape[-1] or 2 * self._beam_size)
        best, tokens = top_k(tf.where(excluded, 2 * DEAD, log_probs), likeliest)  # [B, K, P]

        others = terms.ids[:, None, KINDS + 1 :]  # without EOS: [B, 1, U - 5]
        others = tf.tile(others, [1, self._beam_size, 1])
        columns = tf.zeros_like(others) + tf.range(tf.shape(others)[2]) + KINDS + 1
        columns = tf.concat([tf.gather(kinds, tokens), columns], axis=2)  # [B, K, P + U - 5]
        nodes = tf.gather(reorder(terms.following, old.alive_nodes), columns, batch_dims=2)
        is_border = tf.gather(_borders_after(terms, old.alive_nodes), columns, batch_dims=2)
        completes = reorder(terms.completes, old.alive_nodes)  # [B, K, C]
        met = old.alive_met[:, :, None] + is_border[..., None] * completes[:, :, None]
        met = tf.minimum(met, terms.needed[:, None, None])
        tokens = tf.concat([tokens, others], axis=2)
        log_probs = tf.concat([best, own[..., 1:]], axis=2)
        each = tf.shape(tokens)[2]
        batch, count = tf.shape(tokens)[0], self._beam_size * each
        return _Candidates(
            log_probs=tf.reshape(log_probs, [batch, count]),
            parents=tf.range(count) // each,
            tokens=tf.reshape(tokens, [batch, count]),
            nodes=tf.reshape(nodes, [batch, count]),
            met=tf.reshape(met, [batch, count, tf.shape(met)[3]]),
        )

    def _shared_out(self, found: _Candidates, terms: TermTables) -> tf.Tensor:
        """Returns which candidates [B, K] stay alive, the likeliest first.

        The likeliest of each bank comes first, that of the fullest bank before; then the second of
        each, and so on.
        """
        banks = _banks(found, terms)  # [B, M], from 0
        order = tf.argsort(found.log_probs, axis=1, direction="DESCENDING", stable=True)
        banks, log_probs = reorder(banks, order), reorder(found.log_probs, order)
        by_bank = tf.argsort(banks, axis=1, stable=True)  # the likeliest first in each
        sorted_banks = reorder(banks, by_bank)
        before = tf.searchsorted(sorted_banks, sorted_banks)  # in the banks below
        ranks = tf.range(tf.shape(banks)[1]) - before
        ranks = reorder(ranks, tf.argsort(by_bank, axis=1))  # in the order of likelihood again
        number = tf.reduce_max(banks) + 1
        turn = ranks * number + (number - 1 - banks)
        turn = tf.where(log_probs > DEAD, turn, tf.int32.max)
        chosen = tf.math.top_k(-turn, self._beam_size).indices  # of equal ones the likeliest
        return reorder(order, tf.sort(chosen, axis=1))

    def _finished(
        self,
        step: tf.Tensor,
        log_probs: tf.Tensor,
        old: _TermBeams,
        state: DecodeState,
        sentences: Sentences,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the ids and scores of the finished hypotheses, with those that end now.

        Args:
            step: the step.
            log_probs: [B, K], of the hypotheses with EOS.
            old: those before.
            state: the model's.
            sentences: with their automata.
        """
        terms = TermTables(*sentences.extra)
        completes = reorder(terms.completes, old.alive_nodes)  # [B, K, C], as EOS begins a word
        is_met = tf.reduce_all(old.alive_met + completes >= terms.needed[:, None], axis=2)
        here = tf.range(tf.shape(old.alive_ids)[2]) == step  # [L]
        ids = tf.where(here, EOS_ID, old.alive_ids)
        length = step + 1 - sentences.uncounted  # [B]
        coverage = coverage_so_far(state) if self.penalty.coverage_penalty else 0.0
        scores = self.penalty.score(log_probs, length[:, None], coverage, ids)
        scores = tf.where(is_met & (log_probs > DEAD), scores, DEAD)
        scores, ids = best_of(
            tf.concat([old.finished_scores, scores], axis=1),
            self._beam_size,
            tf.concat([old.finished_ids, ids], axis=1),
        )
        return ids, scores


def _borders_after(terms: TermTables, nodes: tf.Tensor) -> tf.Tensor:
    """Returns whether a word may end after nodes [B, K], before each column: 0 or 1, [B, K, U]."""
    return tf.maximum(terms.begins[:, None], reorder(terms.ends, nodes)[..., None])


def _completes_forbidden(terms: TermTables, nodes: tf.Tensor) -> tf.Tensor:
    """Returns whether each column would complete a forbidden word after nodes: [B, K, U]."""
    forbidden = reorder(terms.is_forbidden, nodes)[..., None]
    return forbidden * _borders_after(terms, nodes) > 0


def _banks(found: _Candidates, terms: TermTables) -> tf.Tensor:
    """Returns how many ids of the terms each candidate has: [B, M], at least 0."""
    missing = terms.needed[:, None] - found.met  # [B, M, C]
    cost = terms.cost[:, None]
    # What is being read of one term counts, if the term is still missing.
    begun = tf.where(missing > 0, cost - reorder(terms.left, found.nodes), 0)
    total = tf.reduce_sum(terms.needed * terms.cost, axis=1)  # [B]
    return total[:, None] - tf.reduce_sum(missing * cost, axis=2) + _largest(begun)


def _largest(x: tf.Tensor) -> tf.Tensor:
    """Returns the largest of the last dimension, which may be empty; at least 0."""
    return tf.reduce_max(tf.pad(x, [[0, 0], [0, 0], [0, 1]]), axis=2)


def _in_spellings(ids: tf.Tensor, size: int | tf.Tensor) -> tf.Tensor:
    """Returns whether a spelling has each id, or it is EOS or PAD: [B, 1, V]."""
    batch = tf.shape(ids)[0]
    rows = tf.broadcast_to(tf.range(batch)[:, None], tf.shape(ids))
    places = tf.stack([rows, ids], axis=2)  # [B, U, 2]
    return tf.scatter_nd(places, tf.ones_like(ids), [batch, size])[:, None] > 0
