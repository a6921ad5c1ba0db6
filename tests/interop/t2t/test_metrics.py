"""Every metric of T2T's for every kind of problem: what is computed, and what is left out."""

import logging

import pytest

from t2t_lite import registry
from t2t_lite.errors import warn_once
from t2t_lite.interop.t2t import text_problems, translate
from t2t_lite.interop.t2t.adapter import adapted
from t2t_lite.interop.t2t.metrics import REGISTERED, Metrics
from t2t_lite.interop.t2t.problem import Problem
from t2t_lite.metrics.base import OutputMetric
from t2t_lite.metrics.by_name import evaluation_values

_KINDS = {
    "ids": Problem,
    "pairs": text_problems.Text2TextProblem,
    "translation": translate.TranslateProblem,
    "text alone": text_problems.Text2SelfProblem,
    "pieces of text": text_problems.ChoppedTextProblem,
    "two labels": text_problems.Text2ClassProblem,
    "labels of several texts": text_problems.TextConcat2ClassProblem,
    "three labels": text_problems.Text2ClassProblem,
    "numbers": text_problems.Text2RealProblem,
}
_NUMBERS = ["numbers"]
_ALL = [kind for kind in _KINDS if kind not in _NUMBERS]
_PAIRS = ["ids", "pairs", "translation"]
_TEXTS = [*_PAIRS, "text alone", "pieces of text"]
_TWO_LABELS = ["two labels", "labels of several texts"]
# The kinds that each metric is computed for; those that are not here are for none.
_TABLE = {
    "ACC": _ALL,
    "ACC_TOP5": _ALL,
    "ACC_PER_SEQ": _ALL,
    "NEG_LOG_PERPLEXITY": _ALL,
    "PREFIX_ACCURACY": _ALL,
    "BITS_PER_CHAR": _TEXTS,
    "APPROX_BLEU": _PAIRS,
    "APPROX_SARI": _PAIRS,
    "EDIT_DISTANCE": _PAIRS,
    "ROUGE_2_F": _PAIRS,
    "ROUGE_L_F": _PAIRS,
    "WORD_ERROR_RATE": _PAIRS,
    "ROC_AUC": _TWO_LABELS,
    "RMSE": _NUMBERS,
    "UNPADDED_MSE": _NUMBERS,
    "PEARSON": _NUMBERS,
}
_NAMES = {name: value for name, value in vars(Metrics).items() if name.isupper()}


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("name", _NAMES)
def test_it_is_computed_or_left_out_with_a_warning(name, kind, caplog):
    warn_once.cache_clear()
    members = {
        "eval_metrics": lambda self: [_NAMES[name]],
        "num_classes": 3 if kind == "three labels" else 2,
    }
    problem = adapted(type("Own", (_KINDS[kind],), members)())
    with caplog.at_level(logging.WARNING):
        found = list(problem.metrics)
    is_computed = kind in _TABLE.get(name, ())
    assert ("without counterpart" not in caplog.text) == is_computed
    if is_computed and name != "ACC":
        assert REGISTERED[_NAMES[name]] in found
    # Whatever was asked for, all that is found can be computed, and chooses the best checkpoint.
    assert found[0] in evaluation_values(found)
    of_outputs = [m for m in found if issubclass(registry.metrics()[m], OutputMetric)]
    if problem.has_labels:
        assert of_outputs == ["exact_match"] == found[:1]
    elif not problem.has_inputs:
        assert of_outputs == []


def test_defaults_of_t2t_are_left_out_in_silence(caplog):
    problem = adapted(type("Own", (text_problems.Text2SelfProblem,), {})())
    with caplog.at_level(logging.WARNING):
        assert list(problem.metrics) == ["perplexity"]
    assert not caplog.text
