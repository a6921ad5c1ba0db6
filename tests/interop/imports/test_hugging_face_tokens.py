"""Tokens that tokenizers add to a vocabulary, where they are told, and how they split text.

The expected pieces are those of transformers 5 for the same folders.
"""

import io
import json
import pathlib
import shutil
import unicodedata

import pytest
import sentencepiece

from support.open_model_files import change_json
from t2t_lite.errors import DataError, UserError
from t2t_lite.interop.imports import hugging_face_vocabularies as vocabularies
from t2t_lite.interop.imports.fairseq_languages import LANGUAGES
from t2t_lite.interop.imports.hugging_face_tokens import read_tokenizer
from t2t_lite.text.added_tokens import AddedTokens
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.language_tokens import TRANSLATION

FIXTURES = pathlib.Path(__file__).parents[2] / "fixtures" / "tokenizers"
_ALL = [f"__{code}__" for code in LANGUAGES["m2m100"]]
ADDED = {
    "foo": {"special": False},
    "bar": {"special": False, "single_word": True},
    "Katze": {"special": False, "normalized": True},
    "ЖЩ": {"special": False, "single_word": True},  # of characters that no vocabulary has
    "<2x>": {"special": True},
}


@pytest.fixture
def folder(tmp_path, request):
    return shutil.copytree(FIXTURES / request.param, tmp_path / "model")


def size_of(folder) -> int:
    return json.loads((FIXTURES / "recorded.json").read_bytes())[folder_kind(folder)]["size"]


def folder_kind(folder) -> str:
    if (folder / "source.spm").exists():
        return "marian"
    return "m2m100" if (folder / "vocab.json").exists() else "nllb"


def sides(folder, size=0):
    kind, size = folder_kind(folder), size or size_of(folder)
    tokenizer = read_tokenizer(folder, "marian" if kind == "marian" else "m2m_100")
    if kind == "marian":
        padding = len(json.loads((folder / "vocab.json").read_bytes())) - 1
        return vocabularies.marian(folder, tokenizer, [size, size], padding, [0], padding)
    return vocabularies.m2m100(folder, tokenizer, size, 1, [2], None)


def encoder_of(side, path) -> ImportedEncoder:
    side.vocabulary.write(path)
    return ImportedEncoder(path)


def add(folder, first: int) -> None:
    """Adds the tokens to the settings of a tokenizer, as `save_pretrained` does."""
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_bytes()) if path.exists() else {}
    by_id = settings.setdefault("added_tokens_decoder", {})
    for id_, (content, flags) in enumerate(ADDED.items(), first):
        by_id[str(id_)] = {"content": content, "lstrip": False, "rstrip": False, **flags}
    path.write_text(json.dumps(settings))


TEXTS = {
    "a foo b": "▁a foo ▁ b",
    "afoob bar xbarx x bar": "▁a foo ▁ b bar ▁ x b a r ▁ x ▁ x bar",
    "<2x> Die Katze.": "<2x> ▁ D i e Katze ▁ .",
    "Die kleine Katzen foo": "▁ D i e ▁ k le in e Katze ▁ n foo",
    "  foo  foo ": "foo foo",
}
FAST_TEXTS = {
    "a foo b": "▁a ▁ foo ▁b",
    "afoob bar xbarx x bar": "▁a foo ▁b ▁ bar ▁ x b a r x ▁ x ▁ bar",
    "<2x> Die Katze.": "<2x> ▁D ie ▁ Katze ▁ .",
    "Die kleine Katzen foo": "▁D ie ▁k le in e ▁ Katze ▁ n ▁ foo",
    "ЖЩx ЖЩ": "▁ <unk> x ▁ ЖЩ",
}


@pytest.mark.parametrize("folder", ["marian"], indirect=True)
def test_added_tokens_of_marianmt(folder, tmp_path):
    """They lie beyond the vocabulary; transformers joins them without spaces."""
    size = size_of(folder)
    add(folder, size)
    source, target = sides(folder, size + len(ADDED))
    encoder = encoder_of(source, tmp_path / "a.json")
    in_german = encoder.in_language("deu")
    for text, pieces in TEXTS.items():
        _, *ids = in_german.encode(text)
        assert [encoder.tokens[id_] for id_ in ids] == pieces.split(), text
        assert encoder.unknown(text) == []
    decoder = encoder_of(target, tmp_path / "b.json")
    ids = [decoder.tokens.index(piece) for piece in ("▁a", "foo", "<2x>", "▁", "b")]
    assert decoder.decode(ids) == "afoo b"
    assert not decoder.is_whole


@pytest.mark.parametrize("folder", ["marian"], indirect=True)
def test_tokens_may_be_added_to_sources_alone(folder):
    size = size_of(folder)
    shutil.copy(folder / "vocab.json", folder / "target_vocab.json")
    add(folder, size)
    tokenizer = read_tokenizer(folder, "marian")
    sizes = [size + len(ADDED), size]
    source, target = vocabularies.marian(folder, tokenizer, sizes, size - 1, [0], size - 1)
    assert "foo" in source.vocabulary.pieces
    assert "foo" not in target.vocabulary.pieces


@pytest.mark.parametrize("folder", ["m2m100"], indirect=True)
def test_added_tokens_of_m2m100(folder, tmp_path):
    size = size_of(folder)
    add(folder, size - 8)  # in the rows that mean nothing
    source, _ = sides(folder)
    encoder = encoder_of(source, tmp_path / "a.json").in_language("en")
    _, *ids = encoder.encode("a foo b<2x>")
    assert [encoder.tokens[id_] for id_ in ids] == ["▁a", "foo", "▁b", "<2x>"]
    assert encoder.decode(ids) == "afoo b"
    assert [source.order[id_] for id_ in ids[1::2]] == [size - 8, size - 4]


@pytest.mark.parametrize("folder", ["nllb"], indirect=True)
@pytest.mark.parametrize("file", ["tokenizer.json", "added_tokens.json"])
def test_added_tokens_of_nllb(folder, tmp_path, file: str):
    """Spaces before them are pieces, unlike those of the other families."""
    size = size_of(folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_bytes())
    if file == "tokenizer.json":
        tokenizer["added_tokens"] += [
            {"id": id_, "content": content, **flags}
            for id_, (content, flags) in enumerate(ADDED.items(), size)
        ]
        (folder / file).write_text(json.dumps(tokenizer))
    else:
        (folder / file).write_text(json.dumps({t: i for i, t in enumerate(ADDED, size)}))
        change_json(folder / "tokenizer_config.json", extra_special_tokens=["<2x>"])
    encoder = encoder_of(sides(folder, size + 8)[0], tmp_path / "a.json").in_language("eng_Latn")
    for text, pieces in FAST_TEXTS.items():
        if file == "added_tokens.json" and ("bar" in text or "ЖЩ" in text):
            continue  # that file does not tell words
        _, *ids = encoder.encode(text)
        assert [encoder.tokens[id_] for id_ in ids] == pieces.split(), text
    _, *ids = encoder.encode("a foo b")
    assert encoder.decode(ids) == "a foo b"


@pytest.mark.parametrize("folder", ["m2m100"], indirect=True)
@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        (None, {"af": 0, "en": 18, "de": 16, "zu": 99}),
        ({"tokenizer_class": "M2M100Tokenizer", "src_lang": "en"}, {"af": 0, "zu": 99}),
        ({"language_codes": "wmt21"}, {"en": 0, "de": 7}),
        ({"additional_special_tokens": ["__de__", "<x>", "__en__"]}, {"de": 16, "en": 18}),
        ({"additional_special_tokens": ["__de__", "__a__"], "language_codes": "mine"}, {"a": 1}),
    ],
)
def test_an_m2m100_needs_no_list_of_languages(folder, settings, codes):
    for name in ("tokenizer_config.json", "added_tokens.json"):
        (folder / name).unlink()
    if settings is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    text = len(json.loads((folder / "vocab.json").read_bytes()))
    source, target = sides(folder)
    found = source.vocabulary.languages
    assert {code: source.order[found[code]] - text for code in codes} == codes
    assert target.vocabulary.languages == found
    for wrong in ("m2m200", ["__en__", "__de__"]):
        (folder / "tokenizer_config.json").write_text(json.dumps({"language_codes": wrong}))
        with pytest.raises(UserError, match=r"language_codes=.*: expected m2m100 or wmt21"):
            sides(folder)


@pytest.mark.parametrize("folder", ["m2m100"], indirect=True)
@pytest.mark.parametrize("place", [100, 108])  # after the languages, and the rows for nothing
@pytest.mark.parametrize("listed", [[], ["__xx__"], _ALL, _ALL[::-1], ["__fr__", "__de__"]])
def test_languages_have_the_ids_after_the_pieces(folder, place, listed):
    """Wherever a token was added later."""
    (folder / "tokenizer_config.json").unlink()
    text = len(json.loads((folder / "vocab.json").read_bytes()))
    added = "__xx__" if "__xx__" in listed else "foo"
    (folder / "added_tokens.json").write_text(json.dumps({added: text + place}))
    special = {"additional_special_tokens": listed}
    (folder / "special_tokens_map.json").write_text(json.dumps(special))
    source, _ = sides(folder, text + 112)
    places = {
        piece: id_ - text for piece, id_ in zip(source.vocabulary.pieces, source.order, strict=True)
    }
    expected = {language: place for place, language in enumerate(_ALL)}
    assert places.items() >= {**expected, added: place}.items()
    assert ("xx" in source.vocabulary.languages) == ("__xx__" in listed)


@pytest.mark.parametrize("folder", ["m2m100"], indirect=True)
@pytest.mark.parametrize("sign", ["class", "code", "file"])
def test_sources_of_small100_begin_with_the_targets_language(folder, tmp_path, sign: str):
    if sign == "file":
        (folder / "tokenization_small100.py").touch()
    else:
        maps = {"AutoTokenizer": ["tokenization_small100.SMALL100Tokenizer", None]}
        change = {"tokenizer_class": "SMALL100Tokenizer"} if sign == "class" else {"auto_map": maps}
        change_json(folder / "tokenizer_config.json", **change)
    source, target = sides(folder)
    assert source.vocabulary.language_of == TRANSLATION
    assert not target.vocabulary.languages
    encoder = encoder_of(source, tmp_path / "a.json").in_language("de")
    assert [encoder.tokens[id_] for id_ in encoder.encode("a")] == ["__de__", "▁a"]
    decoder = encoder_of(target, tmp_path / "b.json")
    assert decoder.encode("a") == encoder.encode("a")[1:]
    with pytest.raises(UserError, match="forced_bos_token_id=170 has no counterpart here"):
        vocabularies.m2m100(folder, read_tokenizer(folder, "m2m_100"), 1000, 1, [2], 170)


@pytest.mark.parametrize("folder", ["nllb"], indirect=True)
def test_a_tokenizer_of_other_pieces_is_refused(folder):
    path = folder / "tokenizer.json"
    contents = json.loads(path.read_bytes())
    ids = contents["model"]["vocab"]
    first, second = [piece for piece in ids if piece.startswith("▁")][:2]
    ids[first], ids[second] = ids[second], ids[first]
    path.write_text(json.dumps(contents))
    with pytest.raises(DataError, match=r"has other pieces than sentencepiece\.bpe\.model"):
        sides(folder)


@pytest.mark.parametrize("folder", ["marian"], indirect=True)
def test_rows_for_nothing_fill_a_model_up(folder):
    """To a multiple of 8; otherwise the vocabulary is of another model."""
    size = size_of(folder)
    source, _ = sides(folder, -(-size // 64) * 64)
    assert source.vocabulary.pieces[-1].startswith("<unused ")
    assert len(source.vocabulary.pieces) - 1 in source.vocabulary.special
    for other in (-(-size // 8) * 8 + 1, 4096):
        with pytest.raises(DataError, match=f"the model has {other} rows, and the vocabulary"):
            sides(folder, other)


@pytest.mark.parametrize("folder", ["marian"], indirect=True)
def test_spaces_before_punctuation_are_removed_if_the_tokenizer_says_so(folder, tmp_path):
    (folder / "tokenizer_config.json").write_text('{"clean_up_tokenization_spaces": true}')
    encoder = encoder_of(sides(folder)[1], tmp_path / "a.json")
    ids = encoder.split(["a . b , c"])[0]
    assert encoder.decode(ids) == "a. b, c"
    (folder / "tokenizer_config.json").unlink()
    encoder = encoder_of(sides(folder)[1], tmp_path / "b.json")
    assert encoder.decode(ids) == "a . b , c"
    assert encoder.is_whole


def found(text: str, normalize=None, **flags) -> list[str | int]:
    """Returns how a text is split by tokens with flags, which have the ids 0, 1 and so on."""
    names = {name: value.split() for name, value in flags.items()}
    return AddedTokens({name: id_ for id_, name in enumerate(names)}, names, normalize).split(text)


def test_of_tokens_that_overlap_the_longest_is_found():
    tokens = AddedTokens({"ab": 7, "abc": 8, ".": 9}, {"ab": [], "abc": [], ".": []}, None)
    assert tokens.split("xabcab.a b") == ["x", 8, 7, 9, "a b"]
    assert tokens.split("") == []


def test_a_token_that_is_no_word_joins_what_is_beside_it():
    flags = {"XY": "single_word", "abi": ""}
    assert found("a XY b", **flags) == ["a ", 0, " b"]
    assert found("aXY XYb XYabi", **flags) == ["aXY", " ", "XYb ", "XYabi"]
    assert found("aXY XYb XY abi", str, **flags) == ["aXY XYb ", 0, " ", 1]
    assert found("XY\u0301 XY.", str, **flags) == ["XY\u0301 ", 0, "."]  # accents belong to words


def test_a_token_that_is_no_word_hides_those_in_it():
    assert found("aXYX XYX X", str, XYX="single_word", X="") == ["aXYX ", 0, " ", 1]


def test_tokens_take_spaces_with_them():
    text = "a  T b T  T"
    assert found(text, str, T="") == ["a  ", 0, " b ", 0, "  ", 0]
    assert found(text, str, T="lstrip") == ["a", 0, " b", 0, 0]
    assert found(text, str, T="rstrip") == ["a  ", 0, "b ", 0, 0]
    assert found(text, str, T="lstrip rstrip") == ["a", 0, "b", 0, 0]


def test_tokens_are_looked_for_in_normalized_text():
    """After those that are looked for in the text as it is."""

    def nfkc(text: str) -> str:
        return unicodedata.normalize("NFKC", text)

    assert found("ＸＹ XY", nfkc, XY="normalized") == [0, " ", 0]
    assert found("ＸＹ XY", nfkc, XY="") == ["ＸＹ ", 0]
    assert found("1 ①", nfkc, **{"①": "normalized"}) == [0, " ", 0]
    assert found("abc", nfkc, abc="normalized", b="") == ["a", 1, "c"]


def test_the_sentencepiece_model_normalizes_text_for_tokens(tmp_path):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"]), model_writer=model, vocab_size=7, minloglevel=2
    )
    pieces = ["<pad>", "</s>", "<unk>", "▁", "a", "X Y"]
    path = tmp_path / "a.json"
    added = {5: ["normalized"]}
    write_encoder(path, pieces, 2, model=model.getvalue(), added=added, keeps_spaces=True)
    encoder = ImportedEncoder(path)
    expected = encoder.encode("a X Y")
    assert [pieces[id_] for id_ in expected[-2:]] == ["▁", "X Y"]
    for text in ("a Ｘ\u3000Ｙ", "a X  Y", "a\u200bX\xa0Y"):
        assert encoder.encode(text) == expected, text


@pytest.mark.parametrize("folder", ["nllb"], indirect=True)
def test_a_piece_of_nllb_may_be_an_added_token(folder, tmp_path):
    (folder / "sentencepiece.bpe.model").unlink()
    path = folder / "tokenizer.json"
    contents = json.loads(path.read_bytes())
    contents["added_tokens"].append({"id": contents["model"]["vocab"]["▁k"], "content": "▁k"})
    path.write_text(json.dumps(contents))
    encoder = encoder_of(sides(folder)[0], tmp_path / "a.json").in_language("eng_Latn")
    _, *ids = encoder.encode("a k")
    assert [encoder.tokens[id_] for id_ in ids] == ["▁a", "▁k"]
