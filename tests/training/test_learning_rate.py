import json
import re

import pytest

from support.rounding import assert_close
from t2t_lite import registry
from t2t_lite.errors import UsageError, warn_once
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.settings import settings_of
from t2t_lite.training import learning_rate
from t2t_lite.training.learning_rate import Schedule, warn_of_unread

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
def test_registered_sets_have_the_rates_of_the_formulas(hparams_set):
    assert_rates(registry.hparams(hparams_set), _RATES[hparams_set])


_ROOT = 0.5**0.5

# Steps and rates, by hand, with a warm-up of 10 steps and cycles of 40.
_FACTORS = {
    "cosdecay": {0: 1, 10: 1, 20: 0.5, 30: 0.5 - _ROOT / 2, 40: 0, 60: 0.5, 80: 1},
    "single_cycle_cos_decay": {0: 1, 10: 1, 20: 0.5 + _ROOT / 2, 30: 0.5, 50: 0, 90: 0},
    "multi_cycle_cos_decay": {0: 1, 10: 1, 20: 0.5 + _ROOT / 2, 30: 0.5, 50: 0, 70: 0.5, 90: 1},
    "constant": {0: 2, 10: 2, 1000: 2},
    "constant*rsqrt_normalized_decay": {0: 2, 10: 2, 40: 1},
    "linear_warmup": {0: 0, 5: 0.5, 10: 1, 1000: 1},
    "rsqrt_decay": {0: 10**-0.5, 10: 10**-0.5, 40: 40**-0.5},
    "rsqrt_hidden_size": {0: 0.25, 1000: 0.25},  # of 16
    "exp_decay": {0: 1, 10: 1, 30: _ROOT, 50: 0.5, 90: 0.25},
}
# Of a rate of 3.
_SCHEMES = {
    "none": {0: 0.03, 5: 0.3, 10: 3, 1000: 3},
    "": {0: 0.03, 5: 0.3, 10: 3, 1000: 3},
    "exp": {0: 0.03, 5: 0.3, 10: 3, 30: 3 * _ROOT, 50: 1.5, 90: 0.75},
    "sqrt": {0: 0.03, 5: 0.3, 10: 1500, 11: 1500, 14: 750, 110: 150},
    "cosine": {0: 0.03, 5: 0.3, 10: 1.5 + 1.5 * _ROOT, 20: 1.5, 40: 0, 60: 1.5, 80: 3},
    "cyclelinear10x": {0: 0.03, 5: 0.3, 10: 9.9, 15: 5.4, 20: 0.9, 25: 5.4, 30: 9.9},
    "noam": {0: 3750 * 10**-1.5, 9: 3750 * 10**-0.5, 39: 3750 * 40**-0.5},
}
_OTHERS = [
    ("exp_decay", {"learning_rate_decay_staircase": True}, {10: 1, 30: 1, 50: 0.5, 90: 0.25}),
    (
        "constant*single_cycle_cos_decay",
        {"learning_rate_minimum": 0.3},
        {10: 2, 30: 1, 50: 0.3, 90: 0.3},
    ),
    (
        "legacy",
        {"learning_rate_decay_scheme": "none", "learning_rate_warmup_steps": 0},
        {0: 3, 1: 3},
    ),
]


def small(**changes):
    """A width of 16, a warm-up of 10 steps, cycles of 40 steps, and a rate that halves in each."""
    return registry.hparams("transformer_test").copy(
        **{
            "learning_rate_constant": 2.0,
            "learning_rate_warmup_steps": 10,
            "learning_rate_decay_steps": 40,
            "learning_rate_cosine_cycle_steps": 40,
            "learning_rate_decay_rate": 0.5,
            "learning_rate": 3.0,
            "optimizer": "sgd",
            **changes,
        }
    )


def assert_rates(hparams, table):
    """Compares the rates at some steps; a cosine of 0 is rounded as one of 1 is."""
    assert_close([Schedule(hparams)(step) for step in table], [*table.values()], TERMS)


@pytest.mark.parametrize(
    ("schedule", "changes", "rates"),
    [
        *((factor, {}, rates) for factor, rates in _FACTORS.items()),
        *(("legacy", {"learning_rate_decay_scheme": x}, rates) for x, rates in _SCHEMES.items()),
        *_OTHERS,
    ],
)
def test_schedules_have_the_rates_of_their_formulas(schedule, changes, rates):
    assert_rates(small(learning_rate_schedule=schedule, **changes), rates)


@pytest.mark.parametrize("formula", _FACTORS)
@pytest.mark.parametrize("minimum", [None, 0.0, 1e-9])
def test_the_end_of_a_rate_is_where_it_becomes_0_for_good(formula, minimum):
    """Not where a cosine turns."""
    hparams = small(learning_rate_schedule=f"{formula} * constant", learning_rate_minimum=minimum)
    falls = formula == "single_cycle_cos_decay" and not minimum
    assert hparams.learning_rate_end == (50 if falls else None)
    rates = [float(Schedule(hparams)(step)) for step in (49, 50, 51, 10**6)]
    assert (rates[0] > 0.0 == max(rates[1:])) == falls


@pytest.mark.parametrize(
    "optimizer", ["adam", "true_adam", "multistep_adam", "adam_w", "adafactor", "momentum"]
)
def test_legacy_schemes_are_scaled_for_the_adam_family(optimizer):
    hparams = small(
        learning_rate_schedule="legacy", learning_rate_decay_scheme="none", optimizer=optimizer
    )
    assert_rates(hparams, {10: 3.0 * (0.002 if "adam" in optimizer else 1.0)})


def test_unknown_factor_names_the_nearest():
    hparams = registry.hparams("transformer_base").override("learning_rate_schedule=rsqrt_deca")
    with pytest.raises(UsageError, match="unknown factor 'rsqrt_deca'; did you mean 'rsqrt_decay'"):
        Schedule(hparams)


@pytest.mark.parametrize("formula", ["linear_decay", "constant*linear_warmup*linear_decay"])
def test_a_factor_that_depends_on_the_number_of_steps_says_what_replaces_it(formula):
    with pytest.raises(UsageError, match=r"train_steps, .* write single_cycle_cos_decay"):
        Schedule(small(learning_rate_schedule=formula))


def test_an_unknown_legacy_scheme_shows_at_once():
    with pytest.raises(UsageError, match=r"decay_scheme=nom: .*; did you mean 'noam'"):
        registry.hparams("transformer_base_v1").override("learning_rate_decay_scheme=nom")


def test_the_fields_name_every_scheme_and_factor():
    fields = settings_of(BasicHParams)
    assert {*fields["learning_rate_decay_scheme"].choices} == {"", *learning_rate._SCHEMES}
    words = fields["learning_rate_schedule"].help.replace(",", " ").replace(";", " ").split()
    assert {word.rstrip(":") for word in words} >= {*learning_rate._FACTORS}


@pytest.mark.parametrize(
    ("schedule", "given", "read"),
    [
        ("constant*linear_warmup", "learning_rate", "learning_rate_constant, .*_warmup_steps, "),
        ("legacy", "learning_rate_constant", "learning_rate, learning_rate_decay_scheme, "),
        ("rsqrt_decay", "learning_rate_decay_steps", "learning_rate_warmup_steps, "),
        ("constant", "learning_rate_constant", ""),
        ("constant", "learning_rate_minimum", ""),
        ("exp_decay", "learning_rate_decay_staircase", ""),
        ("legacy", "learning_rate", ""),
        ("constant", "hidden_size", ""),
    ],
)
def test_what_the_schedule_does_not_read_is_a_warning(schedule, given, read, caplog):
    warn_once.cache_clear()
    for _ in range(2):
        warn_of_unread(small(learning_rate_schedule=schedule), [given])
    line = (
        rf"hparam {given} has no effect: .*={re.escape(schedule)} reads only {read}learning_rate_"
    )
    assert len(caplog.messages) == bool(read)
    assert all(re.match(line, message) for message in caplog.messages)
