"""The texts of the benchmark of adaptation."""

import gzip
import pathlib
import runpy
import types

import pytest

SCRIPT = pathlib.Path(__file__).parents[2] / "benchmarks" / "adaptation.py"
adaptation = types.SimpleNamespace(**runpy.run_path(str(SCRIPT)))


@pytest.mark.parametrize(
    ("segment", "text"),
    [
        ('<a name="x"></a><span class="emph">Row</span>:the rate', "Row:the rate"),
        ("one<br>two <b>three</b>", "one two three"),
        ("&lt;F1&gt; &amp; R&amp;D", "<F1> & R&D"),
        ("a < b", "a < b"),
    ],
)
def test_segments_become_plain_text(segment, text):
    assert adaptation.plain_text(segment) == text


def test_segments_of_two_languages_are_distinct_and_complete(tmp_path):
    rows = [
        ("page", "id", "fr", "en", "de"),
        ("p", "1", "", "<b>Open</b>", "Öffnen"),
        ("p", "2", "", "Open", "<i>Öffnen</i>"),
        ("p", "3", "fermer", "Close", ""),
        ("p", "4", "", "<br>", "Schließen"),
        ("p", "5", "", "Close", "Schließen"),
    ]
    path = tmp_path / "train.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines("\t".join(row) + "\n" for row in rows)
    assert adaptation.libreoffice(path) == [("Open", "Öffnen"), ("Close", "Schließen")]


def test_an_english_sentence_is_in_one_split(tmp_path):
    path = tmp_path / "deu.txt.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for number in range(2000):
            file.writelines(f"No. {number}.\tNr. {number}{end}\n" for end in ".!")
    splits = adaptation.manythings(path)
    sides = {split: {en for en, _ in pairs} for split, pairs in splits.items()}
    assert sum(map(len, sides.values())) == len(set.union(*sides.values())) == 2000
    assert len(splits["train"]) == 2 * len(sides["train"])
    for split in ("dev", "test"):
        assert 0 < len(splits[split]) == len(sides[split]) < 40
        assert all(de.endswith(".") for _, de in splits[split])


def test_draws_repeat():
    pairs = [(str(number), "") for number in range(100)]
    assert adaptation.drawn(pairs, 7) == adaptation.drawn(pairs, 7)
    assert len(set(adaptation.drawn(pairs, 7))) == 7
