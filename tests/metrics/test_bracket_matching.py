"""Brackets are compared as by comparing each with each, but in time that many of them leave."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commands import exit_code
from support.growth import assert_grows_gently
from t2t_lite.bin import t2t_parseval
from t2t_lite.errors import DataError
from t2t_lite.metrics import parseval
from t2t_lite.metrics.bracket_matching import Bracket, count_crossing, count_matched
from t2t_lite.metrics.evalb_parameters import EvalbParameters
from t2t_lite.metrics.parseval import _Quote, parse_sentence, score_sentence
from t2t_lite.text import linear_trees, trees

WORDS = 12
MANY = 30_000


def _bracket(label: str, ends: tuple[int, int]) -> Bracket:
    return Bracket(label, min(ends), max(ends) + 1)


positions = st.integers(0, WORDS - 1)
sides = st.lists(
    st.builds(_bracket, st.sampled_from("ABC"), st.tuples(positions, positions)), max_size=15
)


@given(sides, sides)
def test_crossing_is_what_comparing_each_with_each_gives(right, guess):
    def crosses(one: Bracket, other: Bracket) -> bool:
        return (
            one.start < other.start < one.end < other.end
            or other.start < one.start < other.end < one.end
        )

    expected = sum(any(crosses(one, other) for other in right) for one in guess)
    assert count_crossing(right, guess, WORDS) == expected


@given(sides, sides, st.sampled_from([{}, {("A", "B")}, {("A", "B"), ("B", "C")}, None]))
def test_each_gold_bracket_takes_the_first_that_is_free(right, guess, pairs):
    parameters = EvalbParameters(labeled=pairs is not None, equal_labels=frozenset(pairs or ()))
    free = list(guess)
    expected = 0
    for label, *span in right:
        for other in free:
            same = not parameters.labeled or parameters.same_label(label, other.label)
            if same and span == [other.start, other.end]:
                free.remove(other)
                expected += 1
                break
    equals = parameters.equals if parameters.labeled else None
    assert count_matched(right, guess, equals) == expected


def _quotes_one_by_one(right, guess):
    in_right, in_guess = set(), set()
    for number, quote in enumerate(guess):
        position = quote.position + len(in_guess)
        for other_number, other in enumerate(right):
            if other_number in in_right or other.position + len(in_right) != position:
                continue
            if other.deleted and not quote.deleted:
                in_right.add(other_number)
                break
            if quote.deleted and not other.deleted:
                in_guess.add(number)
                break
    return in_right, in_guess


quotes = st.lists(st.builds(_Quote, st.integers(0, 4), st.booleans()), max_size=10).map(sorted)


@given(quotes, quotes)
def test_quotes_are_kept_as_by_comparing_each_with_each(right, guess):
    assert parseval._quotes_to_keep(right, guess) == _quotes_one_by_one(right, guess)


# ---- very many of them


def same(n: int) -> str:
    return "(S " * n + "(x a)" + ")" * n


def right(n: int) -> str:
    return "(S (x a) " * n + ")" * n


def left(n: int) -> str:
    return "(S " * n + " (x a))" * n


def quotes_and(n: int, end: str) -> str:
    return "(S (x a)" + "('' ')" * n + end


@pytest.mark.integration
@pytest.mark.parametrize(
    ("gold", "test", "counts"),
    [
        (same, same, (MANY, 0)),
        (right, left, (1, MANY - 2)),
    ],
    ids=["one in the other", "to the right and to the left"],
)
def test_many_nested_brackets_are_scored(gold, test, counts):
    def score_of(lines):
        return score_sentence(*map(parse_sentence, lines), EvalbParameters())

    score = score_of((gold(MANY), test(MANY)))
    assert (score.matched, score.crossing) == counts
    assert_grows_gently(lambda n: (gold(n), test(n)), score_of, MANY // 10)


@pytest.mark.parametrize("line", ["(" * MANY, ")" * MANY, "(S" * MANY, "(S (x a)" * MANY])
def test_many_brackets_that_do_not_pair_are_an_error(line):
    with pytest.raises(DataError) as caught:
        parse_sentence(line)
    assert len(str(caught.value)) < 200


@pytest.mark.integration
def test_many_quotes_are_scored():
    parameters = EvalbParameters(quote_labels=frozenset(["''"]), delete_labels=frozenset(["''"]))

    def sentences(n):
        return [parse_sentence(quotes_and(n, end)) for end in ("(x b))", "(x b) (x c))")]

    def score(both):
        return score_sentence(*both, parameters)

    assert score(sentences(20_000)).error == "Length unmatch (2|3)"
    assert_grows_gently(sentences, score, 2000)


# ---- parameter files


def test_many_settings_are_read(tmp_path):
    def written(n):
        path = tmp_path / f"{n}.prm"
        path.write_text("".join(f"EQ_WORD a{number} b\n" for number in range(n)))
        return path

    assert len(EvalbParameters.read(written(20_000)).equal_words) == 20_000
    assert_grows_gently(written, EvalbParameters.read, 2000)


@pytest.mark.parametrize("line", ["MAX_ERROR " + "9" * 5000, "X" * 10**6, "CUTOFF_LEN \u0663"])
def test_odd_settings_are_named(tmp_path, line):
    (tmp_path / "odd.prm").write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match=r"odd\.prm, line 1: ") as caught:
        EvalbParameters.read(tmp_path / "odd.prm")
    assert len(str(caught.value)) < 500


# ---- trees that data is generated from


def test_symbols_that_close_what_is_not_open_take_linear_time():
    def symbols(n):
        return ["S"] * n + ["/NP"] * n

    def delinearize(symbols):
        return linear_trees.delinearize(["a"], symbols)

    tree, repairs = delinearize(symbols(20_000))
    assert (tree.words(), repairs) == (["a"], 40_001)
    assert_grows_gently(symbols, delinearize, 2000)


@pytest.mark.integration
def test_phrases_of_a_deep_tree_take_linear_time():
    def count(tree):
        return sum(1 for _ in trees.phrases(tree))

    assert count(trees.parse_tree(right(20_000))) == 19_998
    assert_grows_gently(lambda n: trees.parse_tree(right(n)), count, 2000)


@pytest.mark.integration
def test_the_command_scores_and_refuses_deep_trees(tmp_path, capsys):
    deep, broken = tmp_path / "deep", tmp_path / "broken"
    deep.write_text(same(MANY) + "\n")
    broken.write_text(same(MANY)[:-1] + "\n")
    assert exit_code(t2t_parseval.main, f"--gold={deep}", f"--test={deep}") == 0
    assert f"{MANY}" in capsys.readouterr().out
    assert exit_code(t2t_parseval.main, f"--gold={deep}", f"--test={broken}") == 1
    message = f"{broken}, line 1: closing brackets missing at the end: 1; add them"
    assert message in capsys.readouterr().err
