"""Options: what a dataclass field says about itself, and the values that it refuses."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from t2t_lite.errors import UsageError
from t2t_lite.hyperparameters import HParams
from t2t_lite.options import REQUIRED, Config, Option, option, options_of, required_options


@dataclasses.dataclass(frozen=True)
class Oven(Config):
    dish: str = option(REQUIRED, "What to bake.", group="Food")
    recipe: str | tuple[str, ...] = option("", "Its file.", path=True)
    heat: int | None = option(None, "Degrees.", minimum=0, maximum=300, group="How")
    hours: float = option(0.5, "Hours.", minimum=0)
    fan: bool | None = option(None, "Blow.")
    mode: str = option("top", "Where heat comes from.", choices=("top", "bottom", "both"))
    note: str = ""  # no option


@dataclasses.dataclass
class Knobs(HParams):
    size: int = option(4, "Size.", minimum=1)
    kind: str = option("a", "Kind.", choices=("a", "b"))
    rate: float = 0.5
    share: float = option(0.0, "Share.", minimum=0, below=1)


def test_a_field_says_all_that_a_flag_needs():
    assert options_of(Oven) == (
        Option("dish", str, "", "What to bake."),
        Option("recipe", pathlib.Path, "", "Its file.", others=(tuple,)),
        Option("heat", int, None, "Degrees.", minimum=0, maximum=300),
        Option("hours", float, 0.5, "Hours.", minimum=0),
        Option("fan", bool, None, "Blow."),
        Option("mode", str, "top", "Where heat comes from.", choices=("top", "bottom", "both")),
    )
    assert required_options(Oven) == ["dish"]


def test_allowed_values_are_kept():
    oven = Oven("pie", heat=300, hours=1, fan=True, mode="both", note="x")
    assert dataclasses.astuple(oven) == ("pie", "", 300, 1, True, "both", "x")
    oven = Oven("pie", heat=np.int64(7), hours=np.float32(2))
    assert json.dumps([oven.heat, oven.hours]) == "[7, 2.0]"


def test_a_path_may_be_a_pathlib_path():
    assert Oven("pie", recipe=pathlib.Path("a/b")).recipe == "a/b"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heat": -1}, "heat=-1 is less than 0"),
        ({"heat": 301}, "heat=301 is greater than 300"),
        ({"heat": "9"}, "heat=9 is not a whole number"),
        ({"heat": 1.5}, "heat=1.5 is not a whole number"),
        ({"hours": float("nan")}, "hours=nan is less than 0"),
        ({"mode": "side"}, "mode=side, expected top, bottom or both"),
    ],
)
def test_other_values_are_refused_by_name(values, message):
    with pytest.raises(UsageError) as error:
        Oven("pie", **values)
    assert str(error.value) == message
    with pytest.raises(UsageError):
        dataclasses.replace(Oven("pie"), **values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("size=0", "hparam 'size': 0 is less than 1"),
        ("kind=c", "hparam 'kind': 'c', expected a or b"),
        ("share=1", "hparam 'share': 1.0 is not less than 1"),
    ],
)
def test_hyperparameters_may_have_bounds(changes, message):
    with pytest.raises(UsageError) as error:
        Knobs().override(changes)
    assert str(error.value) == message
    assert Knobs().override("size=1,kind=b,rate=-1") == Knobs(1, "b", -1.0)


@pytest.mark.parametrize(
    ("kind", "default", "value", "message"),
    [
        (bool, False, "false", " is not True or False"),
        (bool, False, None, " is not True or False"),
        (int, 7, True, " is not a whole number"),
        (int, 7, None, " is not a whole number"),
        (int, 7, 2.5, " is not a whole number"),
        (str, "a", 5, " is not a text"),
        (pathlib.Path, "", 3, " is not a path"),
        (int, None, None, ""),
        (float, 0.5, 1, ""),
    ],
)
def test_a_value_of_another_type_is_refused(kind, default, value, message):
    assert Option("size", kind, default, "Size.").violation(value) == message
