import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.lines import TEXT
from t2t_lite.errors import DataError, UsageError
from t2t_lite.protocol_buffers import pack
from t2t_lite.text import sentencepiece_training
from t2t_lite.text.languages import Choice, Languages, choices, speaking
from t2t_lite.text.multilingual_encoder import MultilingualEncoder
from t2t_lite.text.sentencepiece_encoder import SentencePieceEncoder
from t2t_lite.text.text_encoder import VocabType

_SYMBOLS = ["<2cs>", "<2de>", "<2zh_Hant>", "<bt>"]
_NAMED = [*TEXT, *(f"{symbol} {symbol}{symbol}x" for symbol in _SYMBOLS)]


@pytest.fixture(
    scope="module", params=[VocabType.SENTENCEPIECE_BPE, VocabType.SENTENCEPIECE_UNIGRAM]
)
def path(request, tmp_path_factory):
    """A vocabulary built from text that spells its own symbols, often."""
    path = tmp_path_factory.mktemp("vocab") / "vocab.model"
    sentencepiece_training.train(request.param, path, _NAMED * 50, 420, _SYMBOLS)
    return path


@pytest.fixture(scope="module")
def encoder(path):
    return MultilingualEncoder(path)


@pytest.fixture(scope="module")
def plain(path):
    return SentencePieceEncoder(path)


def test_the_vocabulary_says_which_languages_it_knows(encoder, plain):
    assert encoder.languages == {"cs": 3, "de": 4, "zh_Hant": 5}
    tagged = {f"{code}+bt": [id_, 6] for code, id_ in encoder.languages.items()}
    assert encoder.starts == {code: [id_] for code, id_ in encoder.languages.items()} | tagged
    assert encoder.special_ids == plain.special_ids == {3, 4, 5, 6}
    assert len(set(encoder.tokens)) == encoder.vocab_size, "no piece of text has a symbol's name"


_TEXTS = st.lists(st.sampled_from([*_SYMBOLS, "<", ">", "2", "de", "bt", " ", "é"])).map("".join)


@given(_TEXTS.filter(lambda text: not text.startswith(">>")))  # with which a language is named
def test_no_text_spells_a_symbol(encoder, plain, text):
    for ids in (plain.encode(text), encoder.in_language("de").encode(text)[1:]):
        assert not encoder.special_ids & set(ids)
        assert plain.decode(ids) == text


def test_sources_begin_with_the_language_of_their_translation(encoder, plain):
    german = encoder.in_language("de")
    assert german.encode("a cat") == [4, *plain.encode("a cat")]
    assert german.decode(german.encode("a cat")) == "a cat"
    assert german.encode("") == []
    assert german.start_of(german.encode("a cat")) == [4]
    assert german.encode_text("a cat") == plain.encode("a cat")
    assert not encoder.language


def test_a_tag_is_chosen_with_a_language(encoder, plain):
    assert encoder.in_language("de+bt").encode("a cat") == [4, 6, *plain.encode("a cat")]
    assert encoder.encode(">>cs+bt<<a cat") == [3, 6, *plain.encode("a cat")]
    assert encoder.in_language("de+bt").encode(">>cs<<a cat") == [3, *plain.encode("a cat")]
    with pytest.raises(UsageError, match=r"unknown language 'de\+bd'.*; did you mean 'de\+bt'"):
        encoder.in_language("de+bd")


@pytest.mark.parametrize("label", [">>cs<<", ">>cs<< "])
def test_a_text_may_name_it(encoder, plain, label):
    for one in (encoder, encoder.in_language("de")):
        assert one.encode(f"{label}a cat") == [3, *plain.encode("a cat")]
    assert encoder.named_language(f"{label}a cat") == "cs"


def test_there_is_no_default(encoder):
    with pytest.raises(DataError, match=r"set target_language .* it knows cs, cs\+bt, de, "):
        encoder.encode("a cat")
    with pytest.raises(UsageError, match=r"unknown language 'czech'.*; did you mean 'cs'"):
        encoder.in_language("czech")
    with pytest.raises(DataError, match=r">>deu<< at the start .*; did you mean 'de'"):
        encoder.encode(">>deu<< a cat")


def test_the_text_of_a_member_names_nothing(encoder, plain):
    member = encoder.of_member("de+bt")
    lines = ["a cat", ">>cs<< a  cat", "", " <2cs>"]
    encoded = member.encode_lines(lines)
    assert encoded == [[4, 6, *plain.encode(line)] if line else [] for line in lines]
    assert member.pack_lines(lines) == [pack(ids) for ids in encoded]
    assert member.named_language(lines[1]) == ""
    assert member.start_of(encoded[0]) == [4, 6]
    with pytest.raises(UsageError, match="unknown language 'de"):
        encoder.of_member("de+crawl")


def test_workers_get_a_copy(encoder):
    member = pickle.loads(pickle.dumps(encoder.of_member("cs+bt")))
    assert member.pack_lines(["a cat"]) == encoder.of_member("cs+bt").pack_lines(["a cat"])


def test_targets_have_no_language(encoder, plain):
    both = {"inputs": encoder, "targets": plain}
    assert choices(both) == {"target": Choice(["cs", "de", "zh_Hant"], "")}, (
        "tags are not languages"
    )
    spoken = speaking(both, Languages(target="de"))
    assert spoken["inputs"].encode("a")[0] == 4
    assert spoken["targets"] is plain
    assert speaking(both, Languages(target="cs"))["inputs"].encode("a")[0] == 3


def test_a_vocabulary_without_languages_is_as_any_other(tmp_path):
    path = tmp_path / "vocab.model"
    sentencepiece_training.train(VocabType.SENTENCEPIECE_BPE, path, TEXT, 300)
    encoder, plain = MultilingualEncoder(path), SentencePieceEncoder(path)
    for one in (encoder, encoder.of_member("de")):
        assert one.encode(">>de<< a") == plain.encode(">>de<< a")
        assert one.pack_lines(["a cat"]) == plain.pack_lines(["a cat"])
    assert choices({"inputs": encoder, "targets": plain}) == {}
