"""Constraints, penalties and samplers of a user's own."""

import math

import numpy as np
import pytest
import tensorflow as tf

import t2t_lite as t2t
from support.registries import restored
from support.rounding import assert_close
from support.small_models import ByHand, make_decided
from t2t_lite import registry
from t2t_lite.bin.registry_help import registry_help
from t2t_lite.decoding.scoring import total_score
from t2t_lite.errors import UsageError
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search
from t2t_lite.search.penalties import CoverageTracker

EOS, A, B = 1, 2, 3
FIRST = {EOS: 0.1, A: 0.5, B: 0.4}  # what comes first; then EOS, or with 0.3 once more B


class Without(t2t.Constraint):
    """Forbids one id."""

    def __init__(self, forbidden):
        self.forbidden = forbidden

    @classmethod
    def from_hparams(cls, hparams, encoders, text):
        return cls(int(text))

    def allowed(self, ids, step, sentences, vocab_size):
        return tf.range(vocab_size) != self.forbidden


class First(Without):
    """Forbids an id at the first step only."""

    def applies(self, step, sentences):
        return step == 0


class Reward(t2t.Penalty):
    """Adds 1 for each B."""

    def score(self, log_probs, length, coverage, ids):
        found = tf.reduce_sum(tf.cast(ids == B, tf.float32), axis=-1)
        return super().score(log_probs, length, coverage, ids) + found

    def attainable(self, log_probs, length, limit):
        return super().attainable(log_probs, length, limit) + tf.cast(limit, tf.float32)


class Unlikeliest(t2t.Sampler):
    """Draws the least likely of what is permitted."""

    def weights(self, log_probs):
        permitted = tf.where(log_probs > -50.0, log_probs, 1.0)
        return tf.one_hot(tf.argmin(permitted, axis=-1), log_probs.shape[-1])


@pytest.fixture
def names():
    """The parts under their names."""
    with restored():
        for kind in (Without, First, Reward, Unlikeliest):
            registry.register_search(kind)
        yield


@pytest.fixture(scope="module")
def model():
    table = np.zeros([3, 1, 4, 4])
    table[0, 0, 0, [EOS, A, B]] = list(FIRST.values())
    table[1, 0, :, [EOS, B]] = [[0.7], [0.3]]
    table[2, 0, :, EOS] = 1.0
    return ByHand(table)


def best(search):
    """Returns the best output's ids without padding, and its score."""
    ids, scores = search(np.array([[1]]), [3])
    return [int(i) for i in ids[0, 0] if i], scores[0, 0]


def settings(changes):
    return DecodeHParams().override(f"extra_length=2,{changes}")


@pytest.mark.integration
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.usefixtures("eager_searches")
def test_constraints(model, names, size):
    """Scores stay the model's own; several hold together."""
    for forbidden, expected in (("without:2", [B, EOS]), ("without:2+without:3", [EOS])):
        hparams = settings(f"beam_size={size},alpha=0,search={forbidden}")
        ids, score = best(make_search(model, {}, hparams))
        assert ids == expected
        log_prob = math.log(FIRST[ids[0]] * (0.7 if len(ids) > 1 else 1.0))
        assert_close(score, log_prob, 2 * 4)
    part = First(A)
    assert best(t2t.BeamSearch(model, size, constraints=[part]))[0] == [B, EOS]
    given = make_search(model, {}, settings(f"beam_size={size}"), [part])
    assert best(given)[0] == [B, EOS]


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_penalties(model, names):
    """What they see of the hypotheses in a search is what they see where targets are scored."""
    for search in (
        make_search(model, {}, settings("beam_size=3,alpha=0.5,search=reward")),
        t2t.BeamSearch(model, 3, penalty=Reward(alpha=0.5)),
    ):
        ids, score = best(search)
        assert ids == [B, B, EOS]
        expected = math.log(0.4 * 0.3) / (8 / 6) ** 0.5 + 2
        assert_close(score, expected, 3 * 4)
        assert search.penalty == Reward(0.5)

    def scored(features):
        """Returns the logits [1, 3, V] of the steps."""
        return tf.math.log([[[0.0, *FIRST.values()], [0.0, 0.7, 0.0, 0.3], [0.0, 1.0, 0.0, 0.0]]])

    features = {"inputs": tf.constant([[1]]), "targets": tf.constant([[B, B, EOS]])}
    assert_close(total_score(scored, features, search.penalty)[0], score, 3 * 4)


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_samplers(model, names):
    named = settings("sampling_method=random,search=unlikeliest+first:1")
    given = t2t.RandomSearch(model, 4, 0, Unlikeliest(), [First(EOS)])
    for search in (make_search(model, {}, named), given):
        ids, score = best(search)
        assert ids == [B, B, EOS]
        assert_close(score, math.log(0.4 * 0.3), 3 * 4)
    ids, score = best(t2t.RandomSearch(model, 4, 0, Unlikeliest()))
    assert ids == [EOS]
    assert_close(score, math.log(0.1), 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("search=withot:2", "unknown search part 'withot'; did you mean 'without'"),
        ("search=unlikeliest", "Unlikeliest: a sampler needs the decode hparam sampling_method"),
        ("beam_size=1,search=reward", "Reward: a penalty applies only to beam search"),
        ("sampling_method=random,search=reward", "Reward: a penalty applies only to beam search"),
        ("search=reward+reward", "Reward and Reward: a search has one penalty; leave one out"),
    ],
)
def test_parts_that_do_not_fit(model, names, changes, message):
    with pytest.raises(UsageError, match=message):
        make_search(model, {}, settings(changes))


def test_what_is_no_part(model, names):
    registry.register_search("nothing")(lambda: None)
    with pytest.raises(UsageError, match=r"search part 'nothing': .* is not a class derived from"):
        settings("search=nothing")
    with pytest.raises(UsageError, match="search part 'x': expected a Constraint, Penalty or Samp"):
        make_search(model, {}, settings(""), ["x"])
    assert "* unlikeliest" in registry_help()


def test_what_a_wrapped_model_remembers_grows_with_the_search():
    tracker = CoverageTracker(make_decided("transformer", seed=1))
    inputs = tf.constant([[3, 4, EOS]])
    grown = tracker.grow(tracker.start_decoding(inputs, 2, 4), 9)
    whole = tracker.start_decoding(inputs, 2, 9)
    for found, expected in zip(tf.nest.flatten(grown), tf.nest.flatten(whole), strict=True):
        assert found.shape == expected.shape
