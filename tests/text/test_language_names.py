import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import DataError, UsageError
from t2t_lite.text import language_names
from t2t_lite.text.imported_encoder import ImportedEncoder, write_encoder
from t2t_lite.text.language_names import english_name, meant
from t2t_lite.text.language_tokens import TRANSLATION

NLLB = [
    "arb_Arab",
    "deu_Latn",
    "eng_Latn",
    "fin_Latn",
    "fra_Latn",
    "gle_Latn",
    "kmr_Latn",
    "nld_Latn",
    "nno_Latn",
    "nob_Latn",
    "npi_Deva",
    "ory_Orya",
    "pes_Arab",
    "por_Latn",
    "prs_Arab",
    "quy_Latn",
    "srp_Cyrl",
    "swh_Latn",
    "tgl_Latn",
    "zho_Hans",
    "zho_Hant",
    "zsm_Latn",
]
M2M100 = ["ar", "de", "en", "fa", "fr", "no", "sr", "zh"]
OPUS = ["cmn_Hans", "deu", "eng", "nob", "srp_Latn"]


@pytest.mark.parametrize(
    "text", ["German", "german", "de", "ger", "DE", "deu", "deu-Latn", "Germn"]
)
def test_each_usual_way_to_write_a_language_finds_the_code_of_each_model(text):
    for codes, code in ((NLLB, "deu_Latn"), (M2M100, "de"), (OPUS, "deu")):
        assert meant(text, codes) == [code]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A script or a region counts if the model has it.
        ("zh", ["zho_Hans", "zho_Hant"]),
        ("zh_Hant", ["zho_Hant"]),
        ("Chinese (Simplified)", ["zho_Hans"]),
        ("pt_BR", ["por_Latn"]),
        # An individual language stands for its macrolanguage, and the other way round.
        ("ar", ["arb_Arab"]),
        ("Persian", ["pes_Arab"]),
        ("Dari", ["prs_Arab"]),
        ("Malay", ["zsm_Latn"]),
        ("Norwegian", ["nno_Latn", "nob_Latn"]),
        ("no", ["nno_Latn", "nob_Latn"]),
        ("swh_Latm", ["swh_Latn"]),
        ("fimn", ["fin_Latn"]),
        ("Deutsch", ["deu_Latn"]),  # not Dutch
    ],
)
def test_languages_of_several_codes(text, expected):
    assert meant(text, NLLB) == expected


@pytest.mark.parametrize("text", ["Klingon", "tlh", "North Frisian", "frr", "", "\ud800"])
def test_no_other_language_is_taken_for_one_that_the_model_lacks(text):
    assert meant(text, NLLB) == []


@given(st.text(), st.lists(st.text(max_size=8), max_size=5))
def test_any_text_gets_an_answer_among_the_codes(text, codes):
    assert set(meant(text, codes)) <= set(codes)
    assert isinstance(english_name(text), str)


def test_a_code_comes_before_a_name():
    """Irish has the code ga; a language of Ghana has the name Ga, and the code gaa."""
    assert meant("ga", ["gaa_Latn", "gle_Latn"]) == ["gle_Latn"]


def test_every_code_means_itself():
    for codes in (NLLB, M2M100, OPUS):
        assert [meant(code, codes) for code in codes] == [[code] for code in codes]


def test_a_long_text_is_not_compared():
    assert meant("x" * 10_000_000, NLLB) == []


def test_english_names():
    names = [english_name(code) for code in ("de", "deu", "deu_Latn", "zho_Hans", "srp_Cyrl", "xx")]
    assert names == ["German", "German", "German", "Simplified Chinese", "Serbian", ""]


def test_the_table_is_that_of_babel():
    core, babel = pytest.importorskip("babel.core"), pytest.importorskip("babel")
    if babel.__version__ != "2.18.0":
        pytest.skip("the table is of Babel 2.18.0")
    table, names = language_names._table(), babel.Locale("en").languages
    aliases = core.get_global("language_aliases")
    assert table["names"] == {c: n for c, n in names.items() if c not in ("mul", "und", "zxx")}
    assert table["aliases"].items() <= aliases.items()
    assert {"deu", "ger", "arb", "cmn", "pes"} <= set(table["aliases"])


def test_errors_name_the_code(tmp_path):
    languages = {">>deu<<": 3, ">>zho_Hans<<": 4, ">>zho_Hant<<": 5}
    write_encoder(
        tmp_path / "a.json",
        ["<pad>", "</s>", "<unk>", *languages],
        2,
        languages={piece[2:-2]: id_ for piece, id_ in languages.items()},
        language_of=TRANSLATION,
    )
    encoder = ImportedEncoder(tmp_path / "a.json")
    with pytest.raises(UsageError, match=r"'German': .*; did you mean 'deu'\?$"):
        encoder.in_language("German")
    with pytest.raises(DataError, match=r">>zh<<.*; did you mean 'zho_Hans' or 'zho_Hant'\?$"):
        encoder.encode(">>zh<< a")
