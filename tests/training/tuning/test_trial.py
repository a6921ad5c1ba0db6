"""What a trial's training ends with: its own fault fails the trial, any other ends the search."""

import pytest
import tensorflow as tf

from t2t_lite.errors import DataError, UntrainableError, UsageError, UserError
from t2t_lite.training.callbacks import CallbackError
from t2t_lite.training.preemption import PreemptionError
from t2t_lite.training.tuning import trial


class NeverDue:
    """In place of `Pruning`."""

    def is_due(self) -> bool:
        return False


def trained(monkeypatch, error: BaseException) -> str:
    def fail(config, ends):
        raise error

    monkeypatch.setattr(trial.trainer, "run", fail)
    return trial._train(None, NeverDue())


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
