"""The scores that problems name: values for metrics.jsonl, lines for people."""

import re

import pytest
from sacrebleu.metrics.base import Metric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.data.problem import Output
from t2t_lite.decoding.config import METRICS_HELP
from t2t_lite.errors import DataError, UserError
from t2t_lite.metrics import _private_api
from t2t_lite.metrics.base import OutputMetric, Segment, add_up
from t2t_lite.metrics.bleu import corpus_bleu
from t2t_lite.metrics.bracketing import BracketingF1
from t2t_lite.metrics.by_name import (
    check_metrics,
    output_metrics,
    score_outputs,
    segment_scores,
    split_metrics,
)
from t2t_lite.problems import algorithmic

RIGHT = "(TOP (S (NP (DT the) (NN dog)) (VP (VBD bit) (NP (PRP him))) (. .)))"
# Without its second noun phrase, and with a wrong tag.
WRONG = "(TOP (S (NP (DT the) (NN dog)) (VP (VBD bit) (DT him)) (. .)))"
# The full stop is a word here, so that EVALB finds a word more than in the right tree.
UNSCORED = "(TOP (S (NP (DT the) (NN dog)) (VP (VBD bit) (NP (PRP him))) (NN .)))"


def test_bleu_keeps_its_released_names():
    texts = ["one two three four", "five six seven eight nine"]
    right = ["one two three four", "five six seven nine eight"]
    bleu = corpus_bleu(texts, right)
    score = score_outputs("bleu", [Output(text) for text in texts], right)
    assert score.values == {"bleu": bleu.score, "bleu_signature": bleu.signature}
    assert score.report.splitlines() == [
        f"BLEU_cased = {bleu.score:6.2f}",
        f"BLEU_cased signature: {bleu.signature}",
    ]
    assert score.summary == f"BLEU {bleu.score:.2f} ({bleu.signature})"


def test_bracketing_f1_by_hand(caplog):
    outputs = [Output(RIGHT), Output(RIGHT, repairs=3), Output(WRONG, repairs=1)]
    score = score_outputs("bracketing_f1", outputs, [RIGHT] * 3)
    expected = {
        "bracketing_f1": 100 * 2 * 11 / (12 + 11),
        "bracketing_f1_of_all": 100 * 2 * 11 / (12 + 11),
        "recall": 100 * 11 / 12,
        "precision": 100,
        "complete_match": 200 / 3,
        "tagging_accuracy": 100 * 11 / 12,
        "unscored_sentences": 0,
        "well_formed": 100 / 3,
        "repairs": 4,
    }
    assert score.values.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(score.values[name], value, terms=6, dtype="float64", err_msg=name)
    assert score.report.splitlines() == [
        "Bracketing F1 =  95.65",
        "Bracketing recall =  91.67",
        "Bracketing precision = 100.00",
        "Complete match =  66.67",
        "Tagging accuracy =  91.67",
        "scored as by EVALB with COLLINS.prm: 3 of 3 sentences",
        "F1 if the others count as missed: 95.65",
        "well-formed before repair: 33.3 % (1 of 3 outputs; 4 repairs)",
    ]
    assert score.summary == "bracketing F1 95.65 (of all sentences 95.65; 33.3 % well-formed)"
    assert not caplog.messages


def test_sentences_that_evalb_leaves_out_are_counted_and_warned_of(caplog):
    outputs = [Output(RIGHT), Output(UNSCORED, repairs=2), Output(""), Output("")]
    score = score_outputs("bracketing_f1", outputs, [RIGHT, RIGHT, RIGHT, ""])
    assert (score.values["bracketing_f1"], score.values["unscored_sentences"]) == (100, 3)
    # Four brackets of three sentences each, of which one was found whole.
    f1_of_all = score.values["bracketing_f1_of_all"]
    assert_close(f1_of_all, 100 * 2 * 4 / (12 + 4), terms=6, dtype="float64")
    assert score.report.splitlines()[-3:] == [
        "scored as by EVALB with COLLINS.prm: 1 of 4 sentences",
        "F1 if the others count as missed: 50.00",
        "well-formed before repair: 50.0 % (1 of 2 outputs; 2 repairs)",
    ]
    (warning,) = caplog.messages
    assert "3 of 4 sentences, as EVALB does: 1 where" in warning
    assert "2 without an output" in warning


def test_a_subclass_of_bracketing_f1_reports_its_own_score():
    class Mine(BracketingF1):
        """F1 by another name."""

    values = Mine("mine").evaluate([Segment("", RIGHT, RIGHT)]).values
    assert values["mine"] == 100
    assert values.keys() == {value.name for value in Mine("mine").values}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("bleu, chrf,bleu,", ("bleu", "chrf")),
        ("command:./m.sh --x 'a,b',bleu", ("command:./m.sh --x 'a,b'", "bleu")),
        ('ter,command:./m "a,\\"b",bleu', ("ter", 'command:./m "a,\\"b"', "bleu")),
        ("command:./m a\\,b,ter", ("command:./m a\\,b", "ter")),
        ("command:./it's,ter", ("command:./it's", "ter")),
    ],
)
def test_commas_in_quotes_do_not_split_names(names, expected):
    assert split_metrics(names) == expected


def test_help_names_the_metrics_that_score_outputs():
    scoring = {
        n for n in registry.list_metrics() if issubclass(registry.metrics()[n], OutputMetric)
    }
    words = set(re.findall(r"\w+", METRICS_HELP))
    built_in = {n for n in scoring if registry.metrics()[n].__module__.startswith("t2t_lite.")}
    assert built_in <= words
    assert not words & (set(registry.list_metrics()) - scoring)
    assert "registry_help" not in words


def test_no_output_at_all_scores_0():
    score = score_outputs("bracketing_f1", [Output("")], [RIGHT])
    assert (score.values["bracketing_f1"], score.values["well_formed"]) == (0, 0)


@pytest.mark.parametrize(
    "metric", output_metrics(n for n, cls in registry.metrics().items() if not cls.argument)
)
def test_outputs_and_references_must_pair(metric):
    with pytest.raises(DataError, match="2"):
        score_outputs(metric, [Output(RIGHT)], [RIGHT, RIGHT])
    with pytest.raises(DataError, match="there are no"):
        score_outputs(metric, [], [])


def test_a_problem_may_name_several_metrics():
    class Scored(algorithmic.AlgorithmicIdentityBinary40):
        metrics = ("exact_match", "bleu")

    assert tuple(Scored().metrics) == ("exact_match", "bleu")
    assert tuple(algorithmic.AlgorithmicIdentityBinary40().metrics) == ("bleu",)


def test_a_text_in_place_of_a_sequence_is_named():
    with pytest.raises(UserError, match=r"metrics are 'bleu': expected .* such as \['bleu'\]"):
        check_metrics("bleu")


def test_an_unknown_metric_is_named():
    with pytest.raises(UserError, match="unknown metric 'blue'; did you mean 'bleu'"):
        score_outputs("blue", [Output("a")], ["a"])


@pytest.mark.parametrize("name", ["bleu", "bleu_zh", "ter"])
def test_public_counts_are_sacrebleus_own(name):
    """Which its private interface tells; chrF has no other."""
    metric = registry.metric(name)
    segments = [
        Segment("", output, reference)
        for output, reference in [
            ("The cat sat on the mat.", "The cat sits on a mat."),
            ("", "words"),
            ("words", ""),
            ("", ""),
            ("one two three four five", "five four one two three"),
        ]
    ]
    outputs, references = zip(*[(s.output, s.reference) for s in segments], strict=True)
    counter = metric.make_counter()
    rows = _private_api.segment_statistics(counter, outputs, references)
    assert [list(row) for row in metric.statistics(segments)] == rows
    for part in (rows, rows[2:4], rows[3:4]):
        totals = add_up(part)
        assert metric.score(totals) == _private_api.score_of(counter, totals)


def test_a_sacrebleu_that_keeps_its_counts_is_refused(monkeypatch):
    monkeypatch.delattr(Metric, "_extract_corpus_statistics")
    with pytest.raises(UserError, match="does not tell the counts of CHRF"):
        registry.metric("chrf").statistics([Segment("", "a", "a")])


def test_scores_of_single_outputs_are_sacrebleus():
    texts = [("a b c", "a c b d"), ("", "x"), ("über", "über"), ("x y", ""), ("", "")]
    outputs, references = [Output(output) for output, _ in texts], [other for _, other in texts]
    found = segment_scores(["chrf", "ter"], outputs, references, [""] * len(texts))
    for scores, (output, reference) in zip(found, texts, strict=True):
        for name, scorer in (("chrf", CHRF()), ("ter", TER())):
            assert scores[name] == pytest.approx(scorer.sentence_score(output, [reference]).score)
    assert segment_scores(["chrf"], [], [], []) == []
