import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import DataError, UsageError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import text_encoder, vocabularies
from t2t_lite.text.text_encoder import VocabType


@pytest.fixture
def write_tokens(tmp_path):
    def write(text):
        path = tmp_path / "vocab.tokens"
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return write


class TestBytes:
    def test_golden(self, golden):
        encoder = text_encoder.ByteTextEncoder()
        for case in json.loads((golden / "byte_encode.json").read_text()):
            assert encoder.encode(case["text"]) == case["ids"]
            assert encoder.decode(case["ids"]) == case["text"]

    def test_ids_are_bytes_plus_two(self):
        encoder = text_encoder.ByteTextEncoder()
        assert encoder.encode("aé") == [99, 197, 171]
        assert encoder.vocab_size == 258

    @pytest.mark.integration
    @given(st.text())
    def test_every_text_survives_a_round_trip(self, text):
        encoder = text_encoder.ByteTextEncoder()
        assert encoder.decode(encoder.encode(text)) == text

    def test_decode_accepts_any_output_of_a_model(self):
        encoder = text_encoder.ByteTextEncoder()
        assert encoder.decode([99, 0, 197, 100, 1, 0, 0, 300, -1]) == "a\ufffdb"
        assert encoder.decode(np.array([99, 1], np.int32)) == "a"


class TestTokens:
    def test_pad_and_eos_come_first(self, write_tokens):
        encoder = text_encoder.TokenTextEncoder(write_tokens("ja\nnein\n"))
        assert encoder.encode(" nein\tja nein ") == [3, 2, 3]
        assert encoder.decode([3, 2, 1, 0]) == "nein ja"
        assert encoder.vocab_size == 4

    @pytest.mark.parametrize("text", ["<pad>\n<EOS>\nja\nnein\n", "ja\n<EOS>\nnein\n<pad>\n"])
    def test_pad_and_eos_may_stand_in_the_file(self, write_tokens, text):
        encoder = text_encoder.TokenTextEncoder(write_tokens(text))
        assert encoder.encode("ja nein") == [2, 3]
        assert encoder.vocab_size == 4

    def test_unknown_token_is_named(self, write_tokens):
        path = write_tokens("haus\nbaum\n")
        with pytest.raises(DataError, match=r"'hauz'.*vocab\.tokens; did you mean 'haus'"):
            text_encoder.TokenTextEncoder(path).encode("baum hauz")

    def test_oov_token_stands_for_unknown_ones(self, write_tokens):
        encoder = text_encoder.TokenTextEncoder(write_tokens("haus\nUNK\n"), oov_token="UNK")
        assert encoder.encode("haus maus") == [2, 3]

    def test_pad_and_eos_in_a_text_are_unknown_words(self, write_tokens):
        path = write_tokens("<EOS>\nhaus\nUNK\n")
        encoder = text_encoder.TokenTextEncoder(path, oov_token="UNK")
        assert encoder.encode("haus <pad> <EOS> haus") == [2, 3, 3, 2]
        assert encoder.unknown("haus <pad> <EOS> haus") == ["<pad>", "<EOS>"]
        with pytest.raises(DataError, match=r"token '<pad>' has no id .*vocab\.tokens reserves it"):
            text_encoder.TokenTextEncoder(path).encode("haus <pad>")

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "vocab.tokens is empty"),
            ("a\n\nb\n", "line 2: expected one token, got ''"),
            ("a\nb c\n", "line 2: expected one token, got 'b c'"),
            ("a\nb\na\n", "line 3: token 'a' occurs twice"),
        ],
    )
    def test_damaged_file(self, write_tokens, text, message):
        with pytest.raises(DataError, match=message):
            text_encoder.TokenTextEncoder(write_tokens(text))

    @pytest.mark.parametrize("name", ["<pad>", "<EOS>"])
    def test_a_reserved_token_replaces_no_unknown_ones(self, write_tokens, name):
        with pytest.raises(DataError, match=f"oov_token '{name}' is reserved; choose a token of"):
            text_encoder.TokenTextEncoder(write_tokens(f"{name}\nhaus\n"), oov_token=name)

    def test_missing_oov_token(self, write_tokens):
        with pytest.raises(DataError, match="oov_token 'UNK'"):
            vocabularies.load(VocabType.TOKEN, write_tokens("a\n"), oov_token="UNK")


class TestWordCache:
    @given(st.lists(st.lists(st.text(max_size=2), max_size=9), max_size=9), st.integers(1, 5))
    def test_packs_the_encoders_output_at_any_cache_size(self, lines, size):
        def encode(word):
            return [ord(character) for character in word]

        cache = text_encoder.WordCache(encode, size)
        for words in lines * 2:
            assert cache.pack(words) == pack(encode("".join(words)))
            assert len(cache._packed) <= size

    def test_asks_for_each_word_once(self):
        asked = []
        cache = text_encoder.WordCache(lambda word: asked.append(word) or [len(asked)], 10)
        assert [cache.pack(["a", "b"]), cache.pack(["b", "a"])] == [b"\x01\x02", b"\x02\x01"]
        assert asked == ["a", "b"]


def test_unknown_tokens_are_those_that_are_not_listed(tmp_path):
    path = tmp_path / "vocab"
    path.write_text("a\nb\n")
    assert text_encoder.TokenTextEncoder(path).unknown("b c  a d c") == ["c", "d", "c"]


def test_bytes_know_every_character():
    assert text_encoder.ByteTextEncoder().unknown("a ☃\n") == []


class TestLabels:
    def test_a_line_is_a_label(self):
        encoder = text_encoder.ClassLabelEncoder(["not entailed", "entailed", "a\tb "])
        assert [encoder.encode(label) for label in encoder.labels] == [[2], [3], [4]]
        assert encoder.encode(" entailed\n") == [3]
        assert encoder.encode(" ") == []
        assert encoder.decode([2, 1, 0, 9]) == "not entailed"
        assert encoder.vocab_size == 5
        assert encoder.pack_lines(["entailed"]) == [pack([3])]

    def test_an_unknown_label_names_the_nearest(self):
        with pytest.raises(DataError, match=r"label 'postive' is not .*did you mean 'positive'"):
            text_encoder.ClassLabelEncoder(["negative", "positive"]).encode("postive")

    @pytest.mark.parametrize("labels", [[], ["a", "a "], ["a", ""]])
    def test_labels_differ(self, labels):
        with pytest.raises(UsageError, match="expected different texts"):
            text_encoder.ClassLabelEncoder(labels)

    def test_a_label_is_one_line_of_outputs(self):
        with pytest.raises(UsageError, match=r"expected texts of one line, got 'a\\nb'"):
            text_encoder.ClassLabelEncoder(["a", "a\nb"])


class TestTabs:
    encoder = text_encoder.TabEncoder(text_encoder.ByteTextEncoder(), "$$")

    @pytest.mark.parametrize(
        ("text", "ids"),
        [("a", [99]), ("a\tb", [99, 38, 100]), ("\tb", [38, 100]), ("a\t\tb", [99, 38, 38, 100])],
    )
    def test_a_tab_has_the_first_id_of_the_separator(self, text, ids):
        assert self.encoder.encode(text) == ids
        assert self.encoder.decode(ids) == text.replace("\t", "$")

    def test_eos_may_be_the_separator(self):
        encoder = text_encoder.TabEncoder(text_encoder.ByteTextEncoder(), None)
        assert encoder.encode("a\tb") == [99, 1, 100]
        assert encoder.encode("\tb") == [1, 100]

    def test_no_text_has_no_ids(self):
        assert self.encoder.encode(" \t ") == []
        assert self.encoder.vocab_size == 258

    def test_unknown_parts_are_those_of_the_texts(self, write_tokens):
        words = text_encoder.TokenTextEncoder(write_tokens("<UNK>\na\n$\n"), oov_token="<UNK>")
        encoder = text_encoder.TabEncoder(words, "$")
        assert encoder.encode("a b\ta") == [3, 2, 4, 3]
        assert encoder.unknown("a b\tc") == ["b", "c"]


@pytest.mark.parametrize("line", ["a\tb", "a\t\tb", "\tb", "a\t", "a"])
def test_texts_that_eos_separates_come_back(line):
    encoder = text_encoder.TabEncoder(text_encoder.ByteTextEncoder(), None)
    assert encoder.decode(encoder.encode(line)) == line
