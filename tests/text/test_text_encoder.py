import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import text_encoder, vocabularies
from t2t_lite.text.text_encoder import VocabType

BUILT_TYPES = [VocabType.SUBWORD, VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM]
TEXT = ["Der Hund schläft.", "The dog sleeps.", "Der Hund bellt.", "The dog barks, loudly."] * 5


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

    @given(st.text())
    def test_every_text_comes_back(self, text):
        encoder = text_encoder.ByteTextEncoder()
        assert encoder.decode(encoder.encode(text)) == text

    def test_decode_accepts_whatever_a_model_emits(self):
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
    def test_packs_what_the_encoder_gives_whatever_its_size(self, lines, size):
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


class TestLoadAndBuild:
    @pytest.mark.parametrize("vocab_type", BUILT_TYPES)
    def test_built_vocabulary_loads(self, tmp_path, vocab_type):
        path = tmp_path / "made" / "vocab"
        vocabularies.build(vocab_type, path, iter(["", *TEXT]), 300)
        assert [file.name for file in path.parent.iterdir()] == ["vocab"]
        encoder = vocabularies.load(vocab_type, path)
        ids = encoder.encode_lines(TEXT)
        assert ids == [encoder.encode(line) for line in TEXT]
        assert [encoder.decode([*line, 1, 0]) for line in ids] == TEXT
        assert encoder.decode(np.array(ids[0])) == TEXT[0]
        assert min(map(min, ids)) > text_encoder.EOS_ID
        assert max(map(max, ids)) < encoder.vocab_size
        assert encoder.decode([encoder.vocab_size, -1]) == ""
        assert encoder.pack_lines(TEXT) == [pack(line) for line in ids]
        assert encoder.encode_lines([]) == encoder.pack_lines([]) == []

    @pytest.mark.parametrize("vocab_type", BUILT_TYPES)
    @pytest.mark.parametrize("lines", [[], ["", ""]])
    def test_empty_text(self, tmp_path, vocab_type, lines):
        with pytest.raises(DataError, match="vocab: the training text is empty"):
            vocabularies.build(vocab_type, tmp_path / "vocab", lines, 300)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("vocab_type", BUILT_TYPES)
    @pytest.mark.parametrize("line", [b"bytes", None, 0.5, ["a"]])
    def test_what_is_no_text_is_named(self, tmp_path, vocab_type, line):
        with pytest.raises(DataError, match="the training text: expected text, got "):
            vocabularies.build(vocab_type, tmp_path / "vocab", ["text", line], 300)

    @pytest.mark.parametrize("vocab_type", BUILT_TYPES)
    def test_failing_text_leaves_no_file_and_keeps_its_error(self, tmp_path, vocab_type):
        def lines():
            yield "one line"
            raise DataError("corpus, line 2: damaged")

        with pytest.raises(DataError, match="corpus, line 2: damaged"):
            vocabularies.build(vocab_type, tmp_path / "vocab", lines(), 300)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("vocab_type", [*BUILT_TYPES, VocabType.TOKEN])
    def test_missing_file(self, tmp_path, vocab_type):
        with pytest.raises(UserError, match="vocab: no such file"):
            vocabularies.load(vocab_type, tmp_path / "vocab")

    def test_characters_need_no_file(self, tmp_path):
        encoder = vocabularies.load(VocabType.CHARACTER, tmp_path / "none")
        assert encoder.encode("A") == [67]

    @pytest.mark.parametrize("vocab_type", [VocabType.CHARACTER, VocabType.TOKEN])
    def test_types_not_built_from_text(self, tmp_path, vocab_type):
        with pytest.raises(UserError, match="not built from text"):
            vocabularies.build(vocab_type, tmp_path / "vocab", ["a"], 300)

    def test_unknown_type_names_the_nearest(self, tmp_path):
        with pytest.raises(UserError, match="'subword'; did you mean 'subwords'"):
            vocabularies.load("subword", tmp_path / "vocab")
        with pytest.raises(UserError, match="'bpes'; did you mean 'bpe'"):
            vocabularies.build("bpes", tmp_path / "vocab", ["a"], 300)


def test_unknown_tokens_are_those_that_are_not_listed(tmp_path):
    path = tmp_path / "vocab"
    path.write_text("a\nb\n")
    assert text_encoder.TokenTextEncoder(path).unknown("b c  a d c") == ["c", "d", "c"]


def test_bytes_know_every_character():
    assert text_encoder.ByteTextEncoder().unknown("a ☃\n") == []


@pytest.mark.integration
def test_encoding_needs_no_tensorflow(tmp_path):
    program = (
        "import pathlib, sys\n"
        "from t2t_lite.text import vocabularies\n"
        f"path = pathlib.Path({str(tmp_path / 'vocab')!r})\n"
        "vocabularies.build('bpe', path, ['some text'], 270)\n"
        "assert vocabularies.load('bpe', path).encode('text')\n"
        "assert not {'tensorflow', 'keras'} & sys.modules.keys()\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


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


class TestTabs:
    encoder = text_encoder.TabEncoder(text_encoder.ByteTextEncoder(), "$$")

    @pytest.mark.parametrize(
        ("text", "ids"),
        [("a", [99]), ("a\tb", [99, 38, 100]), ("\tb", [38, 100]), ("a\t\tb", [99, 38, 38, 100])],
    )
    def test_a_tab_has_the_first_id_of_the_separator(self, text, ids):
        assert self.encoder.encode(text) == ids
        assert self.encoder.decode(ids) == text.replace("\t", "$")

    def test_no_text_has_no_ids(self):
        assert self.encoder.encode(" \t ") == []
        assert self.encoder.vocab_size == 258

    def test_unknown_parts_are_those_of_the_texts(self, write_tokens):
        words = text_encoder.TokenTextEncoder(write_tokens("<UNK>\na\n$\n"), oov_token="<UNK>")
        encoder = text_encoder.TabEncoder(words, "$")
        assert encoder.encode("a b\ta") == [3, 2, 4, 3]
        assert encoder.unknown("a b\tc") == ["b", "c"]
