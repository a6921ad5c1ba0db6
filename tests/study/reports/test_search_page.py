"""The page of a search shows every trial, and what mattered."""

import pathlib

import optuna
import pytest

from t2t_lite.errors import UserError
from t2t_lite.runs import metrics_jsonl
from t2t_lite.runs.search_folder import SearchFolder
from t2t_lite.study.reports.report import write_report
from t2t_lite.study.reports.search_page import _importances

STATES = optuna.trial.TrialState


@pytest.fixture
def search(tmp_path) -> SearchFolder:
    """Eight trials, in which `rate` decides and `seed` does nothing; one is pruned, one fails."""
    settings = {"objective": "bleu", "maximize": True, "random_seed": 1, "problem": "my_problem"}
    ranges = {"rate": "float from 0.0 to 1.0", "seed": "int from 1 to 4"}
    search = SearchFolder.begin(tmp_path / "found", settings | {"ranges": ranges})
    for number, rate in enumerate([0.5, 0.1, 0.9, 0.3, 0.7, 0.2, 0.8, 0.6]):
        drawn = {"rate": rate, "seed": 1 + number % 4}
        search.study.add_trial(
            optuna.trial.create_trial(
                state=STATES.RUNNING,
                params=drawn,
                distributions={
                    "rate": optuna.distributions.FloatDistribution(0, 1),
                    "seed": optuna.distributions.IntDistribution(1, 4),
                },
                user_attrs={"hparams": ",".join(f"{n}={v}" for n, v in drawn.items())},
            )
        )
        if number == 7:
            search.note(number, "reason", "a & b do not fit")
            search.study.tell(number, state=STATES.FAIL)
            continue
        folder = search.trial_folder(number)
        folder.mkdir()
        for step in (10, 20)[: 1 if number == 1 else 2]:
            record = {"kind": "eval", "step": step, "bleu": 10 * rate + step / 10}
            metrics_jsonl.append(folder, record)
        search.report(number)
        if number == 1:
            search.study.tell(number, state=STATES.PRUNED)
        else:
            search.study.tell(number, search.best(number)[1])
    return search


def test_every_trial_has_its_row_and_its_curve(search):
    path = write_report([str(search.folder)], "")
    text = pathlib.Path(path).read_text(encoding="utf-8")
    assert path == str(search.folder / "report.html")
    assert "<h1>found</h1>" in text
    assert "my_problem: bleu, higher is better" in text
    assert text.count('<th scope="row">') == 2 + 8
    assert "<td>pruned</td><td>2</td><td>10</td><td>0.1</td><td>2</td>" in text
    assert "<td>failed</td><td></td><td></td><td>0.6</td><td>4</td><td>a &amp; b do" in text
    best = text.partition('<tr class="best">')[2].partition("</tr>")[0]
    assert '<th scope="row">2</th><td>complete</td><td>11</td><td>20</td><td>0.9</td>' in best
    assert "trial 1, step 10: bleu 2" in text
    assert "best, trial 4: best bleu so far 11" in text


def test_what_mattered_is_what_decides(search):
    shares = _importances(search)
    assert [*shares] == ["rate", "seed"]
    assert shares["rate"] > 0.5
    assert sum(shares.values()) == pytest.approx(1)


def test_a_report_does_not_replace_the_files_of_the_search(search):
    with pytest.raises(UserError, match=r"study\.db"):
        write_report([str(search.folder)], str(search.folder / "study.db"))


def test_a_trial_that_another_program_has_added_is_named(search):
    search.study.enqueue_trial({"rate": 0.5})
    message = r"found/study\.db: t2t-trainer has not drawn trial 8: other programs may read"
    with pytest.raises(UserError, match=message):
        write_report([str(search.folder)], "")
