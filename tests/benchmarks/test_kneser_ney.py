"""The n-gram model that language models are compared with."""

import math
import pathlib
import random
import runpy
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.rounding import assert_close

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks" / "kneser_ney.py"
kneser_ney = types.SimpleNamespace(**runpy.run_path(str(SCRIPT)))

SIZE = 8
TOKENS = st.lists(st.integers(2, SIZE - 1), max_size=6)


@given(sentences=st.lists(TOKENS, min_size=1, max_size=30), context=TOKENS, order=st.integers(1, 5))
def test_probabilities_add_up_to_one(sentences, context, order):
    model = kneser_ney.KneserNey(sentences, order, SIZE)
    for beginning in (tuple(context), (kneser_ney.BOS, *context)):
        probs = [model.prob(token, beginning) for token in range(SIZE)]
        # Each is a mean over the orders, of counts added up.
        assert_close(sum(probs), 1.0, terms=SIZE + 5 * SIZE, dtype="float64")
        assert min(probs) > 0


def test_a_bigram_by_hand():
    # After 2: 3 twice, EOS once. Too little text to estimate discounts, which are 0.5.
    model = kneser_ney.KneserNey([[2, 3], [2, 3], [2]], 2, SIZE)
    # Different tokens before 2: BOS. Before 3: 2. Before EOS: 3, 2. In all 4, of 3 kinds.
    three = (1 - 0.5 + 3 * 0.5 / SIZE) / 4
    found = [model.prob(3, ()), model.prob(3, (2,))]
    wanted = [three, (2 - 0.5 + 2 * 0.5 * three) / 3]
    assert_close(found, wanted, terms=2 * SIZE, dtype="float64")
    assert model.prob(3, (7, 2)) == model.prob(3, (2,)), "the longer context does not count"
    assert model.prob(3, (5,)) == model.prob(3, ()), "5 was never seen"


def test_discounts_are_those_of_chen_and_goodman():
    frequencies = {1: 50, 2: 20, 3: 10, 4: 6}
    y = 50 / 90
    wanted = (1 - 2 * y * 20 / 50, 2 - 3 * y * 10 / 20, 3 - 4 * y * 6 / 10)
    assert kneser_ney._discounts(kneser_ney.collections.Counter(frequencies)) == wanted


def test_a_longer_context_predicts_better():
    draw = random.Random(3)
    sentences = [[2, draw.randint(3, 7)] for _ in range(400)]
    for sentence in sentences:
        sentence.append(sentence[1])  # says the last token again
    short, long = (kneser_ney.KneserNey(sentences, n, SIZE) for n in (1, 3))
    text = sentences[:50]
    unigram, trigram = (sum(map(model.log_prob, text)) for model in (short, long))
    assert trigram > unigram
    # Of four tokens, one is a guess among five; discounts leave the others a little uncertain.
    assert math.exp(-trigram / 200) == pytest.approx(5**0.25, rel=0.1)
