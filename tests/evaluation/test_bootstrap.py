"""Paired bootstrap resampling: what must hold of its scores and p-values."""

import random

import pytest

from t2t_lite.data.problem import Output
from t2t_lite.errors import DataError
from t2t_lite.evaluation.bootstrap import paired_bootstrap
from t2t_lite.evaluation.metrics import score_outputs

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sees", "likes", "small", "big", "red", "and"]


def sentences(count: int = 60) -> list[str]:
    draw = random.Random(3)
    return [" ".join(draw.choices(WORDS, k=9)) for _ in range(count)]


def spoilt(lines: list[str], every: int) -> list[str]:
    """The lines with every so manieth word replaced."""
    return [
        " ".join("x" if (i + n) % every == 0 else word for n, word in enumerate(line.split()))
        for i, line in enumerate(lines)
    ]


def trees(count: int = 60, wrong: float = 0.0) -> list[str]:
    """Trees in which a share of the labels is wrong; they differ in nothing else."""
    shape, label = random.Random(4), random.Random(5)
    lines = []
    for _ in range(count):
        phrases = [
            f"({'XP' if label.random() < wrong else 'NP'} (NN {shape.choice(WORDS)}))"
            for _ in range(shape.randint(1, 5))
        ]
        lines.append(f"(S {' '.join(phrases)})")
    return lines


RIGHT = sentences()
CASES = [
    pytest.param("bleu", RIGHT, spoilt(RIGHT, 4), spoilt(RIGHT, 8), id="bleu"),
    pytest.param("bracketing_f1", trees(), trees(wrong=0.6), trees(wrong=0.2), id="f1"),
]


@pytest.mark.parametrize(("metric", "right", "bad", "good"), CASES)
def test_a_clear_difference_is_sure_and_the_scores_are_those_of_evaluation(
    metric, right, bad, good
):
    found = paired_bootstrap(metric, {"bad": bad, "good": good}, right)
    assert found["bad"].p_value is None
    assert found["good"].p_value < 0.01
    for name, outputs in (("bad", bad), ("good", good)):
        score = score_outputs(metric, [Output(text) for text in outputs], right).values[metric]
        assert found[name].score == pytest.approx(score, abs=1e-4)
        assert abs(found[name].mean - score) < found[name].half_width
    assert found["good"].score > found["bad"].score
    assert "bs:1000|seed:12345" in found["good"].signature


@pytest.mark.parametrize(("metric", "right", "bad", "good"), CASES)
def test_equal_outputs_do_not_differ_and_a_repetition_agrees(metric, right, bad, good):
    first = paired_bootstrap(metric, {"a": bad, "b": bad, "c": good}, right)
    assert first["b"].p_value == 1.0
    assert first["c"].p_value < 0.01
    assert paired_bootstrap(metric, {"a": bad, "b": bad, "c": good}, right) == first


def test_outputs_and_references_must_pair():
    with pytest.raises(DataError, match="b: 1 outputs but 2 references"):
        paired_bootstrap("bleu", {"a": ["x", "y"], "b": ["x"]}, ["x", "y"])
    with pytest.raises(DataError, match="a: 0 outputs but 0 references"):
        paired_bootstrap("bleu", {"a": [], "b": []}, [])
