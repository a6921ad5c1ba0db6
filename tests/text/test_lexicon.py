import pytest

from t2t_lite.errors import DataError
from t2t_lite.text import lexicon, trees
from t2t_lite.text.lexicon import TagCounts, TreeSymbolEncoder


def written(folder, *words):
    """Returns the dictionary of a tree over `word/tag`s, as read by an encoder."""
    counts = TagCounts()
    for pair in words:
        word, _, tag = pair.rpartition("/")
        counts.add(trees.parse_tree(f"(TOP (S ({tag} {word})))"))
    counts.write(folder / "lexicon")
    (folder / "symbols").write_text("S\n/S\nNN\nVB\n")
    return TreeSymbolEncoder(folder / "symbols", folder / "lexicon").lexicon


def test_words_keep_the_tags_they_are_often_seen_with(tmp_path):
    seen = [*["saw/NN", "saw/VB"] * 2, *["the\u2009cat/NN"] * 3, "rare/JJ", "rare/NN", "once/RB"]
    assert written(tmp_path, *seen) == {
        "": ["JJ", "NN", "RB"],
        "saw": ["NN", "VB"],
        "the\u2009cat": ["NN"],
    }


def test_tags_are_listed_as_their_symbols(tmp_path):
    counts = TagCounts()
    for text in ["(TOP (S (S up) (/ /)))", "(TOP (X (S up) (/ /)))"] * 3:
        counts.add(trees.parse_tree(text))
    counts.write(tmp_path / "lexicon")
    assert (tmp_path / "lexicon").read_text() == "\t/ S S/\n/\t/\nup\tS S/\n"


def test_without_rare_words_unknown_ones_may_have_every_tag(tmp_path):
    assert written(tmp_path, *["a/DT"] * 3, *["cat/NN"] * 3)[""] == ["DT", "NN"]


def test_memory_is_bounded_by_forgetting_words_seen_once(tmp_path, monkeypatch):
    monkeypatch.setattr(lexicon, "_MAX_WORDS", 3)
    often = ["a/DT"] * 3
    new = [f"w{i}/T{i}" for i in range(9)]
    found = written(tmp_path, *often, *new)
    assert found == {"": sorted(f"T{i}" for i in range(9)), "a": ["DT"]}


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ("cat\tNN\n", 1), ("\tNN\ncat NN\n", 2), ("\tNN\ncat\t\n", 2)]
)
def test_a_damaged_file_is_named(tmp_path, text, line):
    (tmp_path / "symbols").write_text("NN\n")
    (tmp_path / "lexicon").write_text(text)
    with pytest.raises(DataError, match=f"lexicon, line {line}: .* run t2t-datagen again"):
        TreeSymbolEncoder(tmp_path / "symbols", tmp_path / "lexicon")
