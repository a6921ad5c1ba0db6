"""Sources with suggested terms, and what users see of their tokens and attention."""

import numpy as np
import pytest

from t2t_lite.decoding.suggestions import SuggestingText
from t2t_lite.terms.term_list import TermList
from t2t_lite.text import sentencepiece_training
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder, count_tokens
from t2t_lite.text.text_encoder import ByteTextEncoder

TERMS = TermList.of({"file": ["Datei", "Dateien"], "file menu": "Menü Datei", "tab": "Reiter"})
LINES = ["The file menu, a tab and files.", "File", "tab file tab", "no terms"]
READ = [
    "The file menu\x02 Menü Datei\x03, a tab\x02 Reiter\x03 and files.",
    "File\x02 Datei\x03",
    "tab\x02 Reiter\x03 file\x02 Datei\x03 tab\x02 Reiter\x03",
    "no terms",
]


def test_the_first_form_stands_behind_each_term():
    assert [SuggestingText(line, TERMS).text for line in LINES] == READ


@pytest.fixture(params=["bytes", "bpe", "subwords"])
def encoder(request, tmp_path):
    if request.param == "bytes":
        return ByteTextEncoder()
    if request.param == "subwords":
        return SubwordTextEncoder.build_from_token_counts(count_tokens(LINES), 1)
    sentencepiece_training.train("bpe", tmp_path / "model", LINES * 4, 300)
    return SentencePieceEncoder(tmp_path / "model")


@pytest.mark.parametrize("line", LINES)
def test_tokens_are_those_of_the_source_and_attention_is_kept(encoder, line):
    text = SuggestingText(line, TERMS)
    ids = encoder.encode(text.text)
    tokens = [*(encoder.decode([i]) for i in ids), "<EOS>"]
    attention = np.random.default_rng(1).dirichlet(np.ones(len(tokens)), 5)
    shown, summed = text.without(tokens, attention)
    visible = "".join("".join(shown[:-1]).split())
    assert (visible, shown[-1]) == ("".join(line.split()), "<EOS>")
    assert summed.shape == (5, len(shown))
    np.testing.assert_allclose(summed.sum(axis=1), 1.0)
    kept = [i for i, token in enumerate(tokens) if token == "<EOS>"]
    np.testing.assert_array_equal(summed[:, -1], attention[:, kept[0]])
    assert text.without(tokens, None) == (shown, None)


def test_the_attention_to_a_suggestion_is_that_to_its_term():
    tokens = ["a", " ta", "b", "\x02", " Reiter", "\x03", ".", "<EOS>"]
    attention = np.array([[1, 2, 4, 8, 16, 32, 64, 128.0]])
    shown, summed = SuggestingText("a tab.", TERMS).without(tokens, attention)
    assert shown == ["a", " ta", "b", ".", "<EOS>"]
    assert summed.tolist() == [[1, 2, 60, 64, 128]]
