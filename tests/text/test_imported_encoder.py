import itertools
import json
import pickle

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st

from support.lines import LINES, TEXT
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.language_tokens import TEXT as OF_TEXT
from t2t_lite.text.language_tokens import TRANSLATION
from t2t_lite.text.text_encoder import UNKNOWN_WORD

_SPACE = "\u2581"


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    """A SentencePiece model as other toolkits train it: no padding, EOS and unknown elsewhere."""
    path = tmp_path_factory.mktemp("model") / "any"
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT), model_prefix=str(path), vocab_size=55, minloglevel=3
    )
    return path.with_suffix(".model")


@pytest.fixture(scope="module")
def model(model_path):
    return sentencepiece.SentencePieceProcessor(model_file=str(model_path))


def _pieces(model):
    """Every second piece of a model, in reverse, after padding, EOS and unknown."""
    own = [model.id_to_piece(i) for i in range(3, len(model), 2)]
    return ["<pad>", "</s>", "<unk>", *reversed(own), "☃", f"{_SPACE}☂"]


@pytest.fixture(scope="module")
def path(model, model_path, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.imported.source.json"
    write_encoder(path, _pieces(model), 2, model=model_path.read_bytes())
    return path


@pytest.fixture(scope="module")
def encoder(path):
    return ImportedEncoder(path)


def _words(path, *words, **settings):
    write_encoder(path / "v.json", ["<pad>", "</s>", "<unk>", *words], 2, **settings)
    return ImportedEncoder(path / "v.json")


class TestPieces:
    @given(LINES)
    def test_are_looked_up_by_name(self, encoder, model, line):
        ids = {piece: i for i, piece in enumerate(_pieces(model)) if i > 1}
        expected = [ids.get(piece, 2) for piece in model.encode(line, out_type=str)]
        assert encoder.encode(line) == expected

    def test_that_this_model_lacks_are_found_in_the_table(self, encoder):
        ids = encoder.encode("☃")
        assert encoder.vocab_size - 2 in ids
        assert encoder.decode(ids) == "☃"

    @given(st.lists(LINES, max_size=5))
    def test_of_lines_and_packed_are_the_same(self, encoder, lines):
        alone = [encoder.encode(line) for line in lines]
        assert encoder.encode_lines(lines) == alone
        assert encoder.pack_lines(lines) == [pack(ids) for ids in alone]

    def test_survive_pickling(self, encoder):
        copy = pickle.loads(pickle.dumps(encoder))
        assert copy.encode(TEXT[0]) == encoder.encode(TEXT[0])
        assert copy.model == encoder.model

    def test_have_names(self, encoder, model):
        assert encoder.tokens == _pieces(model)
        assert encoder.symbol(3) == encoder.tokens[3]
        assert encoder.vocab_size == len(encoder.tokens)
        assert encoder.start_ids() == []
        assert encoder.unknown_id == 2

    def test_without_text_there_are_none(self, encoder):
        assert encoder.encode("") == encoder.encode("  ") == []


class TestDecode:
    def test_inverts_encode_where_all_is_known(self, model, model_path, tmp_path):
        pieces = [model.id_to_piece(i) for i in range(3, len(model))]
        write_encoder(
            tmp_path / "v.json",
            ["<pad>", "</s>", "<unk>", *pieces],
            2,
            model=model_path.read_bytes(),
        )
        encoder = ImportedEncoder(tmp_path / "v.json")
        for line in TEXT:
            assert encoder.decode(encoder.encode(line)) == " ".join(line.split())

    def test_shows_spaces_of_pieces_that_the_model_lacks(self, encoder):
        umbrella = encoder.vocab_size - 1
        assert encoder.decode([umbrella, umbrella]) == "☂ ☂"

    def test_skips_what_is_no_text(self, encoder):
        assert encoder.decode([1, 0, 2, encoder.vocab_size, -1]) == ""

    def test_of_references_shows_unknown_pieces(self, encoder):
        umbrella = encoder.vocab_size - 1
        assert encoder.decode_reference([umbrella, 2, umbrella]).split() == ["☂", UNKNOWN_WORD, "☂"]

    @given(st.lists(st.integers(-3, 60)))
    def test_accepts_any_ids(self, encoder, ids):
        text = encoder.decode(ids)
        assert text.encode().decode() == text


class TestUnknown:
    def test_names_characters(self, encoder):
        assert encoder.unknown("☃ ☃") == []
        assert encoder.unknown("☃你☃好") == ["你", "好"]

    def test_names_words(self, tmp_path):
        encoder = _words(tmp_path, "a", "b")
        assert encoder.unknown("a c </s> b") == ["c", "</s>"]


class TestWords:
    def test_are_pieces_without_a_model(self, tmp_path):
        encoder = _words(tmp_path, "a", "b")
        assert encoder.encode(" b  a c\u3000</s> ") == [4, 3, 2, 2]
        assert encoder.decode([4, 3, 2, 3, 1]) == "b a a"
        assert encoder.decode_reference([4, 2]) == f"b {UNKNOWN_WORD}"
        assert encoder.model == b""


class TestLanguages:
    @pytest.fixture
    def hidden(self, tmp_path):
        return _words(
            tmp_path,
            *("a", "__de__", "__en__"),
            special=[4, 5],
            languages={"de": 4, "en": 5},
            language_of=OF_TEXT,
            language="de",
        )

    @pytest.fixture
    def named(self, tmp_path):
        return _words(
            tmp_path,
            *("a", ">>deu<<", ">>eng<<"),
            languages={"deu": 4, "eng": 5},
            language_of=TRANSLATION,
        )

    def test_begin_every_text(self, hidden):
        assert hidden.encode("a") == [4, 3]
        assert hidden.in_language("en").encode("a") == [5, 3]
        assert hidden.in_language("en").start_ids() == [5]
        assert hidden.start_ids() == [4]

    def test_do_not_begin_a_line_without_text(self, hidden):
        assert hidden.encode_lines([" ", "a"]) == [[], [4, 3]]

    def test_are_not_shown(self, hidden):
        assert hidden.decode([4, 3, 5]) == "a"

    def test_are_words_in_a_text_where_they_are_special(self, hidden):
        assert hidden.encode("__en__ a") == [4, 2, 3]
        assert hidden.encode(">>en<< a") == [4, 2, 3]

    def test_may_be_named_by_the_text(self, named):
        assert named.encode(">>deu<< a") == named.encode(">>deu<<a") == [4, 3]
        assert named.in_language("deu").encode_lines([">>eng<< a", "a"]) == [[5, 3], [4, 3]]

    def test_must_be_given(self, named):
        with pytest.raises(DataError, match=r"set target_language .* it knows deu, eng$"):
            named.encode("a")

    def test_of_the_text_must_be_given_for_both_sides(self, hidden):
        hidden.language = ""
        with pytest.raises(DataError, match="set source_language and target_language"):
            hidden.encode("a")

    def test_unknown_ones_are_refused(self, named, encoder):
        with pytest.raises(UsageError, match=r"'ger'.*the model knows deu, eng"):
            named.in_language("ger")
        with pytest.raises(DataError, match=r">>engl<<.*did you mean 'eng'"):
            named.encode(">>engl<< a")
        with pytest.raises(UsageError, match="the model knows only one"):
            encoder.in_language("de")

    def test_of_many_some_are_named(self, tmp_path):
        words = [f"__{letter}__" for letter in "abcdefghijklmn"]
        encoder = _words(
            tmp_path,
            *words,
            languages=dict(zip("abcdefghijklmn", itertools.count(3), strict=False)),
            language_of=OF_TEXT,
        )
        with pytest.raises(DataError, match=r"k, l and 2 more$"):
            encoder.encode("x")


class TestFiles:
    def _table(self, **changes):
        pieces = ["<pad>", "</s>", "<unk>", "a"]
        table = {"pieces": pieces, "unknown": 2, "special": [], "languages": {}}
        return table | {"language_of": "", "language": ""} | changes

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"pieces": None}, "'pieces': expected a list of texts, got None"),
            ({"pieces": ["<pad>", "</s>", 3]}, "'pieces': expected a list of texts"),
            ({"pieces": ["<pad>", "</s>"]}, "'pieces': 2 of them, expected 3 to"),
            ({"pieces": ["<pad>", "</s>", "a", "a"]}, "'a' occurs twice"),
            ({"unknown": 1}, "'unknown': 1 is not the id of a piece"),
            ({"unknown": 4}, "'unknown': 4 is not"),
            ({"unknown": True}, "'unknown': True is not"),
            ({"special": [9]}, "'special': expected a list of ids"),
            ({"special": [2]}, "'special' contains the id of unknown pieces"),
            ({"special": {}}, "'special': expected a list of ids"),
            ({"languages": {"de": 7}}, "'languages': expected ids by code"),
            ({"languages": [3]}, "'languages': expected ids by code"),
            ({"languages": {"de": 3}}, "'language_of': '', expected one of"),
            ({"language_of": "text"}, "'language_of': 'text', expected one of"),
            ({"language": "de"}, "'language': 'de' is not one of 'languages'"),
            ({"language": []}, r"'language': \[\] is not"),
        ],
    )
    def test_damaged_tables_are_refused_by_field(self, tmp_path, changes, message):
        path = tmp_path / "v.json"
        path.write_text(json.dumps(self._table(**changes)))
        (tmp_path / "v.spm").touch()
        with pytest.raises(DataError, match=message) as error:
            ImportedEncoder(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize(
        "text", ["", "[]", "{", '{"pieces": ["\\ud800"]}', "[" * 100_000, "\0"]
    )
    def test_what_is_no_table_is_refused(self, tmp_path, text):
        (tmp_path / "v.json").write_text(text)
        with pytest.raises(DataError, match=r"v\.json is damaged") as error:
            ImportedEncoder(tmp_path / "v.json")
        assert "\n" not in str(error.value)

    def test_what_is_no_model_is_refused(self, tmp_path):
        (tmp_path / "v.json").write_text(json.dumps(self._table()))
        (tmp_path / "v.spm").write_bytes(b"no model")
        with pytest.raises(DataError, match=r"v\.spm is damaged: not a SentencePiece model"):
            ImportedEncoder(tmp_path / "v.json")

    def test_missing_files_are_named(self, tmp_path):
        with pytest.raises(UserError, match=r"v\.json: no such file"):
            ImportedEncoder(tmp_path / "v.json")
        (tmp_path / "v.json").write_text(json.dumps(self._table()))
        with pytest.raises(UserError, match=r"v\.spm: no such file"):
            ImportedEncoder(tmp_path / "v.json")
        (tmp_path / "v.spm").mkdir()
        with pytest.raises(UserError, match=r"v\.spm is a folder"):
            ImportedEncoder(tmp_path / "v.json")

    def test_files_that_are_too_large_are_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr("t2t_lite.text.imported_encoder._MAX_BYTES", 100)
        (tmp_path / "v.json").write_text(json.dumps(self._table()) + " " * 100)
        with pytest.raises(DataError, match="more than 100 bytes"):
            ImportedEncoder(tmp_path / "v.json")

    def test_are_not_written_if_they_could_not_be_read(self, tmp_path):
        with pytest.raises(DataError, match="'unknown': 9 is not"):
            write_encoder(tmp_path / "v.json", ["<pad>", "</s>", "<unk>"], 9)
        with pytest.raises(DataError, match="not a SentencePiece model"):
            write_encoder(tmp_path / "v.json", ["<pad>", "</s>", "<unk>"], 2, model=b"x")
        assert not list(tmp_path.iterdir())
