import functools
import importlib.util

import pytest

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.errors import UserError
from t2t_lite.metrics.by_name import score_by_metrics

pytest.importorskip("rouge_score")

NAMES = ("rouge_1", "rouge_2", "rouge_l")
REFERENCE = "The cat sat on the mat."


# Precision, recall, their harmonic mean, and a mean over the lines.
assert_f1 = functools.partial(assert_close, terms=10, dtype="float64")


def rouge(output: str, *others: str) -> list[float]:
    outputs = [Output(text) for text in (output, *others)]
    scores = score_by_metrics(NAMES, outputs, [REFERENCE] * len(outputs))
    return [scores[name].values[name] for name in NAMES]


def test_by_hand():
    # 5 of 5 words and 5 of 6; 3 of 4 pairs and 3 of 5; a sequence of 5 words.
    first = rouge("the cat on the mat")
    assert_f1(first, [100 * 10 / 11, 100 * 2 / 3, 100 * 10 / 11])
    assert rouge("") == [0, 0, 0]
    averages = [(score + 100) / 3 for score in first]
    assert_f1(rouge("the cat on the mat", "", REFERENCE), averages)


def test_order_matters_to_pairs_and_sequences_and_stems_are_equal():
    assert_f1(rouge("mats the on sitting cats the"), [100 * 5 / 6, 0, 50])


def test_the_signature_names_the_program():
    score = score_by_metrics(["rouge_l"], [Output("a")], ["a"])["rouge_l"]
    assert score.report.startswith("ROUGE-L = 100.00\n")
    assert "nrefs:1|rougeL|stem:porter|version:rouge-score-0.1" in score.report
    assert score.values["rouge_l_signature"] in score.report


def test_the_extra_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"^metric 'rouge_2' needs .*'\.\[rouge\]'$"):
        registry.metric("rouge_2").check()


def test_references_in_other_scripts_are_reported(caplog):
    references = ["Кот сидит на ковре, 2024.", "ഇത് ഒരു പൂച്ച", "Le café est fermé.", ""]
    score_by_metrics(["rouge_2"], [Output(text) for text in references], references)
    [record] = caplog.records
    assert record.getMessage() == (
        "ROUGE-2: 2 of 4 references are mostly in other letters than a to z, which rouge-score "
        "passes over; use chrf"
    )
    caplog.clear()
    score_by_metrics(NAMES, [Output("कुत्ता")], ["The dog of 京都"])
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "references", "count"),
    [
        ("rouge_1", ["…", "Yes.", "🎈🎈 !"], "2 of 3"),
        ("rouge_2", ["Berlin", "", "two words"], "1 of 2"),
        ("rouge_l", ["?"], "1 of 1"),
    ],
)
def test_references_that_score_0_against_themselves_are_reported(caplog, name, references, count):
    score_by_metrics([name], [Output(text) for text in references], references)
    [record] = caplog.records
    assert f": {count} references have too few words" in record.getMessage()
