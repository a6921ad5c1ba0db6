"""The best outputs among those that have their terms: all outputs of tiny models are tried."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from support.pieces import PieceEncoder
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.search.constraints import MinLength
from t2t_lite.search.penalties import NO_PENALTY, Penalty
from t2t_lite.search.stopping import T2TStopping
from t2t_lite.search.term_search import TermSearch
from t2t_lite.terms.spelling import Speller
from t2t_lite.terms.term_automaton import batched, kinds, term_tables
from t2t_lite.terms.term_list import Wanted
from t2t_lite.terms.word_borders import occurrences
from t2t_lite.text.text_encoder import EOS_ID

ENCODER = PieceEncoder()
SPELLER = Speller(ENCODER)
V = ENCODER.vocab_size
LIMIT = 5
PENALTY = Penalty(alpha=0.6)


class TableModel:
    """Predicts by the previous id alone, from a table [V, V] for each sentence."""

    def __init__(self, tables):
        self.tables = tf.constant(tables, tf.float32)

    def start_decoding(self, inputs, beams, length):
        return DecodeState(inputs[:, 0], tf.zeros([tf.shape(inputs)[0], beams]))

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        previous = tf.where(step == 0, 0, ids)
        tables = tf.gather(self.tables, state.sentence)  # [B, V, V]
        return tf.gather(tables, previous, batch_dims=1), state


def log_softmax(x):
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def all_outputs(table):
    """Yields all outputs of at most `LIMIT` ids, with EOS, and their log-probabilities."""
    log_probs = log_softmax(table)
    for size in range(LIMIT):
        for ids in itertools.product(range(2, V), repeat=size):
            path = [0, *ids, EOS_ID]
            yield [*ids, EOS_ID], sum(log_probs[a, b] for a, b in itertools.pairwise(path))


def has(ids, wanted, forbidden):
    text = ENCODER.decode(ids)
    return all(len([*occurrences(w.forms, text)]) >= w.times for w in wanted) and not any(
        any(occurrences([word], text)) for word in forbidden
    )


CASES = [
    ([Wanted("x", ("ab",), 1)], []),
    ([Wanted("x", ("a", "bb"), 2)], ["b"]),
    ([Wanted("x", ("b a",), 1), Wanted("y", ("b",), 1)], ["ab"]),
    ([Wanted("x", ("aa",), 1), Wanted("y", ("b-a", "ba"), 1)], []),
    ([], ["a", "b", "ab", "-"]),
]


def searched(search, cases, limits=LIMIT, rows=None, prefixes=None):
    tables = [term_tables(*case, SPELLER) for case in cases]
    rows = np.arange(len(cases))[:, None] if rows is None else np.array(rows)[:, None]
    found = search(rows, limits, prefixes, extra=batched(tables))
    return found.ids, found.scores


@pytest.fixture(scope="module")
def model():
    random = np.random.default_rng(7)
    tables = random.normal(0.0, 2.0, [len(CASES), V, V])
    tables[:, :, 0] = -1e9  # padding
    return TableModel(tables)


def make(model, beam_size, xla_compile=False, penalty=PENALTY, constraints=()):
    return TermSearch(
        model,
        kinds(SPELLER.borders),
        beam_size,
        penalty,
        stopping=T2TStopping(early=False),
        constraints=constraints,
        xla_compile=xla_compile,
    )


@pytest.fixture(scope="module")
def wide(model):
    return make(model, 2000)  # more than the outputs of LIMIT ids that differ in their beginning


def test_a_wide_beam_finds_the_best_of_all(model, wide):
    ids, scores = searched(wide, CASES)
    for i, (wanted, forbidden) in enumerate(CASES):
        outputs = [
            (total / ((5 + len(path)) / 6) ** 0.6, path)
            for path, total in all_outputs(model.tables[i].numpy())
            if has(path, wanted, forbidden)
        ]
        outputs.sort(reverse=True)
        for rank in range(3):
            score, path = outputs[rank]
            assert scores[i, rank] == pytest.approx(score, abs=1e-4)
            assert ids[i, rank, : len(path)].tolist() == path


@pytest.fixture(scope="module")
def small(model):
    """A small beam, and what it finds for all cases together."""
    search = make(model, 8)
    return search, searched(search, CASES, limits=30)


@pytest.mark.integration
def test_a_small_beam_meets_all_terms_whatever_the_batch(small):
    search, together = small
    for i, case in enumerate(CASES):
        ids, scores = searched(search, [case], limits=30, rows=[i])
        size = min(ids.shape[2], together[0].shape[2])
        assert (ids[0, :, :size] == together[0][i, :, :size]).all()
        np.testing.assert_allclose(scores[0], together[1][i], rtol=1e-5)
        for path in ids[0]:
            assert EOS_ID in path
            assert has([*path[path > 1], EOS_ID], *case)


@pytest.mark.integration
def test_xla_finds_the_same(model, small):
    """It compiles a program for each size of tables: one case, with two terms, is enough."""
    i, (_, together) = 3, small
    ids, scores = searched(make(model, 8, True), [CASES[i]], limits=30, rows=[i])
    np.testing.assert_allclose(scores[0], together[1][i], rtol=1e-5)
    # Those of equal scores may change places.
    found, wanted = (
        {tuple(path[path > 0].tolist()) for path in paths} for paths in (ids[0], together[0][i])
    )
    assert found == wanted


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_other_constraints_and_prefixes_hold(model):
    search = make(model, 8, penalty=NO_PENALTY, constraints=[MinLength(7)])
    prefix = ENCODER.encode("bb")
    ids, scores = searched(search, CASES, limits=30, prefixes=np.array([prefix] * len(CASES)))
    for i, case in enumerate(CASES[:2]):
        path = ids[i, 0][ids[i, 0] > 0].tolist()
        assert path[:2] == prefix
        assert len(path) > 7
        assert has(path, *case)
        steps = log_softmax(model.tables[i].numpy())
        total = sum(steps[a, b] for a, b in itertools.pairwise([0, *path]))
        assert scores[i, 0] == pytest.approx(total, abs=1e-4)


@pytest.mark.integration
def test_terms_that_do_not_fit_leave_what_there_is(model):
    ids, _ = searched(make(model, 8), [([Wanted("x", ("ab ab ab",), 1)], [])], limits=3, rows=[0])
    assert ids[0, 0].all()
    assert EOS_ID not in ids[0]
