"""The tables of a report; `bin/test_t2t_report` has the command and the page."""

import math

from t2t_lite.study.reports import report
from t2t_lite.study.reports.report import RunHistory, page


def run(name: str, **settings) -> RunHistory:
    shared = {"problem": "p", "model": "m", "hparams_set": "s", "output_dir": name}
    return RunHistory(name, {**shared, **settings}, [], {})


def scored(*scores: tuple[int, float]) -> RunHistory:
    records = [{"kind": "eval", "step": step, "bleu": score} for step, score in scores]
    return RunHistory("run", {}, records, {})


def rows(*runs: RunHistory) -> dict[str, list[str]]:
    return dict(report._setting_rows(runs))


def test_a_single_run_shows_all_its_settings():
    assert {*rows(run("a", dropout=0.1, train_steps=5))} == {
        *("problem", "model", "hparams_set", "dropout", "train_steps")
    }


def test_runs_show_the_settings_in_which_they_differ():
    shown = rows(run("a", dropout=0.1, train_steps=5), run("b", dropout=0.2, train_steps=5))
    assert {*shown} == {"problem", "model", "hparams_set", "dropout"}
    assert shown["dropout"] == ["0.1", "0.2"]


def test_a_setting_that_a_run_lacks_differs():
    assert rows(run("a", dropout=0.1), run("b"))["dropout"][1] == "–"


def test_the_best_score_is_finite():
    text = page([scored((100, math.nan), (200, 30.0), (300, math.inf), (400, 20.0))])
    assert "<td>30 (step 200)</td>" in text


def test_the_last_score_is_that_of_the_last_step():
    text = page([scored((300, 12.34), (100, 30.0), (200, 20.0))])
    assert "<td>12.34</td>" in text
