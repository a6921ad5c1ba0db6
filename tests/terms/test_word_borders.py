"""Where words begin and end."""

import pytest

from t2t_lite.terms.word_borders import is_border, occurrences, parts_of


@pytest.mark.parametrize(
    ("forms", "text", "places"),
    [
        (["Datei"], "Datei, Dateien, (Datei), Datei", [0, 17, 25]),
        (["Datei"], "_Datei Datei1 Datei-Menü", [14]),
        (["Datei", "Datei öffnen"], "Datei öffnen Datei", [0, 13]),
        (["a a"], "a a a a", [0, 4]),
        (["ファイル"], "このファイルを開く", [2]),
        (["PDF"], "このPDFを開く", [2]),
        (["é"], "cafe\u0301 é", [6]),
        (["fin"], "", []),
        (["$"], "5$ x$y", [1, 4]),
    ],
)
def test_forms_stand_between_borders(forms, text, places):
    assert [place for place, _ in occurrences(forms, text)] == places


def test_the_ends_of_a_text_are_borders():
    assert is_border("ab", 0)
    assert is_border("ab", 2)
    assert not is_border("ab", 1)


def test_parts_stand_between_borders():
    assert parts_of("to  be\n") == ["to", " ", " ", "be", "\n"]
    assert parts_of("ファイル") == [*"ファイル"]
