import json

import pytest

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.settings import settings_of
from t2t_lite.training import learning_rate
from t2t_lite.training.learning_rate import Schedule

# The factors of a schedule, each of at most so many operations.
TERMS = 5 * 6
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
            found = schedule(step / hparams.accumulate_steps)
            assert_close(found, rate, TERMS, err_msg=f"{entry} {step}")
            compared += 1
    assert compared >= 100


_RATES = {
    "transformer_base": {0: 0.0, 4000: _BASE_PEAK / 2, 8000: _BASE_PEAK, 32000: _BASE_PEAK / 2},
    "transformer_base_v1": {0: _PAPER_PEAK / 4000, 3999: _PAPER_PEAK, 15999: _PAPER_PEAK / 2},
    "transformer_multi30k": {1000: 0.005, 5500: 0.0025},
    "transformer_multi30k_prenorm": {500: 0.0025, 1000: 0.005, 5500: 0.0025, 10000: 0.0},
    "lstm_attention": {0: 0.01 * 0.002 * 0.1, 100: 0.002 * 0.1},
}


@pytest.mark.parametrize("hparams_set", _RATES)
def test_rates_of_the_formulas(hparams_set):
    assert_rates(registry.hparams(hparams_set), _RATES[hparams_set])


def test_rsqrt_normalized_decay_starts_at_one():
    formula = "constant*rsqrt_normalized_decay"
    hparams = registry.hparams("transformer_base").override(
        f"learning_rate_schedule={formula},learning_rate_constant=3.0,learning_rate_warmup_steps=16"
    )
    assert_close([Schedule(hparams)(step) for step in (0, 16, 64)], [3, 3, 1.5], TERMS)


@pytest.mark.parametrize(
    ("staircase", "rates"), [(False, [1, 1, 0.5**0.5, 0.5, 0.25]), (True, [1, 1, 1, 0.5, 0.25])]
)
def test_exp_decay_is_a_power_of_the_steps_since_warm_up(staircase, rates):
    hparams = registry.hparams("transformer_base").override(
        "learning_rate_schedule=exp_decay,learning_rate_warmup_steps=10,learning_rate_decay_rate=0.5,"
        f"learning_rate_decay_steps=100,learning_rate_decay_staircase={staircase}"
    )
    found = [Schedule(hparams)(step) for step in (0, 10, 60, 110, 210)]
    assert_close(found, rates, TERMS)


_ROOT = 0.5**0.5

# Steps and factors, by hand, with a warm-up of 10 steps and cycles of 40.
_TABLES = {
    "cosdecay": {0: 1, 10: 1, 20: 0.5, 30: 0.5 - _ROOT / 2, 40: 0, 60: 0.5, 80: 1},
    "single_cycle_cos_decay": {0: 1, 10: 1, 20: 0.5 + _ROOT / 2, 30: 0.5, 50: 0, 90: 0},
    "multi_cycle_cos_decay": {0: 1, 10: 1, 20: 0.5 + _ROOT / 2, 30: 0.5, 50: 0, 70: 0.5, 90: 1},
    "constant": {0: 2, 10: 2, 1000: 2},
    "linear_warmup": {0: 0, 5: 0.5, 10: 1, 1000: 1},
    "rsqrt_decay": {0: 10**-0.5, 10: 10**-0.5, 40: 40**-0.5},
    "rsqrt_hidden_size": {0: 0.25, 1000: 0.25},  # of 16
}
_SCHEMES = {
    "none": {0: 0.01, 5: 0.1, 10: 1, 1000: 1},
    "exp": {0: 0.01, 5: 0.1, 10: 1, 30: 0.5**0.5, 50: 0.5, 90: 0.25},
    "sqrt": {0: 0.01, 5: 0.1, 10: 500, 11: 500, 14: 250, 110: 50},
    "cosine": {0: 0.01, 5: 0.1, 10: 0.5 + _ROOT / 2, 20: 0.5, 40: 0, 60: 0.5, 80: 1},
    "cyclelinear10x": {0: 0.01, 5: 0.1, 10: 3.3, 15: 1.8, 20: 0.3, 25: 1.8, 30: 3.3},
    "noam": {0: 1250 * 10**-1.5, 9: 1250 * 10**-0.5, 39: 1250 * 40**-0.5},
}


def small(**changes):
    """A width of 16, a warm-up of 10 steps, cycles of 40 steps, and a rate that halves in each."""
    return registry.hparams("transformer_test").copy(
        **{
            "learning_rate_constant": 2.0,
            "learning_rate_warmup_steps": 10,
            "learning_rate_decay_steps": 40,
            "learning_rate_cosine_cycle_steps": 40,
            "learning_rate_decay_rate": 0.5,
            **changes,
        }
    )


def assert_rates(hparams, table, scale=1.0):
    """Compares the rates at some steps; a cosine of 0 is rounded as one of 1 is."""
    rates = [Schedule(hparams)(step) for step in table]
    assert_close(rates, [scale * rate for rate in table.values()], TERMS)


@pytest.mark.parametrize("factor", _TABLES)
def test_factors(factor):
    assert_rates(small(learning_rate_schedule=factor), _TABLES[factor])


@pytest.mark.parametrize("scheme", _SCHEMES)
def test_legacy_schemes_rise_from_a_hundredth_but_noam(scheme):
    legacy = {"learning_rate_schedule": "legacy", "learning_rate_decay_scheme": scheme}
    hparams = small(**legacy, learning_rate=3.0, optimizer="sgd")
    assert_rates(hparams, _SCHEMES[scheme], scale=3.0)


@pytest.mark.parametrize(
    ("optimizer", "scale"),
    [
        ("adam", 0.002),
        ("true_adam", 0.002),
        ("multistep_adam", 0.002),
        ("adam_w", 0.002),
        ("adafactor", 1.0),
        ("momentum", 1.0),
        ("sgd", 1.0),
    ],
)
def test_legacy_schemes_are_scaled_for_the_adam_family(optimizer, scale):
    hparams = small(
        learning_rate_schedule="legacy",
        learning_rate_decay_scheme="none",
        learning_rate=3.0,
        optimizer=optimizer,
    )
    assert_close(Schedule(hparams)(10), 3.0 * scale, TERMS)


def test_an_empty_legacy_scheme_counts_as_unset():
    schedules = (
        Schedule(small(learning_rate_schedule="legacy", learning_rate_decay_scheme=name))
        for name in ("", "none")
    )
    empty, none = ([float(schedule(step)) for step in (0, 5, 40)] for schedule in schedules)
    assert empty == none


def test_legacy_without_a_warm_up_starts_at_one():
    hparams = small(
        learning_rate_schedule="legacy",
        learning_rate_decay_scheme="none",
        learning_rate_warmup_steps=0,
        learning_rate=3.0,
        optimizer="sgd",
    )
    assert_rates(hparams, {0: 3.0, 1: 3.0})


def test_the_rate_never_falls_below_the_minimum():
    hparams = small(
        learning_rate_schedule="constant*single_cycle_cos_decay", learning_rate_minimum=0.3
    )
    assert_rates(hparams, {10: 2.0, 30: 1.0, 50: 0.3, 90: 0.3})


def test_unknown_factor_names_the_nearest():
    hparams = registry.hparams("transformer_base").override("learning_rate_schedule=rsqrt_deca")
    with pytest.raises(UsageError, match="unknown factor 'rsqrt_deca'; did you mean 'rsqrt_decay'"):
        Schedule(hparams)


@pytest.mark.parametrize("formula", ["linear_decay", "constant*linear_warmup*linear_decay"])
def test_a_factor_that_depends_on_the_number_of_steps_says_what_replaces_it(formula):
    with pytest.raises(UsageError, match=r"train_steps, .* write single_cycle_cos_decay"):
        Schedule(small(learning_rate_schedule=formula))


def test_warmup_rises_in_equal_steps():
    schedule = Schedule(registry.hparams("transformer_big"))
    rates = [float(schedule(step)) for step in (10, 20, 30)]
    assert_close(rates[2] - rates[1], rates[1] - rates[0], TERMS, scale=rates[2])


def test_an_unknown_legacy_scheme_shows_at_once():
    with pytest.raises(UsageError, match=r"decay_scheme=nom: .*; did you mean 'noam'"):
        registry.hparams("transformer_base_v1").override("learning_rate_decay_scheme=nom")


def test_the_fields_name_every_scheme_and_factor():
    fields = settings_of(BasicHParams)
    assert {*fields["learning_rate_decay_scheme"].choices} == {"", *learning_rate._SCHEMES}
    words = fields["learning_rate_schedule"].help.replace(",", " ").replace(";", " ").split()
    assert {word.rstrip(":") for word in words} >= {*learning_rate._FACTORS}
