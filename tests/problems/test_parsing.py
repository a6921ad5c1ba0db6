import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite import registry
from t2t_lite.data import records
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import check_options, generate_data, read_samples
from t2t_lite.errors import DataError, UsageError, UserError
from t2t_lite.text import trees
from t2t_lite.text.bad_input import BadInput

TREE = "(TOP (S (NP (DT a) (NN dog)) (VP (VBZ runs))))"
SYMBOLS = "S NP DT NN /NP VP VBZ /VP /S"


def samples(name, tmp_dir, split):
    return list(registry.problem(name).generate_samples("", str(tmp_dir), split))


# ---- wsj_parsing


def test_wsj_parsing_takes_the_trees_as_they_are(tmp_path):
    (tmp_path / "wsjTrain.trees").write_text(f"{TREE}\n(TOP (NP-SBJ (-NONE- *)))\n")
    (tmp_path / "wsjEval.trees").write_text(f"{TREE}\n")
    assert samples("wsj_parsing", tmp_path, "train") == [
        {"inputs": "a dog runs", "targets": SYMBOLS},
        {"inputs": "*", "targets": "NP-SBJ -NONE- /NP-SBJ"},
    ]
    problem = registry.problem("wsj_parsing")
    data_dir = tmp_path / "data"
    generate_data(problem, str(data_dir), str(tmp_path))
    assert problem.vocab_files() == ["vocab.wsj_parsing.32768.subwords"]
    assert len(list(data_dir.glob("wsj_parsing-train-*-of-00100"))) == 100
    (example,) = records.read_examples(problem.existing_filepaths(str(data_dir), "eval"))
    encoders = problem.get_feature_encoders(str(data_dir))
    assert encoders["inputs"].decode(example["inputs"]) == "a dog runs"
    assert encoders["targets"].decode(example["targets"]) == SYMBOLS


def test_wsj_parsing_builds_its_vocabulary_from_t2ts_first_1000_pairs(tmp_path):
    with (tmp_path / "wsjTrain.trees").open("w") as file:
        file.writelines(f"(TOP (NP (NN w{i})))\n" for i in range(1001))
    problem = registry.problem("wsj_parsing")
    text = list(problem.generate_text_for_vocab("", str(tmp_path)))
    assert text[:2] == ["w0", "NP NN /NP"]
    assert text[-2:] == ["w999", "NP NN /NP"]


def test_cleaning_counts_the_words_of_sentences_alone(tmp_path):
    long = f"(TOP (S {'(NN w)' * 4}))"
    (tmp_path / "wsjTrain.trees").write_text(f"{TREE}\n{long}\n")
    problem = registry.problem("wsj_parsing")
    options = DatagenOptions(clean="max_length=3")
    (sample,) = read_samples(problem, "", str(tmp_path), "train", options)
    assert sample["inputs"] == "a dog runs"
    with pytest.raises(
        UsageError, match=r"max_ratio would compare .* tree, which 'wsj_parsing' has"
    ):
        check_options(problem, DatagenOptions(clean="max_ratio=3"))


def test_a_bad_tree_is_named_by_file_and_line(tmp_path):
    (tmp_path / "wsjEval.trees").write_text(f"{TREE}\n{TREE[:-1]}\n")
    with pytest.raises(DataError, match=r"wsjEval\.trees, line 2: closing brackets missing"):
        samples("wsj_parsing", tmp_path, "eval")


@pytest.mark.parametrize(
    ("name", "file", "line"),
    [
        ("wsj_parsing", "wsjEval.trees", "(TOP (S (/S a) (B b)))"),
        ("wsj_parsing", "wsjEval.trees", "(NN dogs)"),  # the outermost bracket is not learned
        ("parsing_tmpdir_16k", "eval.trees", "(ROOT (S (/S a) (B b)))"),
        ("parsing_tmpdir_16k", "eval.trees", "(ROOT (N (N/ (A a)) (N b)))"),
    ],
)
def test_a_tree_that_does_not_survive_a_round_trip_is_named(tmp_path, name, file, line):
    (tmp_path / file).write_text(f"{TREE}\n\n{line}\n")
    with pytest.raises(DataError, match=rf"{file}, line 3: another tree comes back .*rename"):
        samples(name, tmp_path, "eval")
    problem = registry.problem(name)
    problem.bad_input = BadInput(skip=True)
    assert len(list(problem.trees(str(tmp_path), "eval"))) == 1


def test_the_outermost_label_is_top_in_every_form_of_trees():
    class Rooted(type(registry.problem("parsing_tmpdir_16k"))):
        def normalise(self, tree):
            return trees.Tree("ROOT", super().normalise(tree).children)

    with pytest.raises(DataError, match=r"'\(ROOT \(A a\)\)' becomes '\(TOP \(A a\)\)'"):
        Rooted().learned(trees.parse_tree("(A a)"))


@pytest.mark.parametrize("name", ["wsj_parsing", "parsing_tmpdir_16k"])
def test_references_are_the_trees_where_tags_are_also_labels(tmp_path, name):
    text = "(TOP (2 (3 (2 quite) (3 nice)) (2 .)))"
    (tmp_path / f"{'wsjEval' if name == 'wsj_parsing' else 'eval'}.trees").write_text(f"{text}\n")
    (sample,) = samples(name, tmp_path, "eval")
    problem = registry.problem(name)
    assert problem.postprocess(sample["inputs"], sample["targets"]) == (text, 0)
    assert problem.reference("quite nice .", text) == text


def test_wsj_parsing_misses_a_file_before_it_makes_anything(tmp_path):
    (tmp_path / "wsjTrain.trees").write_text("(TOP (S (NN dogs)))\n")
    with pytest.raises(UserError, match=r"wsjEval\.trees is missing"):
        generate_data(registry.problem("wsj_parsing"), str(tmp_path / "data"), str(tmp_path))
    assert not list(tmp_path.glob("data/*-of-*"))


@pytest.mark.parametrize("name", ["wsj_parsing", "parsing_tmpdir_16k", "wsj_parsing_rev"])
def test_lines_that_nobody_sees_are_empty_sources(name):
    problem = registry.problem(name)
    assert [problem.source(line) for line in ("", " \t", "\u200b", "\ufeff \u2800")] == [""] * 4
    assert problem.source("a \u200b (") == "a \u200b -LRB-"


# ---- outputs

SYMBOL = (
    st.sampled_from(["S", "/S", "NP", "/NP", "NN", "/", "(", ")", "-NONE-", "\u2009"]) | st.text()
)


@given(st.text().filter(trees.split_words), st.lists(SYMBOL).map(" ".join))
def test_any_output_of_a_model_is_shown_as_a_tree_over_the_words(source, target):
    shown = registry.problem("parsing_craft").postprocess(source, target).text
    assert not set(shown) & set("\n\r\t")
    escaped = source.replace("(", "-LRB-").replace(")", "-RRB-")
    assert trees.parse_tree(shown).words() == trees.split_words(escaped)


@pytest.mark.parametrize("name", ["wsj_parsing", "parsing_treebank_sample"])
def test_right_symbols_are_shown_as_their_tree_without_repairs(name):
    problem = registry.problem(name)
    assert problem.metrics == ("bracketing_f1",)
    assert problem.postprocess("a dog runs", SYMBOLS) == (TREE, 0)
    assert problem.postprocess("a dog runs", SYMBOLS.removesuffix(" /S")) == (TREE, 1)


@pytest.mark.parametrize("form", ["_rev", "_copy", "_rev_copy"])
def test_other_forms_of_parsing_are_plain_text(form):
    problem = registry.problem(f"wsj_parsing{form}")
    assert problem.metrics == ("bleu",)
    assert problem.postprocess("a", "b (") == ("b (", 0)
    assert problem.reference("a", "b (") == "b ("


def test_a_reference_is_normalised_as_the_problem_does():
    line = "(ROOT (S-1 (NP-SBJ (DT a) (NN dog)) (VP (VBZ runs) (NP (-NONE- *)))))"
    assert registry.problem("parsing_wsj_16k").reference(" a  dog runs", line) == TREE
    as_it_is = line.replace("ROOT", "TOP")
    assert registry.problem("wsj_parsing").reference("a dog runs *", line) == as_it_is
    assert registry.problem("parsing_craft").reference(" ", "") == ""


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("a cat runs", TREE, "word 2 is 'dog' in the tree but 'cat' in the sentence"),
        ("a dog", TREE, "word 3 is 'runs' in the tree but '' in the sentence"),
        ("a dog runs .", TREE, r"word 4 is '' in the tree but '\.' in the sentence"),
        ("a\u2009dog runs", TREE, "word 1 is 'a' in the tree but 'a\\\\u2009dog' in"),
        ("", TREE, "word 1 is 'a' in the tree but '' in the sentence"),
        ("a dog runs", "", "expected one tree, got 0"),
        ("a dog runs", TREE[:-1], "closing brackets missing"),
        ("a dog runs", "(S (-NONE- *))", "without words"),
        ("a dog runs", f"{TREE[:-1]} (NP))", r"bracket '\(NP\)' lacks a word or a tag"),
    ],
)
def test_a_reference_other_than_a_tree_of_the_sentence_is_refused(source, line, message):
    with pytest.raises(DataError, match=message):
        registry.problem("parsing_craft").reference(source, line)


# ---- what is missing


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("wsj_parsing", r"wsjTrain\.trees is missing; it should contain bracketed trees"),
        ("parsing_wsj_16k", r"no files wsj_02NN\.mrg, .*; put the Penn Treebank's folder"),
        ("parsing_wsj_semi_32k", r"no extra sentences there; put them there as extra\*\.trees, or"),
        ("parsing_tmpdir_16k", r"train\.trees is missing; it should contain bracketed trees"),
        ("parsing_treebank_sample", r"no files wsj_00NN\.mrg, .*; put NLTK's folder"),
        ("parsing_craft", r"craft-treebank-penn-train\.tgz is missing; it should contain"),
    ],
)
def test_missing_files_are_named_before_anything_is_written(tmp_path, name, message):
    with pytest.raises(UserError, match=message):
        generate_data(registry.problem(name), str(tmp_path / "data"), str(tmp_path))
    written = {path.name for path in (tmp_path / "data").glob("*")}
    assert written <= {f"{name}.fingerprint.json"}
