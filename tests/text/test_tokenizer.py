import itertools
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.text import tokenizer


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        (" ", [" "]),
        ("Dude - that's so cool.", ["Dude", " - ", "that", "'", "s", "so", "cool", "."]),
        ("Ångström, 25 µm!", ["Ångström", ", ", "25", "µm", "!"]),
        (" both ends ", [" ", "both", "ends", " "]),
        ("two  spaces", ["two", "  ", "spaces"]),
        ("snake_case", ["snake", "_", "case"]),
        ("x² ½ 你好", ["x²", "½", "你好"]),
        ("a\u2028b\u0085c", ["a", "\u2028", "b", "\u0085", "c"]),
    ],
)
def test_encode(text, tokens):
    assert tokenizer.encode(text) == tokens
    assert tokenizer.decode(tokens) == text


@given(st.text())
def test_every_text_survives_a_round_trip(text):
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(st.text(alphabet="aé7 _-\n\u3000"))
def test_only_single_spaces_between_words_are_dropped(text):
    runs = ["".join(run) for _, run in itertools.groupby(text, str.isalnum)]
    last = len(runs) - 1
    expected = [run for i, run in enumerate(runs) if run != " " or i in (0, last)]
    assert tokenizer.encode(text) == expected


@pytest.mark.integration
def test_words_are_unicode_letters_and_numbers():
    for code in range(0x110000):
        character = chr(code)
        is_word = unicodedata.category(character)[0] in "LN"
        tokens = tokenizer.encode(character + ".")
        assert len(tokens) == (2 if is_word else 1), hex(code)


def test_decode_accepts_any_tokens():
    assert tokenizer.decode(["a", "b", "-", "-", "c", "d"]) == "a b--c d"
