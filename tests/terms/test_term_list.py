"""Lists of terms, and what a source asks for."""

import pytest

from t2t_lite.errors import DataError, UsageError
from t2t_lite.terms.term_list import TermList, TermUse, Wanted, uses

FILE = ("Datei", "Dateien")


@pytest.fixture
def terms():
    return TermList({"file": FILE, "file menu": ("Dateimenü",), "OK": ("OK",)}, ("der Ordner",))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("Open the file.", [("file", 1)]),
        ("File: a file, files", [("file", 2)]),
        ("The file menu and a file", [("file menu", 1), ("file", 1)]),
        ("FILE, profile, ok, File menu; OK", [("file menu", 1), ("OK", 1)]),
        ("", []),
    ],
)
def test_the_longest_term_counts_where_whole_words_are(terms, source, wanted):
    assert terms.wanted(source) == [Wanted(t, terms.forms[t], count) for t, count in wanted]


def test_forbidden_words_may_have_a_capital(terms):
    assert terms.found_forbidden("Der Ordner und der Ordnername") == {"Der Ordner"}
    assert terms.found_forbidden("DER ORDNER") == set()


def test_uses_count_at_most_what_is_wanted():
    one, two = Wanted("file", FILE, 1), Wanted("files", FILE, 2)
    assert uses([one], "Datei Datei") == [TermUse(one, 1)]
    assert uses([one, two], "Datei, Dateien, Dateiende") == [TermUse(one, 1), TermUse(two, 1)]
    assert uses([one], "datei") == [TermUse(one, 0)]


def test_reading(tmp_path):
    path, words = tmp_path / "terms.tsv", tmp_path / "forbid.txt"
    path.write_text("file\tDatei\n\n  open  file \tDatei öffnen\tDateien\t\nfile\tDateien\n")
    words.write_text("Ordner\n\n der  Ordner\nOrdner\n")
    found = TermList.read(str(path), str(words))
    assert found.forms == {"file": FILE, "open file": ("Datei öffnen", "Dateien")}
    assert found.forbidden == ("Ordner", "der Ordner")
    assert not TermList.read()


@pytest.mark.parametrize("line", ["file", "file\t", "\tDatei"])
def test_incomplete_lines_are_named(tmp_path, line):
    path = tmp_path / "terms.tsv"
    path.write_text(f"a\tb\n{line}\n")
    with pytest.raises(DataError, match=r"terms\.tsv, line 2: expected a source term, a tab"):
        TermList.read(str(path))


def test_what_an_api_takes():
    found = TermList.of({"file": "Datei", "tab": ["Register", "Reiter"]}, ["Ordner"])
    assert found == TermList({"file": ("Datei",), "tab": ("Register", "Reiter")}, ("Ordner",))
    assert not TermList.of()


@pytest.mark.parametrize(
    ("terms", "forbid"),
    [
        (["file"], None),
        ({"file": ""}, None),
        ({"file": []}, None),
        ({"file": 1}, None),
        ({"": "x"}, None),
        (None, "Ordner"),
        (None, [" "]),
    ],
)
def test_what_an_api_refuses(terms, forbid):
    with pytest.raises(UsageError, match="expected"):
        TermList.of(terms, forbid)


@pytest.mark.parametrize("given", [({"\ud800": "x"},), ({"x": ["\udfff"]},), (None, ["a\ud83d"])])
def test_a_lone_surrogate_is_no_term(given):
    with pytest.raises(
        UsageError, match=r"the lone surrogate U\+D[0-9A-F]{3}, which is not a character"
    ):
        TermList.of(*given)
