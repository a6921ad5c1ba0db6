"""What every metric of outputs must keep, and what the built-in ones count."""

import json
import math
import subprocess
import sys

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_ter import TercomTokenizer
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from support.registries import restored
from support.rounding import assert_close, relative_bound
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.base import (
    OutputMetric,
    Segment,
    TeacherForcedMetric,
    TeacherForcedTotals,
    add_up,
)
from t2t_lite.metrics.bleu import corpus_bleu
from t2t_lite.metrics.by_name import (
    evaluation_values,
    output_metric,
    score_by_metrics,
    score_outputs,
    teacher_forced_values,
)

REFERENCES = [
    "The commission said on Monday that it would not change its mind.",
    "“We don't know,” he added; the state-of-the-art systems cost $3,500.50 (or more).",
    "Das Wetter in Köln wird am 24. Dezember wechselhaft, bei 7 °C.",
    "No.",
    "我们在看一本书。",
]
OUTPUTS = [
    "On Monday the commission said it would not change its opinion.",
    '"We do not know," he added, state of the art systems cost $3,500 (or more).',
    "Das Wetter in Köln wird am 24. Dezember wechselhaft bei 7 °C.",
    "",
    "我们看了一本书。",
]
TREES = ["(S (NP (NN a) (NN b)) (VP (VB c)))", "(S (NP (NN a)) (VP (VB c)))", "(S (NN a))", ""]

SACREBLEU = {
    "bleu": sacrebleu.BLEU,
    "bleu_zh": lambda: sacrebleu.BLEU(tokenize="zh"),
    "chrf": sacrebleu.CHRF,
    "chrf_plus_plus": lambda: sacrebleu.CHRF(word_order=2),
    "ter": sacrebleu.TER,
}


@pytest.mark.parametrize("metric", SACREBLEU)
def test_scores_and_signatures_are_sacrebleus(metric):
    theirs = SACREBLEU[metric]()
    expected = theirs.corpus_score(OUTPUTS, [REFERENCES]).score
    found = score_outputs(metric, [Output(text) for text in OUTPUTS], REFERENCES)
    assert found.values == {metric: expected, f"{metric}_signature": str(theirs.get_signature())}
    assert f" = {expected:6.2f}\n" in found.report
    assert found.report.endswith(f"signature: {theirs.get_signature()}")


@pytest.mark.integration
def test_scores_are_those_of_sacrebleus_command(tmp_path):
    for name, lines in (("out", OUTPUTS), ("ref", REFERENCES)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = [sys.executable, "-m", "sacrebleu", "ref", "-i", "out", "-w", "10", "--chrf-word-order"]
    words += ["2", "-m", "bleu", "chrf", "ter"]
    printed = subprocess.run(words, cwd=tmp_path, capture_output=True, check=True).stdout
    expected = {score["name"]: score["score"] for score in json.loads(printed)}
    outputs = [Output(text) for text in OUTPUTS]
    for metric, name in (("bleu", "BLEU"), ("chrf_plus_plus", "chrF2++"), ("ter", "TER")):
        found = score_outputs(metric, outputs, REFERENCES).values[metric]
        # Ten decimals are printed.
        assert found == pytest.approx(
            expected[name], abs=0.5e-10 + found * relative_bound(100, "float64")
        )


WORDS = st.lists(st.sampled_from(["a", "the", "cat", "dog.", "24", "Köln"]), max_size=7)
TEXTS = WORDS.map(" ".join)
PAIRS = st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6)
TREE_PAIRS = st.lists(
    st.tuples(st.sampled_from(TREES), st.sampled_from(TREES)), min_size=1, max_size=6
)


@pytest.mark.parametrize(
    "metric",
    [
        "bleu",
        "bleu_zh",
        "chrf",
        "chrf_plus_plus",
        "ter",
        "exact_match",
        "token_accuracy",
        "numbers_exact",
    ],
)
@settings(max_examples=25)
@given(pairs=PAIRS)
def test_the_statistics_of_segments_make_the_score(metric, pairs):
    assert_statistics_make_the_score(metric, pairs)


@settings(max_examples=25)
@given(pairs=TREE_PAIRS)
def test_the_statistics_of_trees_make_the_score(pairs):
    assert_statistics_make_the_score("bracketing_f1", pairs)


def assert_statistics_make_the_score(metric, pairs):
    outputs, references = [Output(output) for output, _ in pairs], [right for _, right in pairs]
    found = score_outputs(metric, outputs, references)
    counter = output_metric(metric)
    one_by_one = [
        row for output, right in pairs for row in counter.statistics([Segment("", output, right)])
    ]
    assert [tuple(row) for row in one_by_one] == [tuple(row) for row in found.statistics]
    terms = len(pairs) + 20  # a sum over the lines, and the operations of a score
    if metric in SACREBLEU:
        expected = SACREBLEU[metric]().corpus_score([o.text for o in outputs], [references]).score
        assert_close(found.values[metric], expected, terms, dtype="float64")
    assert_close(counter.score(add_up(one_by_one)), found.values[metric], terms, dtype="float64")


def test_no_line_is_kept():
    for metric, tokenizer in (("ter", TercomTokenizer), ("bleu_zh", TokenizerZh)):
        score_outputs(metric, [Output("a line to forget")], ["a line"])
        assert tokenizer.__call__.cache_info().currsize == 0


def test_chinese_characters_count_as_words():
    scores = score_by_metrics(
        ["bleu", "bleu_zh"], [Output("我们看了一本书。")], ["我们在看一本书。"]
    )
    assert scores["bleu"].values["bleu"] == 0
    assert scores["bleu_zh"].values["bleu_zh"] > 30
    assert "|tok:zh|" in scores["bleu_zh"].report


def test_labels_of_metrics_are_unique():
    names = [name for name, cls in registry.metrics().items() if issubclass(cls, OutputMetric)]
    found = [output_metric(name) for name in names if not registry.metrics()[name].argument]
    assert len({metric.title for metric in found}) == len(found)
    assert len({metric.label or metric.title for metric in found}) == len(found)


@pytest.mark.parametrize(
    ("metric", "references", "caution"),
    [
        ("bleu", ["dog", "", "two cats."], "no reference has 4 words as this score counts"),
        (
            "bleu",
            ["สวัสดีชาวโลก", "これは、とても長い文です"],
            "even equal outputs score 0; use chrf",
        ),
        ("bleu_zh", ["你好", "谢"], "no reference has 4 words"),
        ("bleu", ["dog", "two, cats"], "no reference has 4 words"),
        ("bleu", ["dog", "two cats, no dog"], ""),
        (
            "bleu",
            ["我们 在 New York Times 报道", "今天天气很好", "他们去了北京", "我喜欢读书"],
            "in a script without spaces between words",
        ),
        ("bleu_zh", ["我们 在 New York Times 报道", "今天天气很好"], ""),
        ("bleu", ["a street of Tokyo, 東京, is on the list"], ""),
        ("bleu", ["two,cats,"], ""),  # 4 tokens
        ("bleu_zh", ["这本书。"], ""),
        ("bleu", [""], ""),
    ],
)
@pytest.mark.parametrize("is_right", [True, False])
def test_references_unfit_for_bleu_are_reported(metric, references, caution, is_right, caplog):
    outputs = [Output(text if is_right else "one two three four") for text in references]
    score_outputs(metric, outputs, references)
    if metric == "bleu":
        corpus_bleu([output.text for output in outputs], references)
    found = [record.getMessage() for record in caplog.records]
    assert len(found) == (0 if not caution else 2 if metric == "bleu" else 1)
    assert all(caution in message for message in found)


def test_exact_match_and_token_accuracy_by_hand():
    outputs = [Output(text) for text in ("1 2 3", "1 2", "4 4 5 6", "")]
    right = ["1 2 3", "1 2 3", "4 5", ""]
    scores = score_by_metrics(["exact_match", "token_accuracy"], outputs, right)
    assert scores["exact_match"].values == {"exact_match": 50.0}
    # 3 of 3, 2 of 3 and 1 of 4 words; nothing of nothing is left out.
    assert scores["token_accuracy"].values == {"token_accuracy": 60.0}
    assert scores["exact_match"].report == "exact match (% of outputs) =  50.00"
    empty = score_outputs("token_accuracy", [Output("")], [""])
    assert empty.values == {"token_accuracy": 0.0}


@pytest.mark.parametrize(
    ("output", "reference", "expected"),
    [
        ("am 3. Mai kostet es 12,50 €", "für 12,50 € am 3. Mai", 100.0),
        ("der 3. Mai und 5 Kilometer", "dann 5 Kilometer am 3. Mai", 100.0),
        ("am 3. Juni", "am 3. Mai", 0.0),
        ("12,50 CHF", "12,50 EUR", 0.0),
        ("1\u202f234,50\u00a0€", "1\u202f234,50\u00a0€", 100.0),
        ("4 und 4 Tage", "4 Tage", 0.0),
        ("vier", "4", 0.0),
        ("Nichts zu zählen.", "Gar nichts.", 0.0),
    ],
)
def test_numbers_exact_by_hand(output, reference, expected):
    found = score_outputs("numbers_exact", [Output(output)], [reference])
    assert found.values == {"numbers_exact": expected}


def test_segments_without_numbers_do_not_count():
    outputs = [Output(text) for text in ("a 1", "no number", "a 2", "3 x")]
    found = score_outputs("numbers_exact", outputs, ["the 1", "none", "a 3", "3 x"])
    assert_close(found.values["numbers_exact"], 100 * 2 / 3, terms=4, dtype="float64")


@pytest.mark.parametrize(
    ("output", "reference", "warned"), [("one", "none", True), ("1", "", False), ("", "1", False)]
)
def test_no_numbers_are_a_warning(output, reference, warned, caplog):
    score_outputs("numbers_exact", [Output(""), Output(output)], ["", reference])
    assert (": no segment has a number, so that the score says nothing" in caplog.text) == warned


def test_missing_trees_are_asked_for():
    with pytest.raises(DataError, match=r"bracketing_f1 needs bracketed trees; output 2: "):
        score_outputs("bracketing_f1", [Output("(S (NN a))"), Output("a cat")], ["(S (NN a))"] * 2)


class WholeTokens(TeacherForcedMetric):
    """A user's, whose scores are whole numbers."""

    def score(self, totals: TeacherForcedTotals) -> int:
        return round(100 * totals.right / totals.tokens)


def test_teacher_forced_scores():
    totals = TeacherForcedTotals(
        loss=20.0,
        tokens=10.0,
        right=5.0,
        sentences=4.0,
        all_right=1.0,
        in_top5=8.0,
        prefixes=3.0,
        characters=40.0,
        by_probability=[[0.0, 2.0, 1.0], [1.0, 0.0, 3.0]],
    )
    found = teacher_forced_values(totals)
    assert list(found) == [
        "loss",
        "neg_log_perplexity",
        "perplexity",
        "accuracy",
        "accuracy_per_sequence",
        "accuracy_top5",
        "prefix_accuracy",
        "bits_per_char",
        "roc_auc",
    ], "in the order of metrics.jsonl"
    bits = 0.5 / math.log(2)
    # Of 12 pairs of texts, 3 with the second label are above two others each, and level with one.
    expected = [2.0, -2.0, math.exp(2.0), 0.5, 0.25, 0.8, 0.75, bits, (3 * 2 + 3 / 2) / 12]
    assert_close(list(found.values()), expected, terms=2, dtype="float64")
    assert teacher_forced_values(totals._replace(loss=1e5))["perplexity"] == float("inf")
    with restored():
        registry.register_metric("whole_tokens")(WholeTokens)
        assert type(teacher_forced_values(totals)["whole_tokens"]) is float, "no count, to add up"
    assert set(teacher_forced_values(TeacherForcedTotals(0, 0, 0, 0, 0)).values()) == {0.0, 1.0}
    with pytest.raises(UsageError, match="'loss' scores predictions under teacher forcing"):
        score_outputs("loss", [Output("a")], ["a"])


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_the_area_under_the_curve_is_that_of_all_pairs(texts):
    """Each text has a probability, here the number of its interval, and a label."""
    counts = [[texts.count((n, label)) for n in range(4)] for label in (False, True)]
    first, second = ([n for n, label in texts if label == wanted] for wanted in (False, True))
    pairs = [(a > b) + (a == b) / 2 for a in second for b in first]
    found = registry.metric("roc_auc").score(TeacherForcedTotals(0, 0, 0, 0, 0, 0, 0, 0, counts))
    if not pairs:
        assert found is None
    else:
        assert_close(found, sum(pairs) / len(pairs), terms=len(pairs) + 2, dtype="float64")


def test_every_number_of_an_evaluation_knows_its_direction():
    known = evaluation_values(["bleu", "ter", "bracketing_f1", "loss"])
    lower = {name for name, value in known.items() if value.lower_is_better}
    assert lower == {
        "loss",
        "perplexity",
        "bits_per_char",
        "ter",
        "unscored_sentences",
        "repairs",
    }
    assert known.keys() >= {"bracketing_f1_of_all", "recall", "well_formed", "accuracy"}
    assert registry.metric("chrf_plus_plus").title == "chrF++"


@pytest.mark.integration
def test_metrics_are_named_without_what_counts_them():
    script = (
        "import sys\nfrom t2t_lite import registry\n"
        "[m(name).values for name, m in registry.metrics().items() if not m.argument]\n"
        "assert not {'tensorflow', 'keras', 'numpy', 'sacrebleu'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@pytest.mark.parametrize(
    "rows", [[1.0, 2.0], [(1, 2), (1,)], [], [("a", 1), ("b", 2)], [(), ()], [None, None], None]
)
def test_what_a_metric_returns_is_checked(rows):
    class Mine(OutputMetric):
        def statistics(self, segments):
            return rows

    with pytest.raises(UsageError, match=r"metric mine \(Mine\): statistics returned .* a row of"):
        Mine("mine").evaluate([Segment("", "a", "a"), Segment("", "b", "b")])


def test_a_metric_may_yield_its_rows():
    class Lazy(OutputMetric):
        def statistics(self, segments):
            return ((len(one.output), 4) for one in segments)

    found = Lazy("lazy").evaluate([Segment("", "ab", "a"), Segment("", "b", "b")])
    assert found.values == {"lazy": 37.5}
    assert found.statistics == [(2, 4), (1, 4)]
