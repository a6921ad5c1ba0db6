"""Vocabularies are built, written and loaded; what is none is named."""

import functools
import subprocess
import sys

import numpy as np
import pytest

from t2t_lite.errors import DataError, UserError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import lexicon, text_encoder, text_files, vocabularies
from t2t_lite.text.text_encoder import VocabType


def test_lone_surrogates_are_no_text(tmp_path):
    with pytest.raises(
        DataError, match=r"training text contains the lone surrogate U\+D800, which"
    ):
        vocabularies.build("bpe", tmp_path / "v", ["a", "b\ud800"], 300)
    (tmp_path / "a").write_bytes("x\n\ud800\n".encode("utf-8", "surrogatepass"))
    with pytest.raises(DataError, match="a, line 2: byte 0xed at column 1 is not UTF-8"):
        text_files.read_lines(tmp_path / "a")


@pytest.mark.parametrize("name", ["a.subwords", "a.tokens", "a.bpe.model", "a.lexicon"])
def test_long_nonsense_as_a_vocabulary_is_a_short_message(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"(x " * 10**6)
    read = (
        lexicon._read
        if name == "a.lexicon"
        else functools.partial(vocabularies.load, name.split(".")[1])
    )
    with pytest.raises(DataError, match=name) as caught:
        read(path)
    assert len(str(caught.value)) < 1000


BUILT_TYPES = [VocabType.SUBWORD, VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM]


TEXT = ["Der Hund schläft.", "The dog sleeps.", "Der Hund bellt.", "The dog barks, loudly."] * 5


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
    def test_values_other_than_text_are_named(self, tmp_path, vocab_type, line):
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
