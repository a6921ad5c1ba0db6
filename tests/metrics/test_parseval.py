"""Bracketing scores are counted as EVALB counts them."""

import collections
import dataclasses
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.rounding import assert_close
from t2t_lite.errors import DataError
from t2t_lite.metrics.evalb_parameters import COLLINS, EvalbParameters
from t2t_lite.metrics.parseval import (
    SentenceScore,
    Status,
    bracketing_f1,
    parse_sentence,
    score_sentence,
    summarize,
)
from t2t_lite.text.trees import Tree, parse_tree

GOLD = "(TOP (S (NP (DT the) (NN dog)) (VP (VBD bit) (NP (PRP him))) (. .)))"


def score(gold: str, test: str, parameters: EvalbParameters = COLLINS) -> SentenceScore:
    return score_sentence(parse_sentence(gold), parse_sentence(test), parameters)


def parameters(**values) -> EvalbParameters:
    return EvalbParameters(**{name: frozenset(value) for name, value in values.items()})


def counts(result: SentenceScore) -> tuple[int, int, int, int]:
    return result.matched, result.gold_brackets, result.test_brackets, result.crossing


# ----------------------------------------------------------------------------- by hand


def test_identical_trees_score_100():
    summary = bracketing_f1([[parse_tree(GOLD)]] * 2, [[parse_tree(GOLD)]] * 2)
    assert (summary.recall, summary.precision, summary.f1) == (100, 100, 100)
    assert (summary.complete_match, summary.no_crossing, summary.tagging_accuracy) == (100,) * 3
    assert (summary.sentences, summary.valid, summary.words) == (2, 2, 8)  # without the full stops
    assert (summary.matched, summary.gold_brackets, summary.test_brackets) == (8, 8, 8)


def test_a_wrong_attachment_by_hand():
    gold = "(S (NP (N I)) (VP (V saw) (NP (D a) (N man)) (PP (P with) (NP (N hats)))))"
    test = "(S (NP (N I)) (VP (V saw) (NP (NP (D a) (N man)) (PP (P with) (NP (N hats))))))"
    assert counts(score(gold, test)) == (6, 6, 7, 0)  # one noun phrase too many
    # Gold: 0-3 and 3-5 under S. Test: 1-4, which overlaps both and counts once, and 2-5.
    gold = "(S (A (x a) (x b) (x c)) (B (x d) (x e)))"
    test = "(S (x a) (C (x b) (x c) (x d)) (x e))"
    assert counts(score(gold, test)) == (1, 3, 2, 1)
    assert counts(score(test, gold)) == (1, 2, 3, 2)


def test_averages_by_hand():
    crossing = SentenceScore(length=5, matched=1, gold_brackets=4, test_brackets=2, crossing=3)
    right = SentenceScore(length=2, matched=2, gold_brackets=2, test_brackets=2, words=4)
    wrong = [SentenceScore(length=3, status=status) for status in (Status.ERROR, Status.SKIPPED)]
    summary = summarize([crossing, right, dataclasses.replace(right, crossing=2), *wrong])
    assert summary.recall == 62.5
    assert (summary.sentences, summary.errors, summary.skipped, summary.valid) == (5, 1, 1, 3)
    expected = {
        "precision": 250 / 3,
        "f1": 100 * 2 * 5 / (8 + 6),
        "complete_match": 200 / 3,
        "average_crossing": 5 / 3,
        "no_crossing": 100 / 3,
        "two_or_less_crossing": 200 / 3,
        "tagging_accuracy": 0.0,
    }
    for name, value in expected.items():
        assert_close(getattr(summary, name), value, terms=6, dtype="float64", err_msg=name)


def test_nothing_right_is_0():
    assert score("(S (x a))", "(T (x a))").recall == 0
    assert summarize([]).f1 == 0
    assert bracketing_f1([[parse_tree("(S (x a))")]], [[parse_tree("(T (x a))")]]).f1 == 0


@pytest.mark.parametrize(
    ("gold", "test", "matched"),
    [
        ("(NP (NP (x a)))", "(NP (x a))", 1),
        ("(NP (x a))", "(NP (NP (NP (x a))))", 1),
        ("(NP (NP (x a)))", "(NP (NP (x a)))", 2),
        ("(NP (VP (x a)))", "(VP (NP (x a)))", 2),
    ],
)
def test_each_bracket_is_matched_once(gold: str, test: str, matched: int):
    assert score(gold, test).matched == matched


def test_function_tags_do_not_count_but_tags_stay_whole():
    result = score("(S (NP-SBJ-1 (-LRB- a)) (VP=2 (V b)))", "(S (NP (-RRB- a)) (VP-X (V b)))")
    assert counts(result) == (3, 3, 3, 0)
    assert result.correct_tags == 1


def test_unlabelled_scores_look_at_spans_alone():
    gold, test = "(S (A (x a)) (x b))", "(T (B (C (x a))) (x b))"
    assert counts(score(gold, test, EvalbParameters(labeled=False))) == (2, 2, 3, 0)
    assert counts(score(gold, test, EvalbParameters())) == (0, 2, 3, 0)


# ----------------------------------------------------------------------------- what is left out


def test_deleted_tags_take_the_word_and_empty_brackets_along():
    gold = "(S (NP (N a) (, ,) (N b)) (SBAR (-NONE- 0) (S (-NONE- *T*-1))) (. .))"
    result = score(gold, "(S (NP (N a) (N b)))")
    assert (result.status, counts(result)) == (Status.VALID, (2, 2, 2, 0))
    assert (result.words, result.length) == (2, 4)  # punctuation counts in the length


def test_deleted_phrase_labels_take_the_bracket_alone():
    assert counts(score("(TOP (S (x a)))", "(S (TOP (x a)))")) == (1, 1, 1, 0)
    assert counts(score("(TOP-X (S (x a)))", "(S (x a))")) == (1, 1, 1, 0)
    assert counts(score("(TOP (S (x a)))", "(S (x a))", EvalbParameters())) == (1, 2, 1, 0)


def test_labels_equal_to_a_deleted_one_are_deleted_as_phrases_only():
    settings = parameters(delete_labels=["TOP"], equal_labels=[("ROOT", "TOP")])
    assert counts(score("(ROOT (S (ROOT a)))", "(S (TOP b) (ROOT a))", settings)) == (1, 1, 1, 0)


def test_equal_labels_hold_for_phrases_and_tags_in_both_directions():
    for gold, test in (("ADVP", "PRT"), ("PRT", "ADVP")):
        result = score(f"({gold} ({gold} up))", f"({test} ({test} up))")
        assert (result.matched, result.correct_tags) == (1, 1)
        assert score(f"({gold} (R up))", f"({test} (R up))", EvalbParameters()).matched == 0


def test_equal_words():
    settings = parameters(equal_words=[("This", "this")])
    assert score("(S (x This))", "(S (x this))", settings).status is Status.VALID
    assert score("(S (x this))", "(S (x This))", settings).status is Status.VALID
    assert score("(S (x this))", "(S (x THIS))", settings).status is Status.ERROR


def test_quotes_that_one_side_leaves_out_are_kept():
    settings = dataclasses.replace(COLLINS, quote_labels=frozenset(["''", "POS"]))
    gold = "(S (NP (NP (N boys) (POS ')) (N toys)) (VP (V win)) ('' '))"
    test = "(S (NP (NP (N boys) ('' ')) (N toys)) (VP (V win)) ('' '))"
    for right, guess in ((gold, test), (test, gold)):
        result = score(right, guess, settings)
        assert counts(result) == (4, 4, 4, 0)
        assert (result.words, result.correct_tags) == (4, 3)  # boys ' toys win
        assert score(right, guess).error in ("Length unmatch (4|3)", "Length unmatch (3|4)")
    other_word = score(gold.replace("(POS ')", "(POS 's)"), test, settings)
    assert other_word.status is Status.ERROR


@pytest.mark.parametrize("between", ["", " (N c)"])
def test_each_quote_is_kept_once(between: str):
    settings = dataclasses.replace(COLLINS, quote_labels=frozenset(["''", "POS"]))
    gold = f"(S (X (N a) ('' \")){between} (Y ('' ') (N b)))"
    test = gold.replace("''", "POS")
    for right, guess in ((gold, test), (test, gold)):
        result = score(right, guess, settings)
        assert counts(result) == (3, 3, 3, 0)
        assert result.words == (5 if between else 4)


def test_quote_labels_hold_for_quotes_alone():
    settings = dataclasses.replace(COLLINS, quote_labels=frozenset([":", "N"]))
    assert score("(S (: ') (N a))", "(S (N ') (N a))", settings).status is Status.VALID
    assert score("(S (: x) (N a))", "(S (N x) (N a))", settings).error == "Length unmatch (1|2)"


# ----------------------------------------------------------------------------- unusable sentences


def test_different_words_are_an_error():
    result = score(GOLD, GOLD.replace("dog", "cat"))
    assert (result.status, result.error) == (Status.ERROR, "Words unmatch (dog|cat)")
    result = score(GOLD, GOLD.replace("(PRP him)", "(PRP him) (RB hard)"))
    assert (result.status, result.error) == (Status.ERROR, "Length unmatch (4|5)")
    assert counts(result) == (0, 0, 0, 0)
    assert result.length == 5
    assert score("", GOLD).error == "Length unmatch (0|4)"


@pytest.mark.parametrize("test", ["", " \r", "()", "(())", "(TOP (S))", "(. .)", "( () )"])
def test_no_words_are_skipped(test: str):
    for gold in (GOLD, ""):
        assert score(gold, test).status is Status.SKIPPED


def test_a_line_may_hold_several_brackets_some_without_label():
    sentence = parse_sentence("(A (x a)) (x b) ( (S (x c)))\r")
    assert [tree.words() for tree in sentence] == [["a"], ["b"], ["c"]]
    assert counts(score("((S (x a)))", "(S (x a))")) == (1, 2, 1, 0)
    assert counts(score("((S (x a)))", "( (S (x a)))")) == (2, 2, 2, 0)


@pytest.mark.parametrize("line", ["(S (x a)", "(S (x a)))", ")", ") (", "a", "(S (x a)) b"])
def test_malformed_lines(line: str):
    with pytest.raises(DataError):
        parse_sentence(line)


def test_deep_trees():
    deep = "(S " * 5000 + "(x a)" + ")" * 5000
    assert counts(score(deep, deep)) == (5000, 5000, 5000, 0)


def test_corpora_must_pair():
    sentence = parse_sentence(GOLD)
    with pytest.raises(DataError, match="1 trees to score but 2 gold trees"):
        bracketing_f1([sentence, sentence], [sentence])
    with pytest.raises(DataError, match="no trees"):
        bracketing_f1([], [])


# ----------------------------------------------------------------------------- parameter files


def test_collins_is_the_file(shared_data: pathlib.Path):
    assert EvalbParameters.read(shared_data / "evalb" / "COLLINS.prm") == COLLINS


def test_parameter_files(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture):
    path = tmp_path / "my.prm"
    path.write_text(
        "# comment\n\nMAX_ERROR 3\r\nCUTOFF_LEN   70 \nLABELED\t0\nDELETE_LABEL #\n"
        "DELETE_LABEL_FOR_LENGTH -NONE-\nQUOTE_LABEL ''\nDELETE_LABEL TOP\n"
        "EQ_LABEL A B\nEQ_WORD a b\nEQ_WORD c d\n"
    )
    assert EvalbParameters.read(path) == EvalbParameters(
        max_error=3,
        cutoff_length=70,
        labeled=False,
        delete_labels=frozenset(["#", "TOP"]),
        delete_labels_for_length=frozenset(["-NONE-"]),
        quote_labels=frozenset(["''"]),
        equal_labels=frozenset([("A", "B")]),
        equal_words=frozenset([("a", "b"), ("c", "d")]),
    )
    assert not caplog.messages
    path.write_text("DEBUG 1\n")
    assert EvalbParameters.read(path) == EvalbParameters()
    assert "DEBUG has no effect" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("DELETE_LABELS TOP", "unknown keyword 'DELETE_LABELS'; did you mean 'DELETE_LABEL'?"),
        ("DELETE_LABEL", "DELETE_LABEL takes 1 value, got 0"),
        ("DELETE_LABEL A B", "DELETE_LABEL takes 1 value, got 2"),
        ("EQ_LABEL ADVP", "EQ_LABEL takes 2 values, got 1"),
        ("MAX_ERROR ten", "MAX_ERROR takes a whole number, got 'ten'"),
        ("CUTOFF_LEN -1", "CUTOFF_LEN takes a whole number, got '-1'"),
    ],
)
def test_bad_parameter_lines(tmp_path: pathlib.Path, line: str, message: str):
    path = tmp_path / "my.prm"
    path.write_text(f"# comment\n{line}\n")
    with pytest.raises(DataError) as error:
        EvalbParameters.read(path)
    assert str(error.value) == f"{path}, line 2: {message}"


# ----------------------------------------------------------------------------- properties

PHRASES = ["S", "NP", "VP", "NP-SBJ", "TOP"]
TAGS = ["N", "V", ",", "-NONE-"]


@st.composite
def trees(draw: st.DrawFn, size: int) -> Tree:
    """A tree over the words 0, 1, ..., tagged by `TAGS` in turn."""
    spine: list[Tree] = [Tree(TAGS[word % len(TAGS)], (str(word),)) for word in range(size)]
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(spine) - 1))
        end = draw(st.integers(start + 1, len(spine)))
        spine[start:end] = [Tree(draw(st.sampled_from(PHRASES)), tuple(spine[start:end]))]
    return Tree("S", tuple(spine))


PAIRS = st.integers(1, 9).flatmap(lambda size: st.tuples(trees(size), trees(size)))


def spans(tree: Tree) -> list[tuple[str, frozenset[str]]]:
    """Every counted bracket as its label and the set of words below it, found by recursion."""
    children = [child for child in tree.children if isinstance(child, Tree)]
    below = [span for child in children for span in spans(child)]
    words = frozenset(
        node.word for node, _ in tree.walk() if node.word and node.label not in {",", "-NONE-"}
    )
    counted = children and words and tree.label != "TOP"
    return [(tree.label.removesuffix("-SBJ"), words), *below] if counted else below


@given(PAIRS)
def test_counts_equal_those_by_sets_of_words(pair: tuple[Tree, Tree]):
    result = score_sentence([pair[0]], [pair[1]], COLLINS)
    gold, test = map(spans, pair)
    common = collections.Counter(gold) & collections.Counter(test)
    crossing = [any(a & b and a - b and b - a for _, b in gold) for _, a in test]
    assert result.matched == common.total()
    assert (result.gold_brackets, result.test_brackets) == (len(gold), len(test))
    assert result.crossing == sum(crossing)


@given(PAIRS)
def test_precision_is_recall_the_other_way_round(pair: tuple[Tree, Tree]):
    forth, back = bracketing_f1([pair[:1]], [pair[1:]]), bracketing_f1([pair[1:]], [pair[:1]])
    assert (forth.precision, forth.recall) == (back.recall, back.precision)
    assert_close(forth.f1, back.f1, terms=6, dtype="float64")
    assert forth.complete_match == back.complete_match
    assert (forth.crossing == 0) == (back.crossing == 0)


@given(PAIRS)
def test_a_tree_matches_itself(pair: tuple[Tree, Tree]):
    result = score_sentence([pair[0]], [pair[0]], COLLINS)
    assert result.complete
    assert result.crossing == 0
