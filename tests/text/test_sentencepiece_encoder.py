import itertools
import logging
import math
import os
import subprocess
import sys

import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.lines import LINES, ODD_LINES, TEXT
from support.tensorflow_text import IS_INSTALLED, needs_tensorflow_text
from t2t_lite.errors import DataError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import sentencepiece_encoder, sentencepiece_training, text_files
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder

TYPES = ["bpe", "unigram"]


@pytest.fixture(scope="module", params=TYPES)
def encoder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "vocab.model"
    sentencepiece_training.train(request.param, path, TEXT, 330)
    return SentencePieceEncoder(path)


@pytest.fixture(scope="module")
def multi30k(shared_data):
    files = [shared_data / "multi30k" / f"train.{language}.gz" for language in ("en", "de")]
    return [
        line for file in files for line in itertools.islice(text_files.iterate_lines(file), 2000)
    ]


class TestUnknown:
    def test_names_characters_in_their_order(self, encoder):
        assert encoder.unknown("A small ☃ in the 你 ☃ boat") == ["☃", "你", "☃"]
        assert encoder.unknown("A small boat, 100 % klein!") == []

    @given(LINES)
    def test_is_what_bytes_stand_for(self, encoder, line):
        line = line.translate({0x2581: None, 0x2582: None})  # are written as two characters each
        spelled = sum(len(character.encode()) for character in encoder.unknown(line))
        assert spelled == sum(3 <= i < 3 + 256 for i in encoder.encode(line))


class TestRoundTrip:
    @given(LINES)
    def test_every_line_survives_a_round_trip(self, encoder, line):
        assert encoder.decode(encoder.encode(line)) == line

    @pytest.mark.parametrize("line", ODD_LINES)
    def test_odd_lines_survive_a_round_trip(self, encoder, line):
        ids = encoder.encode(line)
        assert encoder.decode(ids) == line
        assert not {0, 1, 2}.intersection(ids)

    def test_the_model_file_alone_suffices(self, tmp_path):
        sentencepiece_training.train("unigram", tmp_path / "model", TEXT, 300)
        bare = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "model"))
        assert [bare.decode(bare.encode(line)) for line in ODD_LINES] == ODD_LINES

    @given(st.lists(st.integers(-3, 340)))
    def test_decode_accepts_any_ids(self, encoder, ids):
        text = encoder.decode(ids)
        assert text.encode("utf-8").decode("utf-8") == text

    def test_recorded_pieces(self, encoder):
        pieces = [encoder._processor.id_to_piece(i) for i in encoder.encode(" small ▁")]
        assert pieces == ["▁small", "▁", "<0xE2>", "<0x96>", "<0x82>", "b"]


class TestGraph:
    @needs_tensorflow_text
    @pytest.mark.integration
    def test_equal_on_real_text(self, multi30k, tmp_path):
        for model_type in TYPES:
            path = tmp_path / model_type
            sentencepiece_training.train(model_type, path, multi30k, 2000)
            encoder = SentencePieceEncoder(path)
            assert encoder.vocab_size == 2000
            ids = encoder.encode_lines(multi30k)
            tokenizer = encoder.graph_tokenizer()
            in_graph = tokenizer.tokenize([line.encode() for line in multi30k])
            assert in_graph.to_list() == ids
            assert [line.decode() for line in tokenizer.detokenize(in_graph).numpy()] == multi30k
            assert [encoder.decode(line) for line in ids] == multi30k

    @needs_tensorflow_text
    @pytest.mark.integration
    @settings(deadline=None)
    @given(st.lists(LINES, min_size=1, max_size=20))
    @example(ODD_LINES)
    def test_equal_on_any_text(self, encoder, lines):
        tokenizer = encoder.graph_tokenizer()
        ids = tokenizer.tokenize([line.encode() for line in lines])
        assert ids.to_list() == encoder.encode_lines(lines)
        assert [line.decode() for line in tokenizer.detokenize(ids).numpy()] == lines


@pytest.fixture(
    scope="module",
    params=["กขคงจฉชซญฐณดตถทนบปผ", "あいうえおかがきぎくぐけ", "カタ\u3000。", "ACGT", "▂▁"],
    ids=["Thai", "hiragana", "katakana", "genes", "escapes"],
)
def encoders_of_few_spaces(request, tmp_path_factory):
    letters = request.param
    text = [(letters * 40)[k : k + 30 + k % 7] for k in range(120)]
    paths = [tmp_path_factory.mktemp(f"model_{name}") / name for name in TYPES]
    for path in paths:
        sentencepiece_training.train(path.name, path, [*text, f"{letters} {letters}"], 300)
    return [SentencePieceEncoder(path) for path in paths]


class TestTextWithFewSpaces:
    """With fewer than one space in 2,000 characters, the others alone are enough coverage."""

    def test_a_space_is_a_piece(self, encoders_of_few_spaces):
        for encoder in encoders_of_few_spaces:
            [piece] = [piece for piece in encoder.pieces() if piece.text == "▁"]
            assert math.isfinite(piece.score)
            assert encoder.unknown(" ") == []

    @settings(deadline=None, max_examples=20)
    @given(st.lists(st.text("กขあいカ。ACGTក្▁▂b \u3000"), min_size=1, max_size=20))
    @example(["กข ฉช", " A C ", "カタ。 カ", "▁ ▂"])
    def test_every_line_survives_a_round_trip(self, encoders_of_few_spaces, lines):
        for encoder in encoders_of_few_spaces:
            ids = encoder.encode_lines(lines)
            assert [encoder.decode(line) for line in ids] == lines
            assert encoder.pack_lines(lines) == [pack(line) for line in ids]
            if not IS_INSTALLED:
                continue
            tokenizer = encoder.graph_tokenizer()
            in_graph = tokenizer.tokenize([line.encode() for line in lines])
            assert in_graph.to_list() == ids
            assert [line.decode() for line in tokenizer.detokenize(in_graph).numpy()] == lines


class TestWordByWord:
    @given(st.lists(st.text("ab▁▂ é\u0301klein"), max_size=20))
    def test_lines_are_encoded_as_one_by_one(self, encoder, lines):
        for _ in range(2):  # the second time from the cache
            assert encoder.pack_lines(lines) == [pack(encoder.encode(line)) for line in lines]

    def test_a_full_cache_changes_nothing(self, tmp_path, monkeypatch):
        monkeypatch.setattr(sentencepiece_encoder, "_CACHED_WORDS", 2)
        sentencepiece_training.train("bpe", tmp_path / "model", TEXT, 330)
        encoder = SentencePieceEncoder(tmp_path / "model")
        assert encoder.pack_lines(TEXT * 2) == [pack(encoder.encode(line)) for line in TEXT * 2]

    def test_only_models_of_ours_that_merge_words_one_by_one(self, tmp_path):
        sentencepiece_training.train("bpe", tmp_path / "ours", TEXT, 330)
        sentencepiece_training.train("unigram", tmp_path / "unigram", TEXT, 330)
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT * 9),
            model_prefix=str(tmp_path / "theirs"),
            model_type="bpe",
            vocab_size=60,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            minloglevel=3,
        )
        by_words = [
            SentencePieceEncoder(tmp_path / name)._splits_at_spaces
            for name in ("ours", "unigram", "theirs.model")
        ]
        assert by_words == [True, False, False]


class TestTraining:
    @pytest.mark.parametrize("model_type", TYPES)
    def test_same_text_same_bytes(self, tmp_path, model_type):
        for name in "ab":
            sentencepiece_training.train(model_type, tmp_path / name, TEXT, 310)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()

    @pytest.mark.parametrize("model_type", TYPES)
    def test_requiring_the_space_changes_no_byte(self, tmp_path, monkeypatch, model_type):
        sentencepiece_training.train(model_type, tmp_path / "with", TEXT, 310)
        monkeypatch.setattr(sentencepiece_encoder, "SPACE", "")
        sentencepiece_training.train(model_type, tmp_path / "without", TEXT, 310)
        assert (tmp_path / "with").read_bytes() == (tmp_path / "without").read_bytes()

    @pytest.mark.parametrize("model_type", TYPES)
    def test_small_text_gives_a_smaller_vocabulary(self, tmp_path, caplog, model_type):
        sentencepiece_training.train(model_type, tmp_path / "model", ["tiny"], 5000)
        encoder = SentencePieceEncoder(tmp_path / "model")
        assert 256 < encoder.vocab_size < 300
        assert encoder.decode(encoder.encode("tiny")) == "tiny"
        [record] = caplog.records
        assert record.levelno == logging.WARNING
        assert f"yields {encoder.vocab_size} ids, not 5000" in record.getMessage()

    @pytest.mark.parametrize("model_type", TYPES)
    def test_a_size_that_is_too_small_names_the_smallest(self, tmp_path, model_type):
        with pytest.raises(DataError, match=r"take (\d+) ids, but approx_vocab_size is 100") as got:
            sentencepiece_training.train(model_type, tmp_path / "model", TEXT, 100)
        assert not list(tmp_path.iterdir())
        smallest = int(str(got.value).split("alone take ")[1].split()[0])
        sentencepiece_training.train(model_type, tmp_path / "model", TEXT, smallest)
        assert SentencePieceEncoder(tmp_path / "model").vocab_size == smallest

    @pytest.mark.parametrize("model_type", TYPES)
    @pytest.mark.parametrize("before", ["\0", "▅", "x" * 5000, "x " * 50_000, "ö " * 5000])
    def test_no_line_is_passed_over(self, tmp_path, model_type, before):
        sentencepiece_training.train(model_type, tmp_path / "model", [before + " qwz" * 2000], 300)
        encoder = SentencePieceEncoder(tmp_path / "model")
        pieces = map(encoder._processor.id_to_piece, encoder.encode("qwz"))
        assert not any(piece.startswith("<0x") for piece in pieces)

    @pytest.mark.integration
    def test_training_writes_nothing_to_the_terminal(self, tmp_path):
        program = (
            "import pathlib; from t2t_lite.text import sentencepiece_training as s\n"
            f"s.train('unigram', pathlib.Path({os.fspath(tmp_path / 'model')!r}), {TEXT!r}, 300)"
        )
        ran = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
        assert ran.stdout + ran.stderr == ""


class TestDamagedFile:
    def test_no_model(self, tmp_path):
        (tmp_path / "vocab.model").write_bytes(b"not a model")
        with pytest.raises(DataError, match=r"vocab\.model is not a SentencePiece model"):
            SentencePieceEncoder(tmp_path / "vocab.model")

    def test_a_model_with_other_special_ids(self, tmp_path):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT),
            model_prefix=os.fspath(tmp_path / "vocab"),
            vocab_size=50,
            minloglevel=3,
        )
        with pytest.raises(DataError, match=r"expected pad 0 and EOS 1, got -1 and 2"):
            SentencePieceEncoder(tmp_path / "vocab.model")


@pytest.mark.parametrize("special", [{"unk_id": 2, "bos_id": -1}, {"bos_id": 2, "unk_id": 3}])
def test_the_unknown_id_is_that_of_the_model(tmp_path, special):
    prefix = os.fspath(tmp_path / "vocab")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_prefix=prefix,
        vocab_size=50,
        pad_id=0,
        eos_id=1,
        minloglevel=3,
        **special,
    )
    encoder = SentencePieceEncoder(tmp_path / "vocab.model")
    assert encoder.unknown_id == special["unk_id"]
    assert encoder.unknown_id in encoder.encode("☃")
    assert encoder.tokens[encoder.unknown_id] == "<unk>"


@pytest.mark.parametrize("symbols", [["<unk>"], ["<a>", "<a>"], ["<0x41>"], [""], ["▁"]])
def test_symbols_that_are_pieces_already_are_refused_by_name(tmp_path, symbols):
    with pytest.raises(DataError) as error:
        sentencepiece_training.train("bpe", tmp_path / "model", TEXT, 330, symbols)
    (message,) = str(error.value).splitlines()
    assert message.startswith(f"cannot build {tmp_path}/model: SentencePiece refuses")
    assert f"additional_reserved_tokens {symbols}" in message


@pytest.mark.parametrize("lines", [["\r"], ["\r\r", "\n"]])
@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_line_ends_alone_are_no_text(tmp_path, model_type, lines):
    with pytest.raises(DataError, match="model: the training text is only line ends"):
        sentencepiece_training.train(model_type, tmp_path / "model", lines, 300)
