"""Metrics of numbers, against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.data.problem import Output
from t2t_lite.errors import DataError
from t2t_lite.metrics.by_name import score_outputs, segment_scores
from t2t_lite.metrics.correlation import ranks

NUMBERS = st.floats(-1e3, 1e3, width=32)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=3, max_size=20)


def scored(metric, outputs, references):
    lines = [
        [" ".join(map(repr, row)) for row in np.atleast_2d(s).tolist()]
        for s in (outputs, references)
    ]
    return score_outputs(metric, [Output(line) for line in lines[0]], lines[1]).values[metric]


def correlation(x, y):
    """The definition; 0 where there is no spread."""
    x, y = np.float64(x) - np.mean(x), np.float64(y) - np.mean(y)
    spread = math.sqrt((x * x).sum() * (y * y).sum())
    return (x * y).sum() / spread if spread > 1e-6 else None


def slow_ranks(numbers):
    return [
        sum(other < one for other in numbers) + (1 + sum(other == one for other in numbers)) / 2
        for one in numbers
    ]


@given(PAIRS)
def test_each_is_its_definition(pairs):
    x, y = np.array(pairs, np.float64).T
    errors = np.square(x - y)
    assert scored("mse", x[:, None], y[:, None]) == pytest.approx(errors.mean())
    assert scored("rmse", x[:, None], y[:, None]) == pytest.approx(math.sqrt(errors.mean()))
    wanted = correlation(x, y)
    if wanted is not None:
        assert scored("pearson", x[:, None], y[:, None]) == pytest.approx(wanted, abs=1e-6)
    wanted = correlation(slow_ranks(x), slow_ranks(y))
    if wanted is not None:
        assert scored("spearman", x[:, None], y[:, None]) == pytest.approx(wanted, abs=1e-9)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9))
def test_ranks_of_equal_numbers_are_their_mean(numbers):
    assert ranks(np.array(numbers)).tolist() == slow_ranks(numbers)


def test_correlations_ignore_scale_and_offset_and_are_zero_without_spread():
    x = np.array([[1.0], [2.0], [4.0], [8.0]])
    assert scored("pearson", 1e6 + 1e-2 * x, x) == pytest.approx(1)
    assert scored("pearson", -3 * x, x) == pytest.approx(-1)
    assert scored("spearman", np.exp(x), x) == 1
    assert scored("pearson", 0 * x + 0.1, x) == scored("spearman", x, 0 * x + 0.1) == 0


def test_of_several_numbers_correlations_are_means():
    x = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    y = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]])
    assert scored("pearson", x, y) == scored("spearman", x, y) == pytest.approx(0)
    assert scored("rmse", x, y) == pytest.approx(math.sqrt(8 / 6))


def test_a_line_alone_has_an_error():
    found = segment_scores(["mse"], [Output("1"), Output("5")], ["2", "5"], ["", ""])
    assert found == [{"mse": 1.0}, {"mse": 0.0}]


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (["1", "red"], "output 2: expected numbers, got 'red'"),
        (["1", ""], "output 2: expected as many numbers as output 1 has, 1, got ''"),
        (["1", "1 2"], "output 2: expected as many numbers as output 1 has, 1, got '1 2'"),
    ],
)
def test_what_is_no_number_is_named(outputs, message):
    with pytest.raises(DataError, match=message):
        score_outputs("pearson", [*map(Output, outputs)], ["1", "2"])
