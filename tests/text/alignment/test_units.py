"""Which token each character of a text comes from."""

import random
import unicodedata

import numpy as np
import pytest

from support.growth import assert_grows_gently
from t2t_lite.text.alignment.units import align_units, token_of_characters, units_of, word_attention

EOS = "<EOS>"


def bytes_of(text):
    return [*(bytes([byte]).decode("utf-8", "replace") for byte in text.encode()), EOS]


@pytest.mark.parametrize(
    ("text", "tokens", "owners"),
    [
        ("ab c", ["a", "b", " c", EOS], [0, 1, -1, 2]),
        ("the ﬁle", ["the", "file", EOS], [0, 0, 0, -1, 0, 1, 1]),
        ("a xyz bcd e", ["a", "<UNK>", "bcd", "e", EOS], [0, -1, 0, 0, 0, -1, 2, 2, 2, -1, 3]),
        ("", [EOS], []),
        ("é", [EOS], [-1]),
        ("日a", bytes_of("日a"), [0, 3]),
    ],
)
def test_tokens_that_differ_from_the_text(text, tokens, owners):
    assert token_of_characters(text, tokens) == owners


def test_a_long_unknown_word_does_not_hide_what_follows():
    text = f"one {'x' * 500} two three"
    owners = token_of_characters(text, ["one", "<UNK>", "two", "three", EOS])
    assert owners[-9:] == [2, 2, 2, -1, 3, 3, 3, 3, 3]


def test_a_long_text_of_bytes_is_spread_by_position():
    text = "жизнь" * 100
    owners = np.array(token_of_characters(text, bytes_of(text)))
    assert np.abs(owners - 2 * np.arange(500)).max() <= 2


def letters(n):
    return "".join(random.Random(n).choices("abcdefgh", k=n))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        (letters, lambda text: [*text.upper()]),
        (letters, lambda text: [*letters(len(text) + 1)]),
        (lambda n: "a" * n, lambda text: [*"ab" * (len(text) // 2)]),
        (lambda n: "ab" * (n // 2), lambda text: [*"ba" * (len(text) // 2), "ba"]),
        (lambda n: "abc" * (n // 3), lambda text: [*"abd" * (len(text) // 3)]),
        (lambda n: "aﬁ" * (n // 2), lambda text: [*unicodedata.normalize("NFKC", text)]),
        (lambda n: "жa" * (n // 2), bytes_of),
        (letters, lambda text: ["<UNK>"]),
    ],
)
def test_time_grows_with_the_text(text, tokens):
    assert_grows_gently(
        lambda n: (made := text(n), tokens(made)),
        lambda pair: token_of_characters(*pair),
        1000,
    )


def test_attention_of_words_is_that_of_their_tokens():
    attention = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    units = units_of("abc d")
    found = word_attention("abc d", units, ["ab", "c d", EOS], attention)
    assert found.tolist() == [[1.25, 0.25], [0.25, 0.25]]


@pytest.mark.integration
def test_a_long_word_beside_many_takes_no_table_of_its_length():
    """An array of texts would have the longest one's size for each."""
    text = "x " * 500 + "y" * 20_000
    units, tokens = units_of(text), ["x"] * 500 + [EOS]
    assert_grows_gently(
        lambda n: "x " * n + "y" * (10 * n),
        lambda target: align_units(
            text, units, target, units_of(target), tokens, ["x"], np.ones([1, 501])
        ),
        100,
    )
