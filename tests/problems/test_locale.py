"""The embedded data set: Babel generates the recorded text, clean and grammatical."""

import datetime
import itertools
import re
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pytest
from babel import Locale

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.data.text_problems import Text2TextProblem
from t2t_lite.errors import UserError
from t2t_lite.problems import _locale_slots, locale
from t2t_lite.problems._locale_frames import CLAUSES, FRAMES, FRAMES2, continued, french_spaces

LANGUAGES = ("de", "fr")
EDITIONS = (1, 2)
SETS = [*itertools.product(LANGUAGES, EDITIONS)]


def all_pairs(language: str, edition: int = 1) -> list[locale.Pair]:
    return [pair for pairs in locale.corpus(language, edition).values() for pair in pairs]


@pytest.mark.integration
@pytest.mark.parametrize(("language", "edition"), SETS)
def test_is_the_recorded_text(language, edition):
    assert locale.sha256(all_pairs(language, edition)) == locale.SHA256[language, edition]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("edition", EDITIONS)
def test_generates_the_same_again(language, edition):
    first, second = (list(itertools.islice(locale._pairs(language, edition), 500)) for _ in "ab")
    assert first == second


@pytest.mark.integration
@pytest.mark.parametrize(("language", "edition"), SETS)
def test_splits_are_disjoint_and_of_full_size(language, edition):
    corpus = locale.corpus(language, edition)
    sizes = {split: len(pairs) for split, pairs in corpus.items()}
    assert sizes == {"train": 30_000, "eval": 1_000, "test": 1_000}
    assert len({english for english, _ in all_pairs(language, edition)}) == 32_000


@pytest.mark.integration
@pytest.mark.parametrize("edition", EDITIONS)
def test_both_sets_have_the_same_english(edition):
    german, french = ([english for english, _ in all_pairs(code, edition)] for code in LANGUAGES)
    assert german == french


@pytest.mark.integration
@pytest.mark.parametrize(("language", "edition"), SETS)
def test_lines_are_clean(language, edition):
    for line in (side for pair in all_pairs(language, edition) for side in pair):
        assert re.fullmatch(r"\S.*\S", line), line  # "." is no line break
        assert not re.search(r"\s\s|[{}#|\t]|None", line), line
        assert line.endswith((".", "?")), line
        assert line[0].isupper() or line[0].isdigit(), line


@pytest.mark.integration
def test_french_spaces_are_unbreakable() -> None:
    lines = [french for _, french in all_pairs("fr")]
    for line in lines:
        assert not re.search(r"[^\u202f][;!?]|[^\u00a0\d]:|[^\u00a0][»%€]|«[^\u00a0]", line), line
    assert any("\u202f?" in line for line in lines)
    assert any(re.search(r"\d\u202f\d{3}", line) for line in lines)


def test_french_spaces() -> None:
    text = french_spaces("Ville : « Rome » ; à 9:30 ?")
    assert text == "Ville\u00a0: «\u00a0Rome\u00a0»\u202f; à 9:30\u202f?"


def test_every_frame_has_the_same_blanks_in_each_language() -> None:
    for frame in FRAMES2:  # which include those of the first edition
        kinds = [re.findall(r"{(\w+(?::short|:long|:name|:y\w+|:MM\w+)?)", text) for text in frame]
        assert sorted(kinds[0]) == sorted(kinds[1]) == sorted(kinds[2]), frame


def test_conjunctions_join_clauses() -> None:
    for frame in CLAUSES:
        # Whatever does not become lower case is a name, "I" or the polite "you".
        assert re.match(r"{name|I\b", frame.en) or continued(frame.en, "en")[0].islower()
        assert re.match(r"{name|Sie\b|Ihre?\b", frame.de) or continued(frame.de, "de")[0].islower()
        assert re.match(r"{name", frame.fr) or continued(frame.fr, "fr")[0].islower()
    assert continued("I will be back.", "en") == "I will be back."
    assert continued("Ihr Flug kostet viel.", "de") == "Ihr Flug kostet viel."
    assert continued("L’examen dure 2 heures.", "fr") == "l’examen dure 2 heures."
    questions = [frame for frame in FRAMES2 if frame.en.endswith("?")]
    assert questions
    assert not set(questions) & set(CLAUSES)


def test_the_second_edition_has_single_sentences_pairs_and_joined_clauses() -> None:
    pairs = list(itertools.islice(locale._pairs("de", 2), 2_000))
    joined = [pair for pair in pairs if ", because " in pair[0]]
    two = [pair for pair in pairs if re.search(r"[a-z%][.?] [A-Z]", pair[0])]
    assert all(", denn " in german for _, german in joined)
    assert 0.05 < len(joined) / len(pairs) < 0.12
    assert 0.18 < len(two) / len(pairs) < 0.35


def test_every_kind_of_blank_is_used() -> None:
    assert {kind for frame in FRAMES for kind in frame.kinds()} == set(_locale_slots.SLOTS)


# English beginning of a frame; values; German and French by hand ("_" is U+00A0, "~" U+202F).
SENTENCES: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "The invoice",
        {
            "date": datetime.date(2024, 3, 5),
            "price": (Decimal("1234.5"), "EUR"),
            "period": 3 * 86400,
        },
        "Die Rechnung vom 5. März 2024 über 1.234,50_€ ist in 3 Tagen fällig.",
        "La facture du 5 mars 2024 d’un montant de 1~234,50_€ est à régler dans 3 jours.",
    ),
    (
        "{count:# file was",
        {"count": 0, "wait": 3600},
        "0 Dateien wurden vor 1 Stunde in den Papierkorb verschoben.",
        "0 fichier a été placé dans la corbeille il y a 1 heure.",
    ),
    (
        "You have received",
        {"count": 1, "weekday": 0},
        "Sie haben seit Montag 1 neue Nachricht erhalten.",
        "Vous avez reçu 1 nouveau message depuis lundi.",
    ),
    (
        "The train to",
        {"city": "Europe/Vienna", "time": datetime.time(0, 5), "few": 7},
        "Der Zug nach Wien fährt um 00:05 Uhr von Gleis 7 ab.",
        "Le train pour Vienne part à 00:05 de la voie 7.",
    ),
    (
        "{name} lives",
        {"name": "Anna", "country": "NL", "language": "pl"},
        "Anna lebt in den Niederlanden und spricht Polnisch.",
        "Anna vit aux Pays-Bas et parle polonais.",
    ),
    (
        "Are you traveling",
        {"country": "CH", "month": 8},
        "Reisen Sie im August in die Schweiz?",
        "Partez-vous en Suisse en août~?",
    ),
    (
        "The monthly fee",
        {"price": (Decimal("19.99"), "SEK")},
        "Die monatliche Gebühr beträgt 19,99 Schwedische Kronen.",
        "Les frais mensuels s’élèvent à 19,99 couronnes suédoises.",
    ),
    (
        "Opening hours",
        {
            "weekday": 5,
            "hours": (datetime.datetime(2024, 1, 2, 11), datetime.datetime(2024, 1, 2, 13, 30)),
        },
        "Öffnungszeiten am Samstag: 11:00–13:30 Uhr.",
        "Horaires d’ouverture le samedi_: 11:00\u2009–\u200913:30.",
    ),
    (
        "The trail",
        {"walk": (Decimal("1.5"), "length-kilometer"), "date": datetime.date(2001, 12, 31)},
        "Der Wanderweg ist 1,5 Kilometer lang und wurde am 31. Dezember 2001 eröffnet.",
        "Le sentier mesure 1,5_kilomètre de long et a été ouvert le 31 décembre 2001.",
    ),
    (
        "In {month}, sales",
        {"month": 10, "percent": Decimal("0.125"), "revenue": (3_400_000_000, "USD")},
        "Im Oktober stieg der Umsatz um 12,5_% auf 3,4_Mrd._$.",
        "En octobre, le chiffre d’affaires a augmenté de 12,5_% pour atteindre 3,4_Md_$US.",
    ),
    (
        "Please choose",
        {"languages": ["en", "ja", "tr"]},
        "Bitte wählen Sie Ihre Sprache: Englisch, Japanisch oder Türkisch.",
        "Veuillez choisir votre langue_: anglais, japonais ou turc.",
    ),
]


@pytest.mark.parametrize(("beginning", "values", "german", "french"), SENTENCES)
def test_sentences(beginning, values, german, french):
    (frame,) = (frame for frame in FRAMES if frame.en.startswith(beginning))
    for text, code, expected in ((frame.de, "de_DE", german), (frame.fr, "fr_FR", french)):
        filled = _locale_slots.fill(text, values, Locale.parse(code))
        assert filled == expected.replace("_", "\u00a0").replace("~", "\u202f")


@pytest.mark.parametrize("country", _locale_slots.COUNTRIES)
def test_german_countries_in_the_plural_or_with_an_article_are_in_the_table(country):
    name = Locale("de").territories[country]
    needs_article = name.endswith(("ei", "raine", "eiz", "lande", "Staaten", "Königreich"))
    assert needs_article == (country in _locale_slots.GERMAN_PLACE)


@pytest.mark.integration
@pytest.mark.parametrize("language", LANGUAGES)
def test_test_words_occur_in_training(language):
    def words(split: str) -> list[str]:
        # Generated by the tests above, for the cache with the edition alone.
        lines = (line for pair in locale.corpus(language, 1)[split] for line in pair)
        return [word for line in lines for word in re.findall(r"[^\W\d_]+", line)]

    known = set(words(DatasetSplit.TRAIN))
    tested = words(DatasetSplit.TEST)
    unknown = [word for word in tested if word not in known]
    assert len(unknown) < 0.001 * len(tested), unknown


@pytest.mark.integration
@pytest.mark.parametrize(("language", "edition"), SETS)
def test_problems_yield_the_corpus(language, edition):
    name = f"translate_en{language}_locale{'' if edition == 1 else edition}"
    problem = registry.problem(name)
    assert isinstance(problem, Text2TextProblem)
    for split, pairs in locale.corpus(language, edition).items():
        samples = problem.generate_samples("", "", split)
        assert [(sample["inputs"], sample["targets"]) for sample in samples] == pairs
    assert {len(problem.filepaths("d", split)) for split in ("eval", "test")} == {1}
    assert len(problem.filepaths("d", "train")) == 10
    assert problem.vocab_filename == f"vocab.{name}.{1 + edition}000.bpe.model"


def test_missing_babel_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(UserError, match=r"pip install '\.\[demo\]'"):
        locale.corpus.__wrapped__("de")


@pytest.mark.integration
def test_naming_the_problems_does_not_import_babel() -> None:
    code = "import sys, t2t_lite.problems.locale; sys.exit('babel' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_another_text_is_warned_of(monkeypatch, caplog):
    monkeypatch.setattr(locale, "SPLIT_SIZES", {DatasetSplit.TEST: 3})
    locale.corpus.__wrapped__("de")
    assert "en-de, edition 1, differs from the recorded one" in caplog.text
