import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.decoding.long_lines import join, split


def words(limit):
    return lambda text: len(text.split()) <= limit


def characters(limit):
    return lambda text: len(text) <= limit


@pytest.mark.parametrize(
    ("text", "fits", "pieces"),
    [
        ("One two. Three four.", words(4), ["One two. Three four."]),
        ("One two. Three, four.", words(3), ["One two.", "Three, four."]),
        ('He said "no." Then he left.', words(4), ['He said "no."', "Then he left."]),
        ("A b? C d! E f; G h.", words(2), ["A b?", "C d!", "E f;", "G h."]),
        ("Only 3.5 of them, all in all, came", words(4), ["Only 3.5 of them,", "all in all, came"]),
        ("今日は。明日は？昨日は！", characters(4), ["今日は。", "明日は？", "昨日は！"]),
        ("一、二、三", characters(2), ["一、", "二、", "三"]),
        ("一二三四五六。", characters(4), ["一二三", "四五六。"]),
        ("one two three four", words(2), ["one two", "three four"]),
        ("abcdefgh", characters(3), ["ab", "cd", "ef", "gh"]),
        ("x", lambda text: False, ["x"]),
    ],
)
def test_breaks_where_it_hurts_least(text, fits, pieces):
    assert split(text, fits) == pieces


@given(st.text().map(str.strip), st.integers(1, 9))
def test_every_piece_fits_and_nothing_is_lost(text, limit):
    pieces = split(text, characters(limit))
    assert all(len(piece) <= limit for piece in pieces)
    assert "".join("".join(piece.split()) for piece in pieces) == "".join(text.split())


def test_a_very_long_line_without_a_break():
    assert "".join(split("x" * 50_000, characters(40))) == "x" * 50_000


def test_the_only_sentence_end_far_from_the_middle():
    text = "Hm. " + "a b, " * 2000
    assert all(map(words(50), split(text.strip(), words(50))))


@pytest.mark.parametrize(
    ("outputs", "joined"),
    [
        ([], ""),
        (["", ""], ""),
        (["", "One.", "", "Two,", "three", ""], "One. Two, three"),
        (["今日は。", "明日は？", "昨日は"], "今日は。明日は？昨日は"),
        (["一", "二，", "(三)", "four"], "一二，(三) four"),
        (["アｱ", "々", "ー", "𠮷", "「あ」"], "アｱ々ー𠮷「あ」"),
        (["안녕.", "나는", "간다"], "안녕. 나는 간다"),
        (["ภาษา", "😀", "x"], "ภาษา 😀 x"),
    ],
)
def test_outputs_are_joined_as_their_language_writes(outputs, joined):
    assert join(outputs) == joined
