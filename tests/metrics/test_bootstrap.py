"""Paired bootstrap resampling: what must hold of its scores and p-values."""

import random
import tracemalloc

import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from support.rounding import assert_close, relative_bound
from t2t_lite.data.problem import Output
from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import OutputMetric, Segment
from t2t_lite.metrics.bootstrap import BootstrapResult, resample
from t2t_lite.metrics.by_name import output_metric, score_outputs

WORDS = ["the", "a", "cat", "dog", "house", "tree", "sees", "likes", "small", "big", "red", "and"]


def compare(
    metric: str, systems: dict[str, list[str]], references: list[str]
) -> dict[str, BootstrapResult]:
    rows = {
        name: score_outputs(metric, [Output(text) for text in texts], references).statistics
        for name, texts in systems.items()
    }
    return resample(output_metric(metric), rows)


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
    found = compare(metric, {"bad": bad, "good": good}, right)
    assert found["bad"].p_value is None
    assert found["good"].p_value < 0.01
    for name, outputs in (("bad", bad), ("good", good)):
        score = score_outputs(metric, [Output(text) for text in outputs], right).values[metric]
        assert found[name].score == score
        assert abs(found[name].mean - score) < found[name].half_width
    assert found["good"].score > found["bad"].score
    assert "bs:1000|seed:12345" in found["good"].signature


@pytest.mark.parametrize(("metric", "right", "bad", "good"), CASES)
def test_equal_outputs_do_not_differ_and_a_repetition_agrees(metric, right, bad, good):
    first = compare(metric, {"a": bad, "b": bad, "c": good}, right)
    assert first["b"].p_value == 1.0
    assert first["c"].p_value < 0.01
    assert compare(metric, {"a": bad, "b": bad, "c": good}, right) == first


def damaged(seed: int, share: float) -> list[str]:
    draw = random.Random(seed)
    return [" ".join("x" if draw.random() < share else w for w in line.split()) for line in RIGHT]


# Recorded from sacreBLEU's PairedTest (2.6.0): score, mean, half of the interval, p-value.
RECORDED = {
    "bleu": [
        (52.16405371685424, 52.0967474978471, 7.201272422435807, None),
        (50.33613623451394, 50.244352195587936, 7.530635196421983, 0.24875124875124874),
        (57.94580220034791, 57.88461694066893, 6.416755440014747, 0.09490509490509491),
    ],
    "bracketing_f1": [
        (78.87931034482759, 78.93914712831395, 5.023219814241486, None),
        (75.43103448275862, 75.46279449399141, 5.453331785465522, 0.012987012987012988),
        (82.75862068965517, 82.81789441709464, 4.717736554117174, 0.000999000999000999),
    ],
}


@pytest.mark.parametrize(
    ("metric", "right", "systems"),
    [
        ("bleu", RIGHT, [damaged(1, 0.25), damaged(2, 0.25), damaged(3, 0.2)]),
        ("bracketing_f1", trees(), [trees(wrong=share) for share in (0.3, 0.34, 0.25)]),
    ],
)
def test_numbers_stay_what_they_were(metric, right, systems):
    found = compare(metric, dict(zip("abc", systems, strict=True)), right)
    for result, (score, mean, half_width, p_value) in zip(
        found.values(), RECORDED[metric], strict=True
    ):
        assert result.p_value == p_value
        assert result.score == pytest.approx(score, rel=relative_bound(10, "float64"))
        # NumPy 1 computes with Python's numbers and float32 in float64, NumPy 2 in float32.
        rounded = (result.mean, result.half_width)
        assert rounded == pytest.approx((mean, half_width), rel=relative_bound(1))


@pytest.mark.parametrize("metric", ["chrf", "chrf_plus_plus", "ter"])
def test_sacrebleus_own_test_agrees(metric):
    """A third metric was scored as bracketing F1."""
    counter = {"chrf": CHRF(), "chrf_plus_plus": CHRF(word_order=2), "ter": TER()}[metric]
    systems = {"a": damaged(1, 0.25), "b": damaged(2, 0.25)}
    found = compare(metric, systems, RIGHT)
    test = PairedTest(list(systems.items()), {metric: counter}, [RIGHT], "bs", 1000)
    ((_, signature),), scores = test()[0].items(), test()[1]
    expected = next(results for name, results in scores.items() if name != "System")
    for ours, theirs in zip(found.values(), expected, strict=True):
        assert ours.signature == str(signature)
        numbers = (ours.score, ours.mean, ours.half_width)
        # SacreBLEU adds up the lines in float32.
        assert_close(numbers, (theirs.score, theirs.mean, theirs.ci), terms=len(RIGHT) + 10)
        assert ours.p_value == theirs.p_value


@pytest.mark.parametrize(("seed", "shown"), [("7", "seed:7|"), ("none", "seed:none|")])
def test_the_seed_can_be_set(monkeypatch, seed, shown):
    monkeypatch.setenv("SACREBLEU_SEED", seed)
    found = compare("bleu", {"a": damaged(1, 0.25), "b": damaged(2, 0.25)}, RIGHT)
    assert shown in found["b"].signature
    assert found["b"].mean != RECORDED["bleu"][1][1]


def test_an_invalid_seed(monkeypatch):
    monkeypatch.setenv("SACREBLEU_SEED", "x")
    with pytest.raises(UsageError, match="SACREBLEU_SEED='x': expected a whole number"):
        compare("bleu", {"a": ["x"], "b": ["y"]}, ["z"])


class Deviation(OutputMetric):
    """The mean of large numbers, less what they have in common: float32 would lose the rest."""

    def statistics(self, segments):
        return [(1e9 + len(segment.output), 1.0) for segment in segments]

    def score(self, totals):
        return float(totals[0] / totals[1] - 1e9)


def test_sums_of_large_numbers_keep_their_digits():
    metric = Deviation("deviation")
    rows = metric.statistics([Segment("", "x" * (n % 7), "") for n in range(60)])
    found = resample(metric, {"a": rows})["a"]
    assert abs(found.mean - found.score) < found.half_width < 1
    assert found.metric == "deviation"


class Counted(OutputMetric):
    """The share of what is right, of the segments that count."""

    def statistics(self, segments):
        raise NotImplementedError


@pytest.mark.parametrize("right", [3, 0])
def test_samples_without_a_segment_that_counts_are_left_out(right):
    """Of 1,000 lines with 3 that count, every twentieth sample has none of these."""
    rows = [(0, 0)] * 997 + [(1, 1)] * right + [(0, 1)] * (3 - right)
    other = [(0, 0)] * 997 + [(0, 1)] * 3
    found = resample(Counted("counted"), {"a": rows, "b": other})
    assert (found["a"].mean, found["a"].half_width) == (100.0 * right / 3, 0.0)
    assert found["b"].p_value == 1.0 if not right else 1 / 1001 < found["b"].p_value < 1 / 900


def test_a_test_set_with_nothing_that_counts_has_a_score():
    found = resample(Counted("counted"), {"a": [(0, 0)] * 5, "b": [(0, 0)] * 5})
    assert (found["a"].mean, found["b"].p_value) == (0.0, 1.0)


@pytest.mark.parametrize("width", [1, 2])
def test_a_score_of_sums_may_be_zero_in_a_sample(width):
    class Errors(Counted):
        def score(self, totals):
            return totals[0]

    rows = [(0,) * width] * 9 + [(1, 0)[:width]]
    assert resample(Errors("errors"), {"a": rows})["a"].mean == pytest.approx(1.0, abs=0.1)


def test_lines_without_text_count_as_in_sacrebleus_own_test():
    references = ["the cat sees a dog", "", ""]
    systems = {"a": references, "b": ["x"] * 3}
    found = compare("bleu", systems, references)["a"]
    test = PairedTest(list(systems.items()), {"bleu": BLEU()}, [references], "bs", 1000)
    expected = test()[1]["BLEU"][0]
    assert_close((found.mean, found.half_width), (expected.mean, expected.ci), terms=1000)


def test_memory_does_not_grow_with_the_number_of_samples():
    rows = [(1.0, 2.0)] * 20_000
    tracemalloc.start()
    try:
        resample(Counted("counted"), {"a": rows})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1000 * len(rows) * 8 / 10, "all samples at once would be ten times as much"
