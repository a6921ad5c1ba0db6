import math

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.small_models import ByHand
from t2t_lite.search.constraints import MinLength, NoRepeatedNgrams
from t2t_lite.search.parts import DEAD
from t2t_lite.search.sampling import RandomSearch, Sampler, _chosen

pytestmark = pytest.mark.usefixtures("eager_searches")

EOS = 1
FIRST = [0.0, 0.1, 0.4, 0.3, 0.2]  # what comes first; then always EOS
N = 4000


@pytest.fixture(scope="module")
def model():
    table = np.zeros([3, 1, 5, 5])
    table[0, 0, 0] = FIRST
    table[1:, 0, :, EOS] = 1.0
    return ByHand(table)


def draw(model, numbers=range(N // 40), limit=2, prefixes=None, samples=40, seed=7, **settings):
    numbers = np.array(numbers)
    constraints = settings.pop("constraints", ())
    search = RandomSearch(model, samples, seed, Sampler(**settings), constraints)
    return search(np.ones([len(numbers), 1]), [limit] * len(numbers), prefixes, numbers)


def renormalised(weights):
    return np.array(weights) / sum(weights)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, FIRST),
        ({"temperature": 0.5}, renormalised(np.square(FIRST))),
        ({"top_k": 2}, renormalised([0, 0, 0.4, 0.3, 0])),
        ({"top_k": 99, "temperature": 2.0}, renormalised(np.sqrt(FIRST))),
        ({"top_p": 0.65}, renormalised([0, 0, 0.4, 0.3, 0])),
        ({"top_p": 0.75}, renormalised([0, 0, 0.4, 0.3, 0.2])),
        ({"top_p": 0.01}, [0, 0, 1, 0, 0]),
        ({"top_k": 3, "top_p": 0.4}, [0, 0, 1, 0, 0]),  # 0.4 / 0.9 of what top_k left
        ({"constraints": [MinLength(1)]}, renormalised([0, 0, 0.4, 0.3, 0.2])),
    ],
)
def test_frequencies_are_the_probabilities(model, settings, expected):
    ids, scores = draw(model, **settings)
    counts = np.bincount(ids[:, :, 0].ravel(), minlength=5)
    # Four standard deviations of a binomial's share.
    deviation = np.sqrt(np.multiply(expected, np.subtract(1, expected)) / N)
    assert (np.abs(counts / N - expected) <= 4 * deviation).all()
    # The model's own probability, whatever the settings.
    assert_close(scores, np.log(np.array(FIRST)[ids[:, :, 0]]), 2 * 5)  # two steps, five ids
    np.testing.assert_array_equal(ids[:, :, 1], np.where(ids[:, :, 0] == EOS, 0, EOS))


@pytest.mark.integration
def test_a_sample_depends_on_seed_and_number_alone(model):
    ids, scores = draw(model)
    again = draw(model)
    np.testing.assert_array_equal(ids, again.ids)
    np.testing.assert_array_equal(scores, again.scores)
    some = [17, 3, 99, 51]
    np.testing.assert_array_equal(draw(model, some).ids, ids[some])
    np.testing.assert_array_equal(draw(model, [51]).ids, ids[[51]])
    assert (draw(model, seed=8).ids != ids).any()
    assert (ids[0] != ids[1:]).any()
    assert (ids[:, 0] != ids[:, 1]).any()


@pytest.mark.integration
def test_a_prefix_is_in_every_sample(model):
    ids, scores = draw(model, limit=3, prefixes=np.full([N // 40, 1], 4), top_k=1)
    assert (ids == [4, EOS, 0]).all()
    assert_close(scores, np.full_like(scores, math.log(0.2)), 3 * 5)


@pytest.mark.integration
def test_nothing_is_left_to_draw():
    """At step 1 only EOS would be possible, and it is forbidden."""
    table = np.zeros([2, 1, 2, 2])
    table[:, :, :, EOS] = 1.0
    both = [MinLength(2), NoRepeatedNgrams(1)]
    ids, scores = draw(ByHand(table), [0], constraints=both)
    assert (scores == DEAD).all()
    assert not ids.any()


def test_the_likeliest_are_counted_where_the_width_varies():
    """As that of a short list does; it may be below K."""
    spec = tf.TensorSpec([1, 1, None])
    weights = tf.function(Sampler(top_k=2).weights, input_signature=[spec], autograph=False)
    drawn = [tf.math.count_nonzero(weights(tf.math.log([[FIRST[:n]]]))) for n in (5, 1)]
    assert drawn == [2, 1]


def test_a_draw_of_zero_chooses_no_token_of_weight_zero():
    weights = tf.constant([[[0.0, 0.0, 0.5, 0.5, 0.0]] * 2])
    np.testing.assert_array_equal(_chosen(weights, tf.constant([[0.0, 0.5]])), [[2, 3]])
