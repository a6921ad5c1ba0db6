"""The tables of a report."""

from t2t_lite.reporting import report
from t2t_lite.reporting.report import ReportedRun


def run(name: str, **settings) -> ReportedRun:
    shared = {"problem": "p", "model": "m", "hparams_set": "s", "output_dir": name}
    return ReportedRun(name, {**shared, **settings}, [], {})


def rows(*runs: ReportedRun) -> dict[str, list[str]]:
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
