import gzip
import itertools
import json
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from t2t_lite.errors import DataError, UserError
from t2t_lite.text import linear_trees, trees
from t2t_lite.text.bad_input import BadInput
from t2t_lite.text.trees import Tree

DEEP = 5_000

SENTENCE = "(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))"
WORDS = ["John", "has", "a", "dog", "."]
SYMBOLS = ["S", "NP", "NNP", "/NP", "VP", "VBZ", "NP", "DT", "NN", "/NP", "/VP", ".", "/S"]

# Anything a line can hold between two spaces.
tokens = st.text(st.characters(exclude_characters=" \t\n\v\f\r", codec="utf-8"), min_size=1)
leaves = st.builds(
    lambda tag, word: Tree(tag, (word,)),
    st.sampled_from(["NN", "DT", "PRP$", "-LRB-", ".", "``", "/", "XX", "NP", "NP/", "S", "4"]),
    tokens.filter(lambda word: not set("()") & set(word)),
)
phrases = st.recursive(
    leaves,
    lambda child: st.builds(
        lambda label, children: Tree(label, tuple(children)),
        st.sampled_from(["S", "NP", "VP", "ADVP|PRT", "phrase", "4"]),
        st.lists(child, min_size=1, max_size=4),
    ),
    max_leaves=20,
)
normalised_trees = st.lists(phrases, min_size=1, max_size=3).map(
    lambda children: Tree("TOP", tuple(children))
)
output_symbols = st.one_of(
    st.sampled_from(
        ["S", "/S", "S/", "NP", "/NP", "NP/", "NP//", "VP", "/VP", "NN", "/", "//", "TOP", "/TOP"]
    ),
    tokens,
)


@pytest.fixture(scope="module")
def treebank_folder(shared_data, tmp_path_factory):
    """A folder with the unpacked files of both treebanks."""
    folder = tmp_path_factory.mktemp("treebanks")
    for path in shared_data.glob("*/*treebank*.tgz"):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def golden_trees(golden):
    with gzip.open(golden / "wsj_linearize.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


# ---- bracketed text


def test_a_tree_has_words_and_tags_and_prints_as_it_was_read():
    tree = trees.parse_tree(SENTENCE)
    assert tree.words() == WORDS
    assert tree.tags() == ["NNP", "VBZ", "DT", "NN", "."]
    assert str(tree) == SENTENCE
    assert tree.label == "TOP"
    assert tree.word is None
    assert Tree("NN", ("dog",)).word == "dog"


@pytest.mark.parametrize(
    "text",
    [
        "  (TOP   (S (A a)\t(B b)))  ",
        "(TOP\r\n  (S (A a)\r\n    (B b) ) )\r\n",
        "(TOP(S(A a)(B b)))",
        "( TOP ( S ( A a ) ( B b ) ) )",
    ],
)
def test_white_space_between_brackets_does_not_matter(text):
    assert str(trees.parse_tree(text)) == "(TOP (S (A a) (B b)))"


def test_only_ascii_white_space_separates():
    tree = trees.parse_tree("(NP (NN Xpd\u200aTTD) (NN a\u2028b) (NN c\x85d))")
    assert tree.words() == ["Xpd\u200aTTD", "a\u2028b", "c\x85d"]
    assert trees.split_words(" ".join(tree.words())) == tree.words()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected one tree, got 0"),
        ("(TOP (S (A a) (B b)", "closing brackets missing at the end: 2"),
        ("(A a))", "an extra closing bracket"),
        (")", "an extra closing bracket"),
        ("(A a) b", "text outside the tree: 'b'"),
        ("a (A a)", "text outside the tree: 'a'"),
        ("(A a) (B b)", "expected one tree, got 2"),
        ("(TOP (S (A a b) (B c)))", "bracket 'A' contains a word and something else"),
        ("(S (A a) b)", "bracket 'S' contains a word and something else"),
        ("(S (NP) (VP (X)))", "a tree without words"),
        ("(S ((A a)))", "a bracket without a label inside the tree"),
    ],
)
def test_malformed_trees_are_named(text, message):
    with pytest.raises(DataError, match=message.replace("(", r"\(")):
        trees.parse_tree(text)


def test_brackets_in_words_and_labels_are_escaped_when_printed():
    tree = Tree("TOP", (Tree("N(", (":-)",)),))
    assert str(tree) == "(TOP (N-LRB- :--RRB-))"
    assert trees.parse_tree(str(tree)).words() == [":--RRB-"]


def test_equality_sees_every_part():
    tree = trees.parse_tree("(S (A a) (B b))")
    assert tree == trees.parse_tree("(S (A a) (B b))")
    assert hash(tree) == hash(trees.parse_tree("(S (A a) (B b))"))
    others = [
        "(X (A a) (B b))",
        "(S (A a) (B x))",
        "(S (A a) (X b))",
        "(S (A a))",
        "(S (B b) (A a))",
    ]
    assert all(tree != trees.parse_tree(other) for other in others)
    assert tree != str(tree)
    assert eval(repr(tree), {"parse_tree": trees.parse_tree}) == tree


@pytest.mark.integration
def test_deep_trees_do_not_overflow():
    text = "(A " * DEEP + "(B b)" + ")" * DEEP
    tree = trees.parse_tree(text)
    assert str(tree) == text
    assert tree == trees.parse_tree(text)
    assert len({tree, trees.normalise(tree)}) == 2
    words, symbols = linear_trees.linearize(trees.normalise(tree))
    assert len(symbols) == 2 * DEEP + 1
    assert linear_trees.delinearize(words, symbols) == (trees.normalise(tree), 0)


# ---- files


def test_reads_one_tree_a_line_and_the_form_of_the_ldc(tmp_path):
    path = tmp_path / "both.mrg"
    path.write_text("\n( (S \n    (NP (DT a)\n (NN b) )))\n\n(TOP (C c))\r\n(TOP (D d))")
    expected = ["( (S (NP (DT a) (NN b))))", "(TOP (C c))", "(TOP (D d))"]
    assert [str(tree) for tree in trees.read_trees(path)] == expected
    compressed = tmp_path / "both.mrg.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert [str(tree) for tree in trees.read_trees(compressed)] == expected


@pytest.mark.parametrize(
    ("lines", "number", "message"),
    [
        (["(A a)", "(A (B b)", "(A a)"], 2, "closing brackets missing at the end: 1"),
        (["(A a)", "( (S", "  (B b))", "", "(A a)"], 2, "closing brackets missing at the end: 1"),
        (["(A a)", "", "(A (B b)))", "(A a)"], 3, "an extra closing bracket"),
        (["(A a)", "(A a) (A a)"], 2, "expected one tree, got 2"),
        (["(A a)", "(A)"], 2, "a tree without words"),
        (["(A a)", "(A (B b) (C ))"], 2, r"bracket '\(C\)' lacks a word or a tag"),
        (["(A a)", "", "(A (B b)", " (C (dog)))"], 3, r"bracket '\(dog\)' lacks a word or a tag"),
        (["(A a)", "a word"], 2, "text outside the tree: 'a'"),
        (["(A a)", "(A (B b)"], 2, "closing brackets missing at the end: 1"),
    ],
)
def test_errors_name_file_and_line(tmp_path, lines, number, message):
    path = tmp_path / "bad.trees"
    path.write_text("".join(f"{line}\n" for line in lines))
    found = trees.read_trees(path)
    assert str(next(found)) == "(A a)"  # nothing is read ahead of the bad tree
    with pytest.raises(DataError, match=rf"bad\.trees, line {number}: {message}"):
        list(found)


def test_errors_of_the_file_itself(tmp_path):
    with pytest.raises(UserError, match=r"absent\.trees: no such file"):
        list(trees.read_trees(tmp_path / "absent.trees"))
    (tmp_path / "latin.trees").write_bytes("(A a)\n(A ä)\n".encode("latin-1"))
    with pytest.raises(DataError, match=r"latin\.trees, line 2: .* not UTF-8"):
        list(trees.read_trees(tmp_path / "latin.trees"))


# ---- normalisation


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("( (S (NP-SBJ-1 (PRP I)) (VP=2 (VBP am))))", "(TOP (S (NP (PRP I)) (VP (VBP am))))"),
        ("(S (A a))", "(TOP (S (A a)))"),
        ("(ROOT (S (A a)))", "(TOP (S (A a)))"),
        ("(TOP (A a))", "(TOP (A a))"),
        ("(A a)", "(TOP (A a))"),
        ("( (A a) (B b))", "(TOP (A a) (B b))"),
        ("( (NP (NP (-LRB- -LRB-) (X *))))", "(TOP (NP (NP (-LRB- -LRB-) (X *))))"),
        ("(TOP (S (NP (-NONE- *)) (VP (V v) (X))))", "(TOP (S (VP (V v))))"),
        ("(S (NP (NP (-NONE- *)) (SBAR (-NONE- 0) (S (-NONE- *T*)))) (V v))", "(TOP (S (V v)))"),
    ],
)
def test_normalises(raw, clean):
    assert str(trees.normalise(trees.parse_tree(raw))) == clean


def test_a_tree_of_traces_cannot_be_normalised():
    with pytest.raises(DataError, match=r"without words: \( \(S \(-NONE- \*\)\)\)"):
        trees.normalise(trees.parse_tree("( (S (-NONE- *)))"))


@pytest.mark.integration
@settings(deadline=None)
@given(normalised_trees)
def test_anonymous_trees_keep_words_and_phrases(tree):
    other = trees.anonymise(tree)
    assert other.words() == tree.words()
    brackets = [
        [(node.label, begins) for node, begins in each.walk() if node.word is None]
        for each in (tree, other)
    ]
    assert brackets[0] == brackets[1]


def test_only_punctuation_keeps_its_tag():
    tree = trees.parse_tree("(TOP (S (PRP$ my) (-LRB- -LRB-) (NN X) (, ,) (`` ``) (: -) ($ $)))")
    assert trees.anonymise(tree).tags() == ["XX", "-LRB-", "XX", ",", "``", ":", "$"]


@pytest.mark.integration
@settings(deadline=None)
@given(normalised_trees)
def test_normalised_trees_stay_as_they_are(tree):
    assert trees.normalise(tree) == tree


def test_normalises_like_the_recorded_forms(golden_trees):
    forms = {(entry.get("index"), entry["form"]): entry["tree"] for entry in golden_trees}
    raw = {index: text for (index, form), text in forms.items() if form == "raw"}
    assert len(raw) == 50
    for index, text in raw.items():
        assert str(trees.normalise(trees.parse_tree(text))) == forms[index, "clean_top"]


# ---- symbols


def test_a_tree_of_a_single_word_has_no_phrases():
    for text in ("(NN word)", "(TOP (NN word))"):
        assert list(trees.phrases(trees.parse_tree(text))) == []


def test_phrases_are_those_of_several_words_each_over_fewer_than_the_one_around():
    tree = trees.parse_tree(
        "(TOP (S (S (NP (NP (DT the) (NN cat)) (PP (IN of) (NP (NN joy)))) (VP (VBD sat))) (. .)))"
    )
    assert [str(phrase) for phrase in trees.phrases(tree)] == [
        "(TOP (S (NP (NP (DT the) (NN cat)) (PP (IN of) (NP (NN joy)))) (VP (VBD sat))))",
        "(TOP (NP (NP (DT the) (NN cat)) (PP (IN of) (NP (NN joy)))))",
        "(TOP (NP (DT the) (NN cat)))",
        "(TOP (PP (IN of) (NP (NN joy))))",
    ]


def test_linearizes_as_t2t(golden_trees):
    # T2T takes text that is no tree for one, and refuses a space before the last bracket.
    malformed = {"", "(TOP (S (A a) (B b)", "(TOP (S (A a b) (B c)))"}
    spaced = "(TOP (S (A a) (B b)) )"
    well_formed = [e for e in golden_trees if e["tree"] not in malformed | {spaced}]
    assert len(well_formed) == 158
    for entry in well_formed:
        words, symbols = linear_trees.linearize(trees.parse_tree(entry["tree"]))
        assert (" ".join(words), " ".join(symbols)) == (entry["inputs"], entry["targets"])
    for text in malformed:
        with pytest.raises(DataError):
            trees.parse_tree(text)
    assert linear_trees.linearize(trees.parse_tree(spaced)) == (["a", "b"], ["S", "A", "B", "/S"])


@pytest.mark.integration
@settings(deadline=None)
@given(normalised_trees)
def test_symbols_and_words_give_the_tree_back(tree):
    assert linear_trees.delinearize(*linear_trees.linearize(tree)) == (tree, 0)
    assert trees.parse_tree(str(tree)) == tree


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("(TOP (2 (2 very) (3 (3 good) (2 .))))", "2 2/ 3 3/ 2/ /3 /2"),
        ("(TOP (IP (IP (NN a) (VV b)) (IP c)))", "IP IP NN VV /IP IP/ /IP"),
        ("(TOP (A (A (A a) (A/ b)) (A// c)) (D d))", "A A A/ A// /A A/// /A D"),
        ("(TOP (S (A a)) (B (S/ b)))", "S A /S B S// /B"),
        ("(TOP (S (A a)) (B (T/ b)))", "S A /S B T/ /B"),
        (f"(TOP (S (S{'/' * DEEP} a)))", f"S S{'/' * DEEP}/ /S"),
    ],
)
def test_a_tag_that_is_also_a_label_in_the_tree_gets_a_slash(text, symbols):
    tree = trees.parse_tree(text)
    assert linear_trees.linearize(tree)[1] == symbols.split()
    assert linear_trees.delinearize(tree.words(), symbols.split()) == (tree, 0)


@settings(deadline=None)
@given(st.lists(tokens, min_size=1), st.lists(output_symbols))
def test_any_output_gives_a_tree_over_the_words(words, symbols):
    tree, repairs = linear_trees.delinearize(words, symbols)
    assert tree.label == "TOP"
    assert tree.words() == words
    assert all(node.children for node, _ in tree.walk())
    assert (repairs == 0) == (linear_trees.linearize(tree)[1] == symbols)
    printed = trees.parse_tree(str(tree))
    assert [w.replace("(", "-LRB-").replace(")", "-RRB-") for w in words] == printed.words()


@pytest.mark.integration
@settings(deadline=None)
@given(normalised_trees, st.data())
def test_one_lost_symbol_is_at_least_one_repair(tree, data):
    words, symbols = linear_trees.linearize(tree)
    del symbols[data.draw(st.integers(0, len(symbols) - 1))]
    repaired, repairs = linear_trees.delinearize(words, symbols)
    assert repaired.words() == words
    assert repairs > 0


@pytest.mark.parametrize(
    ("symbols", "repaired", "repairs"),
    [
        (
            "S NP NNP VP VBZ NP DT NN /NP /VP . /S",  # a closing symbol is missing
            "(TOP (S (NP (NNP John) (VP (VBZ has) (NP (DT a) (NN dog))) (. .))))",
            1,
        ),
        ("S NP NNP /NP VP VBZ NP DT NN /NP /VP . /S /S", SENTENCE, 1),
        ("S NP NNP /NP VP VBZ NP DT NN /VP /VP . /S", SENTENCE, 2),  # the first /VP closes NP too
        ("S NP NNP /NP VP VBZ NP DT NN /PP /VP . /S", SENTENCE, 1),  # a wrong label
        ("S NP NNP /NP VP VBZ NP DT NN /NP /VP . . /S", SENTENCE, 1),
        ("S NP NNP /NP PP /PP VP VBZ NP DT NN /NP /VP . /S", SENTENCE, 1),
        (
            "S NP NNP /NP VP VBZ NP DT /NP /VP . /S",  # a tag is missing
            "(TOP (S (NP (NNP John)) (VP (VBZ has) (NP (DT a))) (. dog)) (XX .))",
            1,
        ),
        (
            "S NP NNP /NP VP VBZ",  # cut short: S and VP are phrases although never closed
            "(TOP (S (NP (NNP John)) (VP (VBZ has)) (XX a) (XX dog) (XX .)))",
            5,
        ),
        (
            "S-ADV NP-SBJ",  # with function tags, and a phrase that stays empty
            "(TOP (S-ADV (XX John) (XX has) (XX a) (XX dog) (XX .)))",
            8,
        ),
        ("", "(TOP (XX John) (XX has) (XX a) (XX dog) (XX .))", 5),
    ],
)
def test_repairs(symbols, repaired, repairs):
    tree, count = linear_trees.delinearize(WORDS, symbols.split())
    assert count == repairs
    assert str(tree) == repaired


def test_well_formed_output_may_use_any_labels():
    # X is a phrase of the Penn Treebank, but a tag here: it is never closed.
    text = "(TOP (S (X a)) (S (Y b)))"
    symbols = ["S", "X", "/S", "S", "Y", "/S"]
    assert linear_trees.delinearize(["a", "b"], symbols) == (trees.parse_tree(text), 0)


def test_without_words_there_is_an_empty_tree():
    assert linear_trees.delinearize([], SYMBOLS) == (Tree("TOP", ()), 9)


@pytest.mark.slow
def test_every_tree_of_both_treebanks_survives_a_round_trip(treebank_folder):
    paths = sorted([*treebank_folder.rglob("*.mrg"), *treebank_folder.rglob("*.tree")])
    count = 0
    for raw in itertools.chain.from_iterable(map(trees.read_trees, paths)):
        tree = trees.normalise(raw)
        assert linear_trees.delinearize(*linear_trees.linearize(tree)) == (tree, 0)
        count += 1
    assert count == 3396 + 18_951 + 2780


def test_a_tree_that_is_never_closed_does_not_swallow_those_that_follow(tmp_path):
    path = tmp_path / "trees"
    path.write_text("(S (a b)\n  (c d)\n(S (e f))\n(S (g h)\n  (i j))\n")
    bad = BadInput(skip=True)
    assert [tree.words() for tree in trees.read_trees(path, bad)] == [["f"], ["h", "j"]]
    assert bad.skipped == 1
    with pytest.raises(DataError, match="trees, line 1: closing brackets missing"):
        list(trees.read_trees(path))


def test_a_tree_over_endless_lines_is_cut(monkeypatch):
    monkeypatch.setattr(trees, "MAX_LINE_BYTES", 1000)
    endless = ["((S", *["  (A a)"] * 10**6]
    with pytest.raises(DataError, match="f, line 1: closing brackets missing at the end: 2; add"):
        next(trees.trees_of_lines(endless, "f"))
