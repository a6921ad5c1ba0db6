"""Links between words and tokens, by attention."""

import numpy as np

from t2t_lite.text.alignment.attention_links import token_links, word_links

SOURCE, TARGET = "the red cars", "rote Autos da"
SOURCE_TOKENS = ["the", "red", "car", "s", "<EOS>"]
TARGET_TOKENS = ["rot", "e", "Autos", "da", "<EOS>"]
ATTENTION = np.array(
    [
        [0.1, 0.6, 0.1, 0.1, 0.1],
        [0.4, 0.5, 0.0, 0.0, 0.1],
        [0.0, 0.4, 0.3, 0.3, 0.0],
        [0.1, 0.1, 0.1, 0.0, 0.7],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)


def test_words_have_the_attention_of_all_their_tokens():
    found = word_links(SOURCE, TARGET, SOURCE_TOKENS, TARGET_TOKENS, ATTENTION)
    assert found == [(1, 0), (2, 1), (0, 2)]


def test_a_word_that_attends_to_eos_may_lack_a_link():
    arguments = (SOURCE, TARGET, SOURCE_TOKENS, TARGET_TOKENS, ATTENTION)
    assert word_links(*arguments, may_lack=True) == [(1, 0), (2, 1)]
    assert token_links(*arguments[2:], may_lack=True) == [(1, 0), (1, 1), (1, 2)]


def test_tokens_but_eos_are_linked():
    assert token_links(SOURCE_TOKENS, TARGET_TOKENS, ATTENTION) == [(1, 0), (1, 1), (1, 2), (0, 3)]
    assert token_links(SOURCE_TOKENS[-1:], TARGET_TOKENS, ATTENTION[:, -1:]) == []


def test_empty_sides_have_no_links():
    assert word_links("", TARGET, ["<EOS>"], TARGET_TOKENS, ATTENTION[:, -1:]) == []
    assert word_links(SOURCE, "", SOURCE_TOKENS, ["<EOS>"], ATTENTION[-1:]) == []
