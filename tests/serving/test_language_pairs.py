"""Clients write codes in many ways; each finds the model's own, or an error that lists them."""

import pytest
from starlette.exceptions import HTTPException

from t2t_lite.serving.language_pairs import LanguagePairs
from t2t_lite.text.languages import Choice, Languages

ONE = LanguagePairs.of({}, Languages("en", "de"))


def of_both(*codes: str) -> LanguagePairs:
    return LanguagePairs.of({side: Choice([*codes], "") for side in Languages._fields}, Languages())


def refused(pairs: LanguagePairs, source: str, target: str) -> tuple[int, str]:
    with pytest.raises(HTTPException) as raised:
        pairs.chosen(source, target)
    return raised.value.status_code, raised.value.detail


def test_a_model_of_one_pair_is_not_told_its_languages():
    assert ONE.chosen("en", "de") == Languages()
    assert ONE.chosen("eng", "de_DE") == Languages()
    assert ONE.listed() == [
        {"code": "de", "name": "German", "targets": []},
        {"code": "en", "name": "English", "targets": ["de"]},
    ]


def test_every_target_is_listed_as_a_language():
    pairs = of_both("en", "de", "fr")
    assert [entry["code"] for entry in pairs.listed()] == ["de", "en", "fr"]
    assert [entry["targets"] for entry in pairs.listed()] == [
        ["en", "fr"],
        ["de", "fr"],
        ["de", "en"],
    ]


@pytest.mark.parametrize("code", ["pt_BR", "pt-BR", "pt-br", "pt", "PT", "por"])
def test_a_code_is_found_by_case_and_then_by_its_language(code):
    assert of_both("en", "pt_BR").chosen("en", code).target == "pt_BR"


@pytest.mark.parametrize(
    ("code", "found"), [("pt", "pt"), ("pt-BR", "pt_BR"), ("pt_PT", "pt_PT"), ("pt-pt", "pt_PT")]
)
def test_the_nearest_of_several_codes_of_a_language_is_taken(code, found):
    assert of_both("en", "pt", "pt_BR", "pt_PT").chosen("en", code).target == found


def test_codes_are_shown_as_clients_know_them():
    pairs = of_both("deu_Latn", "eng_Latn", "zho_Hans", "zho_Hant")
    assert [entry["code"] for entry in pairs.listed()] == ["de", "en", "zho_Hans", "zho_Hant"]
    assert pairs.chosen("en", "deu_Latn") == Languages("eng_Latn", "deu_Latn")
    assert pairs.chosen("en", "zh-Hant") == Languages("eng_Latn", "zho_Hant")
    status, message = refused(pairs, "en", "zh")
    assert (status, message) == (
        400,
        "target='zh': several languages are meant: expected one of zho_Hans, zho_Hant",
    )


@pytest.mark.parametrize("code", ["xx", "English", "dee", "", "d" * 5000, "fr"])
def test_an_unknown_code_is_an_error_with_the_list(code):
    status, message = refused(of_both("en", "de"), "en", code)
    assert status == 400
    assert message.endswith("the server does not know this language: expected one of de, en")
    assert len(message) < 250


def test_a_side_whose_language_nobody_knows_is_an_error_with_the_remedy():
    targets = {"target": Choice(["de", "fr"], "")}
    for pairs, flags in (
        (LanguagePairs.of({}, Languages()), "--from_code and --to_code"),
        (LanguagePairs.of({}, Languages("en", "")), "--to_code"),
        (LanguagePairs.of(targets, Languages()), "--from_code"),
    ):
        assert refused(pairs, "en", "de")[0] == 404
        with pytest.raises(HTTPException, match=f"start t2t-serve with {flags}$"):
            pairs.listed()
