"""Which search decode hparams ask for."""

import math

import numpy as np
import pytest

from support.rounding import assert_close
from support.small_models import ByHand
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.factory import make_search, make_term_search

EOS, A = 1, 2


@pytest.fixture
def model():
    """Ends at once with probability 0.6; else A comes, then the end."""
    table = np.zeros([2, 1, 3, 3])
    table[0, 0, 0] = [0.0, 0.6, 0.4]
    table[1, 0, :, EOS] = 1.0
    return ByHand(table)


@pytest.mark.integration
def test_all_outputs_that_are_written_are_searched_to_their_end(model):
    """The best one is final after the first step."""
    settings = DecodeHParams().override("beam_size=2,alpha=0,return_beams=true")
    ids, scores = make_search(model, {}, settings)(np.array([[1]]), [2])
    np.testing.assert_array_equal(ids, [[[EOS, 0], [A, EOS]]])
    assert_close(scores, np.log([[0.6, 0.4]]), 2 * 3)


@pytest.mark.integration
def test_a_search_for_the_best_stops_when_it_is_final(model):
    settings = DecodeHParams().override("beam_size=2,alpha=0")
    ids, scores = make_search(model, {}, settings)(np.array([[1]]), [2])
    np.testing.assert_array_equal(ids[0, 0, 0], EOS)
    assert_close(scores[0, 0], math.log(0.6), 3)
    assert not ids[0, 1].any()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("search", ["beam_size=4", "beam_size=1", "sampling_method=random"])
def test_xla_compiles_every_search_that_asks_for_it(model, search, compiled):
    settings = DecodeHParams().override(f"{search},xla_compile={str(compiled).lower()}")
    assert make_search(model, {}, settings)._xla_compile == compiled
    kinds = np.zeros(3, np.int32)
    assert make_term_search(model, {}, settings, (), kinds, 2)._xla_compile == compiled
