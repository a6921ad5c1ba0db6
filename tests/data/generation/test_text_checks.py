"""The checks of pairs of text at their borders; `test_findings` has what users see of them."""

import pytest

from t2t_lite.data.generation.text_checks import Directions, Pair, missing_cell


@pytest.mark.parametrize(
    ("text", "opposite", "is_missing"),
    [
        ("nan", "x", True),
        ("None", "x" * 20, True),
        ("None", "x" * 19, False),
        ("a\tnull", "x" * 20, True),
        ("Nan", "x" * 20, False),
    ],
)
def test_a_word_is_a_missing_cell_opposite_a_long_text(text, opposite, is_missing):
    assert missing_cell(text, opposite) == is_missing


def test_the_frequent_words_of_one_side_tell_the_direction():
    def sides(number: int) -> tuple[str, str]:
        words = f"das tier mit der nummer {number} kommt nicht mehr zu uns"
        return f"code{number} item{number} part{number}", words

    pairs = [Pair(number, *sides(number)) for number in range(60)]
    back = Pair(60, *reversed(sides(60)))
    assert Directions(pairs).exchanged([*pairs, back]) == [back]
