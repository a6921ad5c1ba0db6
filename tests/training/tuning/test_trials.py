"""A search ends with the same trials however often it is killed; poor trials end early.

Trials here compute their evaluations by a formula. `tests/system/test_search.py` trains.
"""

import math
import pathlib
import shutil
import signal
import unittest.mock
from collections import Counter
from typing import ClassVar

import optuna
import pytest

from t2t_lite import registry
from t2t_lite.errors import UserError
from t2t_lite.hparams.ranges import RangedHParams
from t2t_lite.runs import metrics_jsonl
from t2t_lite.runs.search_folder import REASON, SearchFolder, State, Trial, best_trial
from t2t_lite.runs.selection import Criterion
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preemption import PreemptionError
from t2t_lite.training.tuning import summary
from t2t_lite.training.tuning import trials as trials_module
from t2t_lite.training.tuning.config import TuningConfig
from t2t_lite.training.tuning.pruning import Pruning
from t2t_lite.training.tuning.trials import Trials

STEPS, EVERY = 8, 1
SETTINGS = {"objective": "bleu", "maximize": True, "random_seed": 5, "prune": True}
SETTINGS |= {"problem": "text2text_tmpdir", "hparams": "attention_dropout=0.1", "ranges": {}}


class KilledError(Exception):
    """Stands for the end of the whole search, as by SIGKILL."""


def ranges():
    rhp = RangedHParams()
    rhp.set_float("learning_rate_constant", 1e-3, 1e1, scale=rhp.LOG_SCALE)
    rhp.set_discrete("num_heads", [2, 3, 4])
    return rhp.ranges


def bleu(hparams: str, step: int) -> float:
    """Better towards a rate of 0.3; every trial learns, at its own speed."""
    rate = float(hparams.partition("learning_rate_constant=")[2].partition(",")[0])
    return (10 - abs(math.log(rate / 0.3))) * (1 - 0.5**step)


class Process:
    """In place of `TrialProcess`: trains at once, as `trial.run` does; `plan` says when it dies.

    Attributes:
        plan: exceptions or signals to end with, by the number of evaluations of all trials.
        evaluated: (trial, step) of every evaluation, in order.
    """

    plan: ClassVar[dict] = {}
    evaluated: ClassVar[list] = []
    search: SearchFolder

    def __init__(self, request, gpus):
        self.number, self.log = request.number, pathlib.Path(request.config.output_dir, "log")
        self.config = request.config
        self.log.parent.mkdir(exist_ok=True)
        self.pruning = Pruning(self.search, self.number, STEPS)

    def code(self):
        study, pruning = self.search.study, self.pruning
        if "num_heads=3" in self.config.hparams:
            self.search.note(self.number, REASON, "128 features are not 3 equal heads")
            study.tell(self.number, state=optuna.trial.TrialState.FAIL)
            return 0
        curve = self.search.curve(self.number)
        while len(curve) < STEPS and not pruning.is_due():
            step = len(curve) + 1
            end = self.plan.pop(len(self.evaluated), None)
            if isinstance(end, int):
                return -end
            if end:
                raise end
            self.evaluated.append((self.number, step))
            record = {"kind": "eval", "step": step, "bleu": bleu(self.config.hparams, step)}
            metrics_jsonl.append(self.log.parent, record)
            curve = self.search.curve(self.number)
        if pruning.is_due():
            study.tell(self.number, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(self.number, self.search.best(self.number)[1])
        return 0

    def stop(self):
        """It has ended already."""

    wait = stop


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A function that searches in a folder, going on after each kill; returns the trials."""
    tmp_path = tmp_path_factory.mktemp("searches")

    def search(name, trials=12, plan=(), process=Process, **changes) -> list[Trial]:
        Process.plan, Process.evaluated = dict(plan), []
        config = TrainerConfig(
            problem="text2text_tmpdir",
            model="transformer",
            hparams_set="transformer_test",
            hparams="attention_dropout=0.1",
            data_dir=str(tmp_path),
            output_dir=str(tmp_path / name),
        )
        tuning = TuningConfig(hparams_range="x", autotune_max_trials=trials)
        folder = SearchFolder.begin(tmp_path / name, SETTINGS | changes)
        Process.search = folder
        while True:
            try:
                with unittest.mock.patch.object(trials_module, "TrialProcess", process):
                    Trials(config, tuning, "", folder, ranges(), [""]).run()
            except (KilledError, PreemptionError):
                continue
            return folder.trials()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials_module, "_POLL_SECONDS", 0)
        yield search


@pytest.fixture(scope="module")
def undisturbed(searched):
    """The trials of a search of which nothing was killed, and their evaluations in order."""
    return searched("undisturbed"), Process.evaluated


def told(trials: list[Trial]) -> list:
    return [(t.number, t.state, t.hparams, t.value, t.step, t.reason) for t in trials]


@pytest.mark.integration
def test_killed_twice_it_has_the_same_twelve_trials(searched, undisturbed):
    expected, evaluated = undisturbed
    assert {trial.state for trial in expected} == {State.COMPLETE, State.PRUNED, State.FAILED}
    plan = {3: KilledError(), 9: KilledError(), 14: signal.SIGTERM, 19: signal.SIGKILL}
    assert told(searched("killed", plan=plan)) == told(expected)
    assert Process.evaluated == evaluated, "nothing was evaluated twice, nor left out"
    assert not Process.plan, "each of them has happened"


@pytest.mark.integration
def test_more_trials_continue_a_search(searched, undisturbed):
    expected, _ = undisturbed
    assert told(searched("longer", trials=3)) == told(expected[:3])
    assert told(searched("longer")) == told(expected)


@pytest.mark.integration
def test_pruning_saves_a_third_and_finds_the_same_best(searched, undisturbed):
    pruned, evaluated = undisturbed
    everything = searched("everything", prune=False)
    assert State.PRUNED not in {trial.state for trial in everything}
    assert len(evaluated) <= 0.7 * len(Process.evaluated)
    best, known = (best_trial(found, Process.search.criterion) for found in (pruned, everything))
    assert (best.number, best.value) == (known.number, known.value)
    lengths = Counter(number for number, _ in evaluated)
    assert {lengths[trial.number] for trial in pruned if trial.state is State.COMPLETE} == {STEPS}
    assert all(lengths[t.number] >= STEPS / 4 for t in pruned if t.state is State.PRUNED)


@pytest.mark.integration
def test_invalid_combinations_are_failed_trials_with_their_reason(undisturbed):
    trials, _ = undisturbed
    failed = [trial for trial in trials if trial.hparams["num_heads"] == "3"]
    assert failed == [trial for trial in trials if trial.state is State.FAILED]
    assert 0 < len(failed) < len(trials)
    assert {trial.reason for trial in failed} == {"128 features are not 3 equal heads"}


@pytest.mark.integration
def test_a_process_that_always_dies_at_one_place_is_a_failed_trial(searched):
    class DyingProcess(Process):
        def code(self):
            return -signal.SIGKILL

    [trial] = searched("dying", trials=1, process=DyingProcess)
    assert (trial.state, trial.value) == (State.FAILED, None)
    assert trial.reason == "killed by signal 9; most likely, memory ran out"


@pytest.mark.integration
def test_a_trial_whose_folder_was_deleted_is_not_the_best(searched):
    first, *others = searched("deleted", trials=4, prune=False)
    folder = SearchFolder.open(first.folder.parent)
    losses = Criterion("loss", minimize=True)
    best = best_trial([first, *others], losses)
    assert best.value > 0, "or a value that is not there would not be better"
    shutil.rmtree(best.folder)
    left = best_trial(folder.trials(), losses)
    assert left.number != best.number
    assert left.value is not None


def test_sigterm_stops_the_running_trial_which_goes_on_later(searched):
    told_to = []

    class StoppedProcess(Process):
        def code(self):
            if told_to:
                return super().code()
            signal.raise_signal(signal.SIGTERM)
            return None

        def stop(self):
            told_to.append("stop")

        def wait(self):
            told_to.append("wait")

    [trial] = searched("stopped", trials=1, process=StoppedProcess)
    assert told_to == ["stop", "wait"]
    assert trial.state is not State.RUNNING


def test_what_is_no_fault_of_a_trial_ends_the_search_and_leaves_the_trial(searched):
    class FailingProcess(Process):
        def code(self):
            return 1

    with pytest.raises(UserError, match=r"trial 0 ended with code 1, and .*log says why; run the"):
        searched("failing", trials=1, process=FailingProcess)
    assert [trial.number for trial in searched("failing", trials=2)] == [0, 1]


def test_another_search_in_the_folder_is_refused(searched):
    searched("mine", trials=1)
    searched("mine", trials=1, hparams=" attention_dropout = 0.10", random_seed=None)
    with pytest.raises(
        UserError, match=r"other settings .*: objective: .bleu. != .loss.; maximize: True != False"
    ):
        searched("mine", maximize=False, objective="loss")


def test_a_damaged_study_is_named(tmp_path):
    (tmp_path / "study.db").write_bytes(b"no database" * 99)
    with pytest.raises(UserError, match=r"study.db cannot be read: file is not a database"):
        SearchFolder.begin(tmp_path, SETTINGS).trials()


@pytest.mark.integration
def test_the_best_is_told_as_a_flag_and_as_a_set_that_can_be_registered(undisturbed):
    trials, _ = undisturbed
    folder = SearchFolder.open(trials[0].folder.parent)
    config = TrainerConfig(
        problem="text2text_tmpdir",
        model="transformer",
        hparams_set="transformer_test",
        hparams="attention_dropout=0.1",
        data_dir="data",
        output_dir="out",
    )
    text = summary.summary(config, folder)
    best = best_trial(trials, folder.criterion)
    lines = text.splitlines()
    assert lines[0].startswith("12 trials: 0 running, ")
    assert f"best: trial {best.number}, bleu {best.value:.5g} at step {best.step}, in" in lines[1]
    flag = lines[2].removeprefix("--hparams=")
    expected = registry.hparams("transformer_test").override(flag)
    assert str(expected.num_heads) == best.hparams["num_heads"]
    assert str(expected.learning_rate_constant) == best.hparams["learning_rate_constant"]

    class Registry:
        hparams = staticmethod(registry.hparams)

        @staticmethod
        def register_hparams(function):
            Registry.made = function

    exec("\n".join(lines[4:]), {"registry": Registry})
    assert Registry.made.__name__ == "transformer_test_tuned"
    assert Registry.made() == expected


@pytest.mark.parametrize(
    ("state", "reason", "message"),
    [
        ("FAIL", "no heads", "none of the 1 trials in .* complete; the first failed so: no heads"),
        ("PRUNED", "", "none of the 1 trials in .* is complete; all were pruned"),
        ("COMPLETE", "", "the folders of all complete trials in .* are deleted: restore one, or"),
    ],
)
def test_a_search_without_a_complete_trial_says_why(tmp_path, state, reason, message):
    """As one whose folder was deleted is."""
    folder = SearchFolder.begin(tmp_path / "none", SETTINGS)
    folder.study.add_trial(
        optuna.trial.create_trial(
            state=optuna.trial.TrialState[state],
            value=1.0 if state == "COMPLETE" else None,
            user_attrs={"hparams": "num_heads=3", REASON: reason},
        )
    )
    with pytest.raises(UserError, match=message):
        summary.summary(None, folder)


def test_a_seed_that_is_not_given_is_drawn_once(tmp_path):
    first = SearchFolder.begin(tmp_path, SETTINGS | {"random_seed": None}).settings
    assert 0 <= first["random_seed"] < 2**31
    assert SearchFolder.begin(tmp_path, SETTINGS | {"random_seed": None}).settings == first


def test_settings_are_compared_as_they_are_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {"decode_hparams": "alpha=0.6,beam_size=2", "warm_start_from": "runs/base"}
    first = SearchFolder.begin(tmp_path / "mine", SETTINGS | given)
    other = {
        "decode_hparams": " beam_size=2, alpha=0.60",
        "warm_start_from": f"{tmp_path}/runs/base/",
    }
    assert SearchFolder.begin(tmp_path / "mine", SETTINGS | other).settings == first.settings
    for name, value in (("decode_hparams", "alpha=0.7"), ("warm_start_from", "")):
        with pytest.raises(UserError, match=f"other settings .*{name}"):
            SearchFolder.begin(tmp_path / "mine", SETTINGS | given | {name: value})
