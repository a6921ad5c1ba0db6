"""Marks: which vocabularies spell them."""

import pytest

from t2t_lite.errors import UsageError
from t2t_lite.text import sentencepiece_training
from t2t_lite.text.marks import (
    PLACEHOLDERS,
    SUGGESTION,
    TERM_MARKS,
    require_spelled,
    suggestion,
)
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.subword_text_encoder import SubwordTextEncoder, count_tokens
from t2t_lite.text.text_encoder import (
    ByteTextEncoder,
    ClassLabelEncoder,
    TabEncoder,
    TokenTextEncoder,
)

LINES = ["a small boat lies in the harbour, and seven children sing."] * 3
MARKS = TERM_MARKS + PLACEHOLDERS


def require(encoder):
    require_spelled(MARKS, encoder, "term_augmentation=0.5", "inputs")


def test_marks_differ_and_are_neither_white_space_nor_letters():
    assert len({*MARKS}) == len(MARKS) == 10
    for mark in MARKS:
        assert mark.isascii()
        assert f"a{mark}b".split() == [f"a{mark}b"]
        assert not mark.isalnum()


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_sentencepiece_spells_each_with_one_id(tmp_path, kind):
    sentencepiece_training.train(kind, tmp_path / "model", LINES, 330)
    encoder = SentencePieceEncoder(tmp_path / "model")
    require(encoder)
    plain = encoder.encode("a boat.")
    for mark in MARKS:
        assert len(encoder.encode(f"a boat{mark}.")) <= len(plain) + 1


def test_subwords_and_bytes_spell_them():
    require(SubwordTextEncoder.build_from_token_counts(count_tokens(LINES), 1))
    require(ByteTextEncoder())


@pytest.mark.parametrize("oov_token", [None, "unk"])
def test_others_are_refused_with_a_remedy(tmp_path, oov_token):
    (tmp_path / "tokens").write_text("unk\na\nb\nc\n")
    others = (
        TokenTextEncoder(tmp_path / "tokens", oov_token),
        ClassLabelEncoder(["a", "b"]),
        TabEncoder(ByteTextEncoder(), "|"),
    )
    for encoder in others:
        with pytest.raises(UsageError, match=r"inputs cannot spell .*set term_augmentation=0"):
            require(encoder)


def test_a_suggestion_is_found_again():
    text = f"the file{suggestion('Datei')} menu{suggestion('das Menü')}."
    assert SUGGESTION.findall(text) == [suggestion("Datei"), suggestion("das Menü")]
    assert SUGGESTION.sub("", text) == "the file menu."
