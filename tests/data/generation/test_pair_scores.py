"""Scores of pairs: their files, the rules that read them, and the data that is made with them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import write_lines
from t2t_lite import registry
from t2t_lite.data.generation.cleaning import Cleaner, CleaningRules
from t2t_lite.data.generation.config import DatagenOptions
from t2t_lite.data.generation.generator import generate_data, read_samples
from t2t_lite.data.generation.pair_scores import PairScores
from t2t_lite.data.generation.report import report
from t2t_lite.errors import DataError, UsageError, UserError

PROBLEM = "text2text_tmpdir"
SCORES = [0.5, 0.1, 0.9, 0.3, 0.7]


@pytest.fixture
def raw(tmp_path):
    """Five pairs to train on, and their scores."""
    folder = tmp_path / "raw"
    folder.mkdir()
    for side in ("inputs", "targets"):
        write_lines(folder / f"{side}.train.txt", [f"pair {side} {number}" for number in range(5)])
        write_lines(folder / f"{side}.eval.txt", [f"other {side}"])
    write_lines(folder / "scores", map(str, SCORES))
    return folder


def options(raw, clean, **changes):
    return DatagenOptions(clean=clean, pair_scores=str(raw / "scores"), num_workers=1, **changes)


def kept(raw, clean, **changes):
    """Returns the numbers of the pairs that are kept."""
    problem = registry.problem(PROBLEM)
    found = read_samples(problem, "", str(raw), "train", options(raw, clean, **changes))
    return [int(sample["inputs"].split()[-1]) for sample in found]


@pytest.mark.parametrize(
    ("clean", "numbers"),
    [
        ("min_score=0.5", [0, 2, 4]),
        ("min_score=-inf", [0, 1, 2, 3, 4]),
        ("best_share=0.6", [0, 2, 4]),
        ("best_share=0.4", [2, 4]),
        ("best_share=0.01", [2]),
        ("best_share=1", [0, 1, 2, 3, 4]),
        ("best_share=0.8,min_score=0.6", [2, 4]),
        ("duplicates,best_share=0.8", [0, 2, 3, 4]),
    ],
)
def test_the_pairs_that_rules_keep(raw, clean, numbers):
    assert kept(raw, clean) == numbers


def test_a_score_belongs_to_its_pair_whatever_other_rules_drop(raw):
    lines = [f"{'word ' * (1 + 9 * (number == 2))}{number}" for number in range(5)]
    write_lines(raw / "inputs.train.txt", lines)
    assert kept(raw, "max_length=5,best_share=0.6") == [0, 4]  # 2 has the best score


def test_a_score_of_0_is_a_threshold(raw):
    write_lines(raw / "scores", ["0", "-1", "1", "-0.5", "0.0"])
    assert CleaningRules.parse("min_score=0").active == ["min_score"]
    assert kept(raw, "min_score=0") == [0, 2, 4]


_SCORES = st.lists(st.sampled_from([0.0, 0.25, 1.0, 2.0, -math.inf]), min_size=1, max_size=30)


@given(scores=_SCORES, share=st.floats(0, 1, exclude_min=True))
def test_the_best_share_by_brute_force(tmp_path_factory, scores, share):
    path = write_lines(tmp_path_factory.getbasetemp() / "shared_scores", map(str, scores))
    rules = CleaningRules.parse(f"best_share={share}")
    cleaner = Cleaner(rules, PairScores(str(path)))
    pair = {"inputs": "a", "targets": "b"}
    found = [score for score in scores if cleaner.keeps(pair)]
    count = max(1, round(share * len(scores)))
    least = sorted(scores, reverse=True)[count - 1]
    # Equal scores are kept together: as many as asked for, or more.
    assert cleaner.kept == sum(score >= least for score in scores) >= count
    assert len(found) == cleaner.kept
    assert cleaner.dropped == {"best_share": len(scores) - cleaner.kept}


def test_counts_are_by_rule(raw):
    problem = registry.problem(PROBLEM)
    blocks = report(problem, "", str(raw), options(raw, "min_score=0.2,best_share=0.6"), None)
    (table,) = [block for block in blocks if "min_score" in block]
    rows = [line.split() for line in table.splitlines()]
    assert rows[0] == ["corpus", "pairs", "min_score", "best_share", "kept"]
    assert rows[-1][-4:] == ["5", "1", "1", "3"]


@pytest.mark.parametrize(("count", "kind"), [(4, "fewer"), (6, "more")])
def test_scores_of_another_text_are_an_error(raw, count, kind):
    write_lines(raw / "scores", ["0.5"] * count)
    message = rf"scores has {kind} lines than the training text has pairs: .* held out as dev split"
    with pytest.raises(DataError, match=message):
        kept(raw, "min_score=0")
    blocks = report(registry.problem(PROBLEM), "", str(raw), options(raw, "min_score=0"), None)
    with pytest.raises(DataError, match=message):
        list(blocks)


def test_a_trial_reads_the_first_scores_alone(raw):
    assert kept(raw, "best_share=0.6", max_cases=3) == [0, 2]


@pytest.mark.parametrize(
    ("line", "shown"), [("good", "good"), ("nan", "nan"), ("1_0", "1_0"), ("", "''")]
)
def test_a_line_that_is_no_number_is_named(raw, line, shown):
    write_lines(raw / "scores", ["0.5", line, "0.5", "0.5", "0.5"])
    with pytest.raises(DataError, match=rf"scores, line 2: expected a number, got .*{shown}"):
        kept(raw, "min_score=0")


def test_a_file_without_scores(raw):
    write_lines(raw / "scores", [])
    with pytest.raises(DataError, match="scores has no scores"):
        kept(raw, "min_score=0")


@pytest.mark.parametrize(
    ("clean", "scores", "message"),
    [
        ("min_score=1", "", "--pair_scores, and min_score or best_share in --clean, need each"),
        ("best_share=1", "", "give both"),
        ("duplicates", "x", "give both"),
        ("best_share=0", "x", "best_share=0.0: above 0 and at most 1 is needed"),
        ("best_share=1.5", "x", "best_share=1.5: above 0"),
        ("best_share=nan", "x", "best_share=nan: above 0"),
        ("min_score=nan", "x", "min_score=nan: a number is needed"),
        ("best_share", "x", "write best_share=VALUE"),
    ],
)
def test_refusals(clean, scores, message):
    with pytest.raises(UsageError, match=message):
        DatagenOptions(clean=clean, pair_scores=scores)


def test_a_mixture_has_no_file_of_scores(raw):
    mixture = registry.problem(f"{PROBLEM}_bpe+{PROBLEM}_bpe_rev")
    with pytest.raises(UsageError, match="has several problems, of which a file of scores cannot"):
        generate_data(mixture, str(raw.parent / "data"), str(raw), options(raw, "min_score=0"))


def test_data_of_other_scores_is_refused(raw, few_shards):
    problem, data = registry.problem(PROBLEM), raw.parent / "data"
    generate_data(problem, str(data), str(raw), options(raw, "best_share=0.6"))
    generate_data(problem, str(data), str(raw), options(raw, "best_share=0.60"))
    (raw / "scores").rename(raw / "moved")
    moved = DatagenOptions(clean="best_share=0.6", pair_scores=str(raw / "moved"), num_workers=1)
    generate_data(problem, str(data), str(raw), moved)
    write_lines(raw / "moved", map(str, SCORES[::-1]))
    with pytest.raises(UserError, match="pair_scores: "):
        generate_data(problem, str(data), str(raw), moved)
