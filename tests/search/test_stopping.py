"""When a beam search ends: T2T's rule, those of transformers' `early_stopping`, and Marian's."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.stopping import Shrinking, stopping_named

EOS = 1
BEAMS, LIMIT, VOCABULARY, SENTENCES = 3, 9, 7, 40


class MarkovModel:
    """The next token's logits depend on the sentence and on the token before; table [B, V, V]."""

    has_source_attention = False

    def __init__(self, table: np.ndarray) -> None:
        self._table = tf.constant(table, tf.float32)

    def start_decoding(self, inputs, beams, length):
        empty = tf.zeros([tf.shape(inputs)[0], beams], tf.int32)
        return DecodeState(inputs[:, 0] - 1, {"nothing": empty})

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        sentence = tf.broadcast_to(state.sentence[:, None], tf.shape(ids))
        last = tf.where(step == 0, 0, ids)
        return tf.gather_nd(self._table, tf.stack([sentence, last], axis=-1)), state


def random_log_probs(seed: int, ending: float) -> np.ndarray:
    """Returns the table of a model; ends are likelier by `ending`."""
    table = np.random.default_rng(seed).normal(0, 2, (SENTENCES, VOCABULARY, VOCABULARY))
    table[..., EOS] += ending
    return table - np.log(np.exp(table).sum(-1, keepdims=True))


class Hypothesis(NamedTuple):
    score: float
    ids: tuple[int, ...]


def expected(log_probs: np.ndarray, alpha: float, stopping: str) -> Hypothesis:
    """Searches in the plainest way for the best output of one sentence; log_probs: [V, V]."""
    alive, finished = [Hypothesis(0.0, ())], []
    for length in range(1, LIMIT + 1):
        found = [
            Hypothesis(score + log_probs[ids[-1] if ids else 0, token], (*ids, token))
            for (score, ids), token in itertools.product(alive, range(VOCABULARY))
        ]
        found = sorted(found, reverse=True)[: 2 * BEAMS]
        ended = [h for h in found[:BEAMS] if h.ids[-1] == EOS or length == LIMIT]
        finished += [Hypothesis(h.score / length**alpha, h.ids) for h in ended]
        finished = sorted(finished, reverse=True)[:BEAMS]
        alive = [h for h in found if h.ids[-1] != EOS][:BEAMS]
        longest = LIMIT if stopping == "never" and alpha > 0 else length
        cannot_improve = finished and alive[0].score / longest**alpha <= finished[-1].score
        if len(finished) == BEAMS and (stopping == "true" or cannot_improve):
            break
    return finished[0]


def expected_of_marian(log_probs: np.ndarray, alpha: float) -> Hypothesis:
    """Does the same as Marian, whose beam is smaller by one for each hypothesis that has ended."""
    alive, finished = [Hypothesis(0.0, ())], []
    size = BEAMS
    for length in range(1, LIMIT + 1):
        found = [
            Hypothesis(score + log_probs[ids[-1] if ids else 0, token], (*ids, token))
            for (score, ids), token in itertools.product(alive, range(VOCABULARY))
        ]
        found = sorted(found, reverse=True)[:size]
        ended = [h for h in found if h.ids[-1] == EOS or length == LIMIT]
        finished += [Hypothesis(h.score / length**alpha, h.ids) for h in ended]
        alive = [h for h in found if h.ids[-1] != EOS]
        size = len(alive)
    return max(finished)


@pytest.mark.parametrize("alpha", [1.0, 0.6, 0.0])
@pytest.mark.parametrize("ending", [1.0, pytest.param(-1.0, marks=pytest.mark.integration)])
@pytest.mark.usefixtures("eager_searches")
def test_the_rule_of_marian(alpha: float, ending: float):
    log_probs = random_log_probs(1, ending)
    search = BeamSearch(
        MarkovModel(log_probs), BEAMS, Penalty(alpha, "average"), stopping=Shrinking()
    )
    ids, scores = search(np.arange(1, SENTENCES + 1)[:, None], LIMIT)
    wanted = [expected_of_marian(table, alpha) for table in log_probs]
    # Not the ids: the same tokens in another order have the same score.
    assert_close(scores[:, 0], [h.score for h in wanted], terms=VOCABULARY * LIMIT)
    for own, hypothesis in zip(ids[:, 0], wanted, strict=True):
        length = len(hypothesis.ids)
        assert sorted(own[:length]) == sorted(hypothesis.ids)
        assert not np.any(own[length:])


@pytest.mark.integration
@pytest.mark.parametrize(
    ("stopping", "alpha"), [("never", 1.0), ("never", 0.0), ("false", 1.0), ("true", 1.0)]
)
@pytest.mark.usefixtures("eager_searches")
def test_the_rules_of_transformers(stopping: str, alpha: float):
    log_probs = random_log_probs(0, 1.0)
    search = BeamSearch(
        MarkovModel(log_probs),
        BEAMS,
        Penalty(alpha, "average"),
        stopping=stopping_named(stopping, early=True),
    )
    ids, scores = search(np.arange(1, SENTENCES + 1)[:, None], LIMIT)
    wanted = [expected(table, alpha, stopping) for table in log_probs]
    # Not the ids: the same tokens in another order have the same score.
    assert_close(scores[:, 0], [h.score for h in wanted], terms=VOCABULARY * LIMIT)
    for own, hypothesis in zip(ids[:, 0], wanted, strict=True):
        assert sorted(own[own > 0]) == sorted(token for token in hypothesis.ids if token)
    assert any(hypothesis.ids[-1] != EOS for hypothesis in wanted)  # the limit cuts it


def test_each_rule_matters():
    """No two of them find the same outputs, at least as these tests state them."""
    log_probs = random_log_probs(0, 1.0)
    found = [
        [expected(table, 1.0, stopping) for table in log_probs]
        for stopping in ("never", "false", "true")
    ]
    found.append([expected_of_marian(table, 1.0) for table in log_probs])
    assert all(one != other for one, other in itertools.combinations(found, 2))
