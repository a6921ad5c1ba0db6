import pytest

from t2t_lite.errors import DataError, UsageError
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.language_tokens import TEXT, TRANSLATION
from t2t_lite.text.languages import Choice, Languages, choices, speaking, without_labels
from t2t_lite.text.text_encoder import ByteTextEncoder

_PIECES = ["<pad>", "</s>", "<unk>", "a", "de", "en"]


def _encoder(folder, name, language_of):
    languages = {"de": 4, "en": 5} if language_of else {}
    path = folder / f"{name}.json"
    write_encoder(path, _PIECES, 2, languages=languages, language_of=language_of)
    return ImportedEncoder(path)


@pytest.fixture
def both(tmp_path):
    """The encoders of a model whose sources and targets begin with their own languages."""
    return {side: _encoder(tmp_path, side, TEXT) for side in ("inputs", "targets")}


@pytest.fixture
def of_target(tmp_path):
    """The encoders of a model whose sources begin with the language of the targets."""
    kinds = {"inputs": TRANSLATION, "targets": ""}
    return {side: _encoder(tmp_path, side, kind) for side, kind in kinds.items()}


def test_each_side_may_have_its_own(both):
    chosen = speaking(both, Languages("de", "en"))
    assert chosen["inputs"].encode("a") == [4, 3]
    assert chosen["targets"].encode("a") == [5, 3]
    assert not both["inputs"].language


def test_sources_may_name_that_of_their_translations(of_target):
    chosen = speaking(of_target, Languages(target="en"))
    assert chosen["inputs"].encode("a") == [5, 3]
    assert chosen["targets"].encode("a") == [3]


def test_texts_may_name_none(of_target, both):
    chosen = without_labels(speaking(of_target, Languages(target="en")))
    assert chosen["inputs"].named_language(">>de<<") == ""
    assert chosen["inputs"].encode(">>de<<") == [5, 2]
    assert chosen["targets"] is of_target["targets"]
    with pytest.raises(DataError, match=r"no default.*members of a problem\); it knows de, en"):
        without_labels(of_target)["inputs"].encode("a")


def test_of_one_side_leaves_the_other_as_it_is(both):
    chosen = speaking(both, Languages(source="de"))
    assert chosen["targets"] is both["targets"]


def test_unknown_ones_are_refused(both, of_target):
    with pytest.raises(UsageError, match=r"^target_language: unknown language 'fr'.*knows de, en$"):
        speaking(both, Languages(target="fr"))
    with pytest.raises(
        UsageError, match=r"^source_language: unknown language 'dex': .*; did you mean"
    ):
        speaking(both, Languages(source="dex"))
    with pytest.raises(UsageError, match=r"source_language=de: the model has only one source"):
        speaking(of_target, Languages(source="de"))


def test_encoders_of_one_language_stay_the_same():
    bytes_ = dict.fromkeys(("inputs", "targets"), ByteTextEncoder())
    assert speaking(bytes_, Languages()) is bytes_
    with pytest.raises(UsageError, match=r"target_language=de: the model has only one target"):
        speaking(bytes_, Languages(target="de"))


def test_choices_are_those_of_each_side_with_the_default(both, of_target):
    chosen = speaking(both, Languages(target="en"))
    assert choices(chosen) == {
        "source": Choice(["de", "en"], ""),
        "target": Choice(["de", "en"], "en"),
    }
    assert choices(of_target) == {"target": Choice(["de", "en"], "")}
    assert choices(dict.fromkeys(("inputs", "targets"), ByteTextEncoder())) == {}
