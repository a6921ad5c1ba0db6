import json
import math

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.training.learning_rate import Schedule

# Computed by hand from the formulas of the paper (equation 3) and of T2T's schedules.
_BASE_PEAK = 2.0 * 512**-0.5 * 8000**-0.5
_PAPER_PEAK = 512**-0.5 * 4000**-0.5


def test_rates_are_those_recorded_from_t2t(golden):
    compared = 0
    for entry in json.loads((golden / "learning_rate.json").read_text()):
        if entry["hparams_set"] not in registry.list_hparams():
            continue
        hparams = registry.hparams(entry["hparams_set"]).override(entry["overrides"])
        schedule = Schedule(hparams)
        for step, rate in zip(entry["steps"], entry["learning_rate"], strict=True):
            # T2T counts micro-batches.
            assert float(schedule(step / hparams.accumulate_steps)) == pytest.approx(
                rate, rel=2e-6
            ), (entry, step)
            compared += 1
    assert compared >= 100


@pytest.mark.parametrize(
    ("hparams_set", "step", "rate"),
    [
        ("transformer_base", 0, 0.0),
        ("transformer_base", 4000, _BASE_PEAK / 2),
        ("transformer_base", 8000, _BASE_PEAK),
        ("transformer_base", 32000, _BASE_PEAK / 2),
        ("transformer_base_v1", 0, _PAPER_PEAK / 4000),
        ("transformer_base_v1", 3999, _PAPER_PEAK),
        ("transformer_base_v1", 15999, _PAPER_PEAK / 2),
        ("transformer_multi30k", 2000, 0.005),
        ("transformer_multi30k", 8000, 0.0025),
        ("transformer_multi30k_prenorm", 500, 0.0025),
        ("transformer_multi30k_prenorm", 1000, 0.005),
        ("transformer_multi30k_prenorm", 5500, 0.0025),
        ("transformer_multi30k_prenorm", 10000, 0.0),
        ("lstm_attention", 0, 0.01 * 0.002 * 0.1),
        ("lstm_attention", 100, 0.002 * 0.1),
    ],
)
def test_rates_of_the_formulas(hparams_set, step, rate):
    assert float(Schedule(registry.hparams(hparams_set))(step)) == pytest.approx(
        rate, rel=1e-4, abs=1e-9
    )


def test_rsqrt_normalized_decay_starts_at_one():
    formula = "constant*rsqrt_normalized_decay"
    hparams = registry.hparams("transformer_base").override(
        f"learning_rate_schedule={formula},learning_rate_constant=3.0,learning_rate_warmup_steps=16"
    )
    assert [float(Schedule(hparams)(step)) for step in (0, 16, 64)] == pytest.approx([3, 3, 1.5])


@pytest.mark.parametrize(
    ("staircase", "rates"), [(False, [1, 1, 0.5**0.5, 0.5, 0.25]), (True, [1, 1, 1, 0.5, 0.25])]
)
def test_exp_decay_is_a_power_of_the_steps_since_warm_up(staircase, rates):
    hparams = registry.hparams("transformer_base").override(
        "learning_rate_schedule=exp_decay,learning_rate_warmup_steps=10,learning_rate_decay_rate=0.5,"
        f"learning_rate_decay_steps=100,learning_rate_decay_staircase={staircase}"
    )
    found = [float(Schedule(hparams)(step)) for step in (0, 10, 60, 110, 210)]
    assert found == pytest.approx(rates)


def test_single_cycle_cos_decay_goes_from_the_warm_up_to_zero_and_stays():
    hparams = registry.hparams("transformer_multi30k_prenorm").override(
        "learning_rate_warmup_steps=10,learning_rate_decay_steps=40"
    )
    rates = [float(Schedule(hparams)(step)) for step in (0, 5, 10, 20, 30, 50, 60)]
    quarter = 0.5 + 0.5**1.5
    assert rates == pytest.approx([0, 0.0025, 0.005, 0.005 * quarter, 0.0025, 0, 0], abs=1e-9)


def test_unknown_factor_names_the_nearest():
    hparams = registry.hparams("transformer_base").override("learning_rate_schedule=rsqrt_deca")
    with pytest.raises(UsageError, match="unknown factor 'rsqrt_deca'; did you mean 'rsqrt_decay'"):
        Schedule(hparams)


def test_unknown_legacy_scheme_is_an_error():
    hparams = registry.hparams("lstm_attention").override("learning_rate_decay_scheme=exp")
    with pytest.raises(UsageError, match="expected noam or none"):
        Schedule(hparams)(1)


def test_warmup_rises_in_equal_steps():
    schedule = Schedule(registry.hparams("transformer_big"))
    rates = [float(schedule(step)) for step in (10, 20, 30)]
    assert math.isclose(rates[2] - rates[1], rates[1] - rates[0], rel_tol=1e-4)


def test_an_unknown_legacy_scheme_shows_at_once():
    hparams = registry.hparams("transformer_base_v1").override("learning_rate_decay_scheme=nom")
    with pytest.raises(UsageError, match="learning_rate_decay_scheme='nom': expected noam or none"):
        Schedule(hparams)
