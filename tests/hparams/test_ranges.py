"""Ranges of hyperparameters hold what is set, refuse what is none, and T2T's are T2T's."""

import numpy as np
import pytest

from support.registries import restored
from t2t_lite import registry
from t2t_lite.bin.registry_help import registry_help
from t2t_lite.errors import UsageError
from t2t_lite.hparams.ranges import Range, RangedHParams, check_values, ranges_of


@pytest.fixture
def rhp() -> RangedHParams:
    return RangedHParams()


@pytest.fixture
def registered():
    with restored():
        yield registry.register_ranged_hparams


def test_t2ts_ranges_have_t2ts_values():
    log, linear = RangedHParams.LOG_SCALE, RangedHParams.LINEAR_SCALE
    expected = {
        "learning_rate": Range("float", 0.3, 3.0, scale=log),
        "learning_rate_warmup_steps": Range(
            "discrete", choices=(1000, 2000, 4000, 8000, 16000), scale=linear
        ),
        "initializer_gain": Range("float", 0.5, 2.0),
        "optimizer_adam_beta1": Range("float", 0.85, 0.95),
        "optimizer_adam_beta2": Range("float", 0.97, 0.99),
        "weight_decay": Range("float", 0.0, 1e-4),
    }
    known = registry.hparams("transformer_base").names()
    assert ranges_of("transformer_base_range", known) == expected
    decay = {"weight_decay": Range("float", 0.0, 2.0)}
    assert ranges_of("transformer_tpu_range", known) == expected | decay
    small = {"learning_rate": expected["learning_rate"]} | decay
    assert ranges_of("transformer_tiny_tpu_range", known) == small


def test_t2ts_ranges_of_universal_transformers_have_t2ts_values():
    known = registry.hparams("universal_transformer_base").names()
    sizes = {
        "hidden_size": (1024, 2048, 4096),
        "filter_size": (2048, 4096, 8192),
        "num_heads": (8, 16, 32),
    }

    def expected(**changes: Range) -> dict[str, Range]:
        discrete = {name: Range("discrete", choices=values) for name, values in sizes.items()}
        rate = Range("float", 0.3, 3.0, scale=RangedHParams.LOG_SCALE)
        return {
            **discrete,
            "learning_rate": rate,
            "weight_decay": Range("float", 0.0, 2.0),
            **changes,
        }

    steps = Range("discrete", choices=(6, 8, 10))
    assert ranges_of("universal_transformer_base_range", known) == expected(num_rec_steps=steps)
    adaptive = {
        "act_max_steps": Range("discrete", choices=(8, 16, 32)),
        "act_loss_weight": Range("float", 0.0, 0.5),
    }
    found = ranges_of("adaptive_universal_transformer_base_range", known)
    assert found == expected(**adaptive)


@pytest.mark.parametrize("value", [Range("float", 0.0, 3.0), Range("float", 1e-3, 10.0, scale=2)])
def test_a_range_some_of_whose_values_its_hparam_may_have_is_searched(value, caplog):
    check_values("mine", {"attention_dropout": value}, registry.hparams("transformer_tiny"))
    assert all(line.startswith("hparams range mine: trials will fail") for line in caplog.messages)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("name", registry.list_ranged_hparams())
def test_every_registered_range_is_of_hparams_of_its_set(name):
    base = registry.hparams(name.removesuffix("_range"))
    for field, value in ranges_of(name, base.names()).items():
        for choice in value.choices or (value.low, value.high):
            base.copy(**{field: choice})


def test_every_kind_with_values_of_numpy(rhp):
    rhp.set_float("a", np.float32(0.5), 2, rhp.LOG_SCALE, 5)
    rhp.set_int("b", np.int64(1), 9.0, scale=rhp.REVERSE_LOG_SCALE, length=3)
    rhp.set_discrete("c", np.array([512, 64, 64]), rhp.LOG_SCALE)
    rhp.set_categorical("d", ["x", True, 1, None, "x"], length=None)
    assert rhp.ranges == {
        "a": Range("float", 0.5, 2.0, scale=2),
        "b": Range("int", 1, 9, scale=3),
        "c": Range("discrete", choices=(64, 512), scale=2),
        "d": Range("categorical", choices=("x", True, 1, None)),
    }
    assert [type(choice) for choice in rhp.ranges["c"].choices] == [int, int]
    assert str(rhp.ranges["b"]) == "int from 1 to 9, reverse logarithmic"


def test_a_range_that_is_set_again_replaces_the_earlier_one_of_its_kind(rhp):
    rhp.set_float("a", 1, 2)
    rhp.set_float("a", 3, 4)
    assert rhp.ranges == {"a": Range("float", 3.0, 4.0)}
    with pytest.raises(UsageError, match=r"'a': it was set as float before, .* become discrete"):
        rhp.set_discrete("a", [3])


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        ("float", (2, 1), "from 2.0 to 1.0 is not a range"),
        ("float", (float("nan"), 1), "not a range"),
        ("float", (0, float("inf")), "not a range"),
        ("float", (0, 1, 2), "a logarithmic scale needs numbers above 0, not 0.0"),
        ("int", (0, 1, 3), "a logarithmic scale needs numbers above 0, not 0"),
        ("float", (0, 1, 4), "unknown scale 4"),
        ("float", (0, 1, "LOG"), "unknown scale 'LOG'"),
        ("int", (0.5, 1), "expected whole numbers, got 0.5 and 1"),
        ("int", (1, float("inf")), "expected whole numbers, got 1 and inf"),
        ("int", (None, 1), "expected numbers, got None and 1"),
        ("float", ("low", 1), "expected numbers, got 'low' and 1"),
        ("float", (0, 10**400), "expected numbers, got 0 and 1000"),
        ("discrete", ([],), "expected at least one"),
        ("discrete", (["a"],), "expected numbers"),
        ("categorical", ([[1]],), "expected at least one number, text or switch"),
        ("categorical", (["a,b"],), "must not contain a comma"),
        ("categorical", ("timing",), "expected a list of values, got 'timing'"),
        ("discrete", ("12",), "expected a list of values, got '12'"),
    ],
)
def test_what_is_no_range_is_refused_with_its_name(rhp, kind, arguments, message):
    with pytest.raises(UsageError, match=f"^range of 'my_field': .*{message}"):
        getattr(rhp, f"set_{kind}")("my_field", *arguments)


def test_a_hparam_that_the_set_lacks_is_refused_with_the_nearest_name(registered):
    @registered
    def lacking_range(rhp):
        rhp.set_int("num_head", 1, 2)

    with pytest.raises(UsageError, match=r"unknown hparam 'num_head'; did you mean 'num_heads'"):
        ranges_of("lacking_range", ["num_heads"])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Range("float", 1.0, 4.0), "float from 1.0 to 4.0: .*expected a whole number"),
        (Range("float", 2.0, 4.0), "float from 2.0 to 4.0: .*expected a whole number"),
        (Range("int", -3, -1), "int from -3 to -1: .*at least 0"),
        (Range("discrete", choices=(0.5, 1.5)), "discrete 0.5, 1.5: .*expected a whole number"),
    ],
)
def test_a_range_without_a_value_that_its_hparam_may_have_is_refused(value, message):
    hparams = registry.hparams("transformer_tiny")
    with pytest.raises(UsageError, match=f"^hparams range 'mine': num_hidden_layers is {message}"):
        check_values("mine", {"num_hidden_layers": value}, hparams)


def test_a_choice_that_its_hparam_cannot_have_is_logged(caplog):
    found = {
        "pos": Range("categorical", choices=("timing", "sinus")),
        "layer_prepostprocess_dropout": Range("float", 0.0, 1.0),  # 1 itself is refused
    }
    check_values("mine", found, registry.hparams("transformer_tiny"))
    (line,) = caplog.messages
    assert line.startswith("hparams range mine: trials will fail by one of its values: hparam pos=")


@pytest.mark.parametrize("name", registry.list_ranged_hparams())
def test_every_value_of_a_registered_range_is_possible(name, caplog):
    base = registry.hparams(name.removesuffix("_range"))
    check_values(name, ranges_of(name, base.names()), base)
    assert not [line for line in caplog.messages if "trials will fail" in line]


def test_a_range_of_nothing_is_refused(registered):
    registered("empty_range")(lambda rhp: None)
    with pytest.raises(UsageError, match="'empty_range' sets no range"):
        ranges_of("empty_range", ["num_heads"])


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r"'transformer_bas_range'; did you mean 'transformer_ba"):
        registry.ranged_hparams("transformer_bas_range")
    with pytest.raises(UsageError, match="needs --hparams_range instead of --hparams_set"):
        registry.hparams("transformer_base_range")


def test_ranges_are_listed():
    assert "* transformer_base_range" in registry_help().partition("RangedHParams:")[2]
