"""Edit distance, word error rate and SARI: by hand, and against brute force."""

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.rounding import assert_close
from t2t_lite.data.problem import Output
from t2t_lite.errors import UsageError
from t2t_lite.metrics.by_name import score_outputs

_TEXTS = st.lists(st.sampled_from(["a", "b", "ab", "ä𝄞"]), max_size=5).map(" ".join)


def score(metric: str, pairs: list[tuple[str, str]]) -> float:
    outputs = [Output(output) for output, _ in pairs]
    return score_outputs(metric, outputs, [text for _, text in pairs]).values[metric]


@functools.cache
def distance(one, other) -> int:
    """Levenshtein's distance, by its definition."""
    if not one or not other:
        return len(one) + len(other)
    same = distance(one[1:], other[1:]) + (one[0] != other[0])
    return min(same, distance(one[1:], other) + 1, distance(one, other[1:]) + 1)


@given(st.lists(st.tuples(_TEXTS, _TEXTS), min_size=1, max_size=4))
def test_edits_are_those_of_the_definition(pairs):
    for metric, units in (("edit_distance", str), ("word_error_rate", lambda t: tuple(t.split()))):
        sides = [(units(output), units(text)) for output, text in pairs]
        length = sum(len(text) for _, text in sides)
        edits = sum(distance(*side) for side in sides)
        expected = 100 * edits / length if length else 100 * (edits > 0)
        assert_close(score(metric, pairs), expected, terms=2, dtype="float64")


def test_edits_by_hand():
    assert score("word_error_rate", [("a b", "a c d e"), ("", "x")]) == 100 * 4 / 5
    assert score("edit_distance", [("kitten", "sitting")]) == 100 * 3 / 7
    assert score("edit_distance", [("a  b", "a b")]) == 0, "white space is one space"
    assert score("word_error_rate", [("a a a", "")]) == 100, "nothing is to be said"
    assert score("word_error_rate", [("", "")]) == 0


def sari(source: str, output: str, reference: str) -> float:
    return score_outputs("sari", [Output(output)], [reference], [source]).values["sari"]


def test_sari_by_hand():
    # Of one word: c of c, d is added; a is kept of a and b; b is rightly deleted. The two lack b.
    add, keep, delete = 2 * 1 * 0.5 / 1.5, 1, 1
    # Of pairs, "a c" is added, of "a c" and "c d"; none can be kept; "a b" is rightly deleted.
    pairs = [2 * 1 * 0.5 / 1.5, 1, 1]
    # Of three words "a c d" should have been added, and nothing was; there are none of four.
    threes, fours = [0, 1, 1], [1, 1, 1]
    expected = 100 * sum([add, keep, delete, *pairs, *threes, *fours]) / 12
    assert_close(sari("a b", "a c", "a c d"), expected, terms=12, dtype="float64")


@given(_TEXTS, _TEXTS)
def test_sari_of_the_reference_itself_is_best(source, reference):
    assert_close(sari(source, reference, reference), 100.0, terms=12, dtype="float64")


@given(_TEXTS, _TEXTS, _TEXTS)
def test_sari_has_bounds(source, output, reference):
    assert 0 <= sari(source, output, reference) <= 100.0001


def test_sari_needs_sources():
    with pytest.raises(UsageError, match="'sari' needs the sources"):
        score("sari", [("a", "b")])
