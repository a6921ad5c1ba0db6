"""Drawn hyperparameters lie in their ranges, and depend on seed and earlier trials alone."""

import math

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.hparams.ranges import RangedHParams
from t2t_lite.training.tuning.proposals import distributions, draw, hparams_of

optuna.logging.set_verbosity(optuna.logging.WARNING)

_FINISHED = optuna.trial.TrialState.COMPLETE


def ranges():
    rhp = RangedHParams()
    rhp.set_float("rate", 1e-4, 1e-1, scale=rhp.LOG_SCALE)
    rhp.set_float("beta", 0.9, 0.999, scale=rhp.REVERSE_LOG_SCALE)
    rhp.set_int("layers", 1, 6)
    rhp.set_discrete("batch_size", [2048, 512, 4096])
    rhp.set_categorical("optimizer", ["adam", "sgd", None])
    return rhp.ranges


def search(trials: int, seed: int = 3, stop_before: int | None = None) -> list[dict]:
    """The values of so many trials, from another study object after `stop_before`."""
    among, found = distributions(ranges()), []
    study = optuna.create_study(direction="maximize")
    for number in range(trials):
        if number == stop_before:
            old = study.trials
            study = optuna.create_study(direction="maximize")
            study.add_trials(old)
        drawn = draw(study, among, seed, study.trials, is_parallel=False)
        found.append(hparams_of(drawn, ranges()))
        value = -abs(math.log(found[-1]["rate"]) + 5)
        study.add_trial(
            optuna.trial.create_trial(
                state=_FINISHED, params=drawn, distributions=dict(among), value=value
            )
        )
    return found


def test_every_value_is_in_its_range():
    for drawn in search(20):
        assert 1e-4 <= drawn["rate"] <= 1e-1
        assert 0.9 <= drawn["beta"] <= 0.999
        assert drawn["layers"] in range(1, 7)
        assert drawn["batch_size"] in (512, 2048, 4096)
        assert drawn["optimizer"] in ("adam", "sgd", None)


def test_a_resumed_search_draws_what_an_undisturbed_one_draws():
    undisturbed = search(14)  # Optuna's model of the values draws from the eleventh on
    assert search(14, stop_before=5) == undisturbed == search(14, stop_before=12)
    assert search(2, seed=4) != undisturbed[:2]
    assert len({str(drawn) for drawn in undisturbed}) == len(undisturbed)


@given(st.floats(0.9, 0.999))
def test_the_reverse_scale_mirrors_the_interval(drawn):
    value = hparams_of({"beta": drawn}, {"beta": ranges()["beta"]})["beta"]
    assert value - 0.9 == pytest.approx(0.999 - drawn, abs=1e-4)


@given(st.floats(1e-4, 1e-1))
def test_numbers_have_four_digits_and_stay_in_their_range(drawn):
    value = hparams_of({"rate": drawn}, {"rate": ranges()["rate"]})["rate"]
    assert 1e-4 <= value <= 1e-1
    assert value == pytest.approx(drawn, rel=1e-3)
    assert len(f"{value:e}".partition("e")[0].rstrip("0")) <= len("1.234")
