"""What a trial's training ends with: its own fault fails the trial, any other ends the search."""

import json
import pathlib
from types import SimpleNamespace

import optuna
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.errors import DataError, UntrainableError, UsageError, UserError
from t2t_lite.runs import metrics_jsonl
from t2t_lite.runs.run_settings import RunSettings
from t2t_lite.runs.search_folder import SearchFolder, criterion_of
from t2t_lite.runs.selection import Criterion
from t2t_lite.training.callbacks import CallbackError
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.pace import selection_of
from t2t_lite.training.preemption import PreemptionError
from t2t_lite.training.tuning import trial
from t2t_lite.training.tuning.process import Request


def trained(monkeypatch, error: BaseException) -> str:
    def fail(config, ends):
        raise error

    monkeypatch.setattr(trial.trainer, "run", fail)
    return trial._train(None, lambda: False)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (UsageError("128 features are not 3 equal heads"), "128 features are not 3 equal heads"),
        (UntrainableError("10 steps in a row were skipped"), "10 steps in a row were skipped"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM"), "the model does not fit into memory"),
        (ValueError("shapes\n..."), "ValueError: shapes"),
    ],
)
def test_faults_of_hyperparameters_are_the_reason_of_a_failed_trial(monkeypatch, error, reason):
    assert trained(monkeypatch, error) == reason


@pytest.mark.parametrize(
    "error",
    [
        UserError("checkpoint of step 4 not saved: no space left on device"),
        UserError("the training data has changed since the newest checkpoint"),
        CallbackError("callback LogToMlflow.step at step 2 failed: connection refused"),
        DataError("record 3 is damaged"),
        PreemptionError("SIGTERM"),
        OSError("no space left on device"),
    ],
)
def test_other_faults_leave_the_trial_to_go_on(monkeypatch, error):
    with pytest.raises(type(error), match=str(error)):
        trained(monkeypatch, error)


@pytest.mark.parametrize("is_pruned", [False, True])
def test_the_outcome_is_that_of_the_training(tmp_path, monkeypatch, is_pruned):
    """Whatever other trials say of it since."""
    settings = {"objective": "bleu", "maximize": True, "random_seed": 1, "prune": True}
    search = SearchFolder.begin(tmp_path, settings | {"problem": "p", "ranges": {}})
    states = optuna.trial.TrialState
    search.study.add_trial(optuna.trial.create_trial(state=states.RUNNING))
    folder = search.trial_folder(0)
    is_due = iter([False, is_pruned, not is_pruned, not is_pruned])

    def train(config, ends):
        folder.mkdir()
        for step, bleu in ((1, 7.5), (2, 3.0)):
            metrics_jsonl.append(folder, {"kind": "eval", "step": step, "bleu": bleu})
            if step == 1:
                assert ends() == is_pruned
        search.report(0)

    monkeypatch.setattr(trial.trainer, "run", train)
    monkeypatch.setattr(trial.Pruning, "is_due", lambda self: next(is_due))
    names = {"problem": "p", "model": "m", "hparams_set": "s"}
    config = TrainerConfig(**names, data_dir="", output_dir=str(folder), train_steps=2)
    trial.run(Request(str(tmp_path), 0, config))
    (ended,) = SearchFolder.open(tmp_path).study.trials
    assert ended.state == (states.PRUNED if is_pruned else states.COMPLETE)
    assert ended.value == (3.0 if is_pruned else 7.5), "the last one, or the best"


@pytest.mark.parametrize(
    ("place", "metric", "minimize"),
    [
        ("search/trial-000", "loss", False),
        ("search/trial-000", "perplexity", True),
        ("run", "loss", True),
    ],
)
def test_a_trial_keeps_the_best_in_the_direction_of_its_search(tmp_path, place, metric, minimize):
    """A search may reverse that of a metric."""
    (tmp_path / "search").mkdir()
    settings = {"objective": "loss", "maximize": True, "random_seed": 1}
    settings |= {"problem": "text2text_tmpdir", "hparams": ""}
    (tmp_path / "search" / "search.json").write_text(json.dumps(settings))
    names = {"problem": "text2text_tmpdir", "model": "m", "hparams_set": "s"}
    config = TrainerConfig(**names, data_dir="", output_dir="", best_metric=metric)
    own = RunSettings(**names, best_metric=metric)
    problem = registry.problem("text2text_tmpdir")
    run = SimpleNamespace(settings=own, folder=tmp_path / place, problem=problem)
    chosen = selection_of(config, run, lambda: False)
    assert chosen._criterion == Criterion(metric, minimize)


def test_the_folder_where_one_works_may_be_a_trial(tmp_path, monkeypatch):
    settings = {"objective": "loss", "maximize": True, "random_seed": 1}
    settings |= {"problem": "text2text_tmpdir", "hparams": ""}
    (tmp_path / "search.json").write_text(json.dumps(settings))
    (tmp_path / "trial-000").mkdir()
    monkeypatch.chdir(tmp_path / "trial-000")
    own, problem = SimpleNamespace(best_metric="loss"), registry.problem("text2text_tmpdir")
    run = SimpleNamespace(settings=own, folder=pathlib.Path(), problem=problem)
    assert criterion_of(run) == Criterion("loss", minimize=False)
