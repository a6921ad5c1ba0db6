"""The perplexity of a text: what is added up, and divided by what."""

import math

import pytest

from support.codecs import codec_of
from support.copying import BytesAlone
from support.rounding import assert_close
from t2t_lite.decoding.perplexity import Perplexity, perplexity
from t2t_lite.text.text_encoder import ByteTextEncoder

TEXT = codec_of(BytesAlone(), {"targets": ByteTextEncoder()})


def test_the_end_of_each_line_is_a_token_a_word_and_a_character():
    lines = ["two words", "", "  \u00fc\u2003b c\t", "one"]
    found = perplexity([-1.5, -0.25, -2.0, -3.25], lines, TEXT)
    assert found == Perplexity(
        -7.0, tokens=9 + 0 + 8 + 3 + 4, words=2 + 0 + 3 + 1 + 4, characters=21
    )
    assert_close(found.per_token, math.exp(7 / 24), terms=2, dtype="float64")
    assert_close(found.per_word, math.exp(7 / 10), terms=2, dtype="float64")
    bits = 7 / math.log(2) / 21
    assert_close(found.bits_per_character, bits, terms=3, dtype="float64")
    assert "per token (24 tokens)" in found.report
    assert "per word (10 words)" in found.report


@pytest.mark.parametrize(("scores", "per_word"), [([], 1.0), ([-1e6], math.inf)])
def test_no_text_and_an_impossible_one(scores, per_word):
    found = perplexity(scores, [""] * len(scores), TEXT)
    assert found.per_word == per_word
    assert_close(found.bits_per_character, -sum(scores) / math.log(2), terms=3, dtype="float64")
