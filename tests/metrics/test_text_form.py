"""What is said of outputs that differ from their references in form alone."""

import logging

import pytest

from t2t_lite.data.problem import Output
from t2t_lite.metrics import text_form
from t2t_lite.metrics.by_name import score_by_metrics


@pytest.fixture(autouse=True)
def _nothing_is_said_yet():
    text_form._warn.cache_clear()


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ("Ein Café in Genf", "Ein Cafe\u0301 in Genf"),
        ("Ein Cafe\u0301 in Genf", "Ein Café in Genf"),
        ("Ein Ca\u00adfé hier", "Ein Café ist dort"),
    ],
)
def test_words_that_look_equal_are_counted(caplog, output, reference):
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            score_by_metrics(["bleu", "chrf"], [Output(output), Output("x")], [reference, "x"])
    (message,) = caplog.messages
    assert "another form in Unicode" in message
    assert ": 1 of all outputs" in message
    assert repr(reference) in message


@pytest.mark.parametrize(
    ("output", "reference"),
    [
        ("Ein Café", "Ein Café"),
        ("Cafe\u0301", "Cafe\u0301"),
        ("ein Haus", "Cafe\u0301"),
        ("6\u00a0km", "6 km"),  # metrics split there, too
    ],
)
def test_nothing_is_said_of_others(caplog, output, reference):
    with caplog.at_level(logging.WARNING):
        score_by_metrics(["chrf"], [Output(output)], [reference])
    assert not caplog.messages
