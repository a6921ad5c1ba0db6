"""Which pairs of a teacher's output are dropped: loops, odd lengths, nothing at all."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.growth import assert_grows_gently
from t2t_lite.study.distillation.filters import LengthRatios, PairFilter, repeats_itself

ANY = (0.0, float("inf"))


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("so so so", "so"),
        ("Das ist, das ist - das ist gut", "This is good"),
        ("a b c d a b c d a b c d", "a b c d"),
        ("x nein nein nein nein", "x no no no"),  # oftener than in the source
        ("谢谢你谢谢你谢谢你", "thank you"),  # no spaces
        ("SO So so", "so"),
    ],
)
def test_a_loop_is_found(output, source):
    assert repeats_itself(output, source)


@pytest.mark.parametrize(
    ("output", "source"),
    [
        ("", ""),
        ("so so", "so"),  # twice is emphasis
        ("nein, nein, nein", "no, no, no"),
        ("well ... ... ...", "well"),  # punctuation is no word
        ("the cat and the dog and the bird", "x"),  # three times, but not in a row
        ("rot blau rot grün rot blau", "x"),
        ("1 000 000", "1000000"),  # 000 stands twice
    ],
)
def test_other_repetitions_are_none(output, source):
    assert not repeats_itself(output, source)


@given(st.lists(st.sampled_from("abc"), max_size=14))
def test_a_loop_is_what_a_regular_expression_finds(words):
    text = " ".join(words)
    expected = bool(re.search(r"(?<!\S)(\S+(?: \S+)*)(?: \1){2}(?!\S)", text))
    assert repeats_itself(text, "x") == expected


@pytest.mark.parametrize("make", [lambda n: "ha " * n, lambda n: "a b a c " * (n // 4)])
def test_long_loops_take_linear_time(make):
    assert_grows_gently(make, lambda output: repeats_itself(output, output[:-3]), 4000)


def test_the_range_of_lengths_holds_the_middle_99_percent():
    ratios = LengthRatios()
    for percent in range(1, 1001):  # 0.01 to 10.00
        ratios.add("s" * 100, "t" * percent)
    ratios.add("", "t")  # no ratio
    low, high = ratios.middle()
    outside = sum(not low <= n / 100 <= high for n in range(1, 1001))
    assert (low, high) == pytest.approx((0.05, 9.96))  # 0.5 % of 1,000 are 5 on each side
    assert 8 <= outside <= 10


def test_pairs_at_the_ends_of_the_range_are_kept():
    ratios = LengthRatios()
    for target in ("t", "tttt"):
        ratios.add("sss", target)
    pairs = PairFilter(ratios.middle())
    assert [pairs.keeps("sss", "t" * n) for n in range(1, 6)] == [True] * 4 + [False]
    assert pairs.keeps("s" * 6, "tt")
    assert (pairs.kept, pairs.dropped["length"]) == (5, 1)


def test_without_references_any_length_is_kept():
    assert PairFilter(LengthRatios().middle()).keeps("s", "t" * 1000)


def test_counts_and_their_line():
    pairs = PairFilter((0.5, 2))
    texts = [("one two", "eins zwei"), ("", "x"), ("x", ""), ("x", "so so so"), ("a", "abcdef")]
    assert [pairs.keeps(*pair) for pair in texts] == [True, False, False, False, False]
    assert dict(pairs.dropped) == {"empty": 2, "repeated": 1, "length": 1}
    assert str(pairs) == "kept 1 of 5 outputs (20.0%); dropped: empty 2, repeated 1, length 1"


def test_in_back_translation_the_source_is_the_output():
    loop = ("so so so", "also dann")
    assert not PairFilter(ANY, back=True).keeps(*loop)
    assert PairFilter(ANY).keeps(*loop)
