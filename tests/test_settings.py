"""Settings: what a field says about itself, the values that it refuses, and HParams as text."""

import copy
import dataclasses
import json
import pathlib
import pickle
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import UsageError
from t2t_lite.settings import (
    REQUIRED,
    Config,
    HParams,
    Setting,
    meant_by,
    required_settings,
    setting,
    settings_by_group,
    to_assignments,
)


@dataclasses.dataclass(frozen=True)
class Oven(Config):
    dish: str = setting(REQUIRED, "What to bake.", group="Food")
    recipe: str | tuple[str, ...] = setting("", "Its file.", path=True)
    heat: int | None = setting(None, "Degrees.", minimum=0, maximum=300, group="How")
    hours: float = setting(0.5, "Hours.", above=0)
    fan: bool | None = setting(None, "Blow.")
    mode: str = setting("top", "Where heat comes from.", choices=("top", "bottom", "both"))
    note: str = ""


@dataclasses.dataclass
class Example(HParams):
    size: int = 4
    rate: float = 0.5
    shared: bool = False
    pos: str = "timing"
    limit: float | None = None


@dataclasses.dataclass
class Knobs(HParams):
    size: int = setting(4, "Size.", minimum=1)
    kind: str = setting("a", "Kind.", choices=("a", "b"))
    share: float = setting(0.0, "Share.", minimum=0, below=1)
    top: int = setting(-1, "Ranks; -1: all.", minimum=1)
    rate: float = 0.5


def test_a_field_says_all_that_a_flag_needs():
    how: dict = {"group": "How"}
    assert settings_by_group(Oven) == {
        "Food": (
            Setting("dish", str, "", "What to bake.", group="Food"),
            Setting("recipe", pathlib.Path, "", "Its file.", others=(tuple,), group="Food"),
        ),
        "How": (
            Setting("heat", int, None, "Degrees.", minimum=0, maximum=300, **how),
            Setting("hours", float, 0.5, "Hours.", above=0, **how),
            Setting("fan", bool, None, "Blow.", **how),
            Setting(
                "mode",
                str,
                "top",
                "Where heat comes from.",
                choices=("top", "bottom", "both"),
                **how,
            ),
            Setting("note", str, "", "", **how),
        ),
    }
    assert required_settings(Oven) == ["dish"]


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ({}, ""),
        ({"minimum": 0, "below": 1}, "at least 0 and below 1"),
        ({"above": 0, "maximum": 0.5}, "above 0 and at most 0.5"),
        ({"choices": ("a", "b", "c")}, "a, b or c"),
        ({"choices": ("a",)}, "a"),
    ],
)
def test_bounds_in_words(bounds, text):
    assert Setting("x", float, 0.0, "", **bounds).bounds == text


def test_allowed_values_are_kept():
    oven = Oven("pie", heat=300, hours=1, fan=True, mode="both", note="x")
    assert dataclasses.astuple(oven) == ("pie", "", 300, 1, True, "both", "x")
    oven = Oven("pie", heat=np.int64(7), hours=np.float32(2))
    assert json.dumps([oven.heat, oven.hours]) == "[7, 2.0]"
    assert Oven("pie", recipe=pathlib.Path("a/b")).recipe == "a/b"
    assert Oven("pie", recipe="~/b").recipe == str(pathlib.Path("~/b").expanduser())
    assert Oven("pie", recipe=("a", "b")).recipe == ("a", "b")
    assert Knobs(top=-1, size=np.int32(3)).override("size=1,kind=b,rate=-1") == Knobs(
        1, "b", rate=-1.0
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"heat": -1}, "heat=-1: expected a whole number, at least 0 and at most 300 (Degrees.)"),
        ({"heat": 301}, "heat=301: expected a whole number, at least 0 and at most 300 (Degrees.)"),
        ({"heat": "9"}, "heat='9': expected a whole number, at least 0 and at most 300 (Degrees.)"),
        ({"hours": 0}, "hours=0: expected a number, above 0 (Hours.)"),
        ({"hours": float("nan")}, "hours=nan: expected a number, above 0 (Hours.)"),
        ({"hours": float("inf")}, "hours=inf: expected a number, above 0 (Hours.)"),
        ({"mode": "side"}, "mode=side: expected top, bottom or both (Where heat comes from.)"),
    ],
)
def test_other_values_are_refused(values, message):
    with pytest.raises(UsageError) as error:
        Oven("pie", **values)
    assert str(error.value) == message
    with pytest.raises(UsageError):
        dataclasses.replace(Oven("pie"), **values)


@pytest.mark.parametrize(
    ("kind", "default", "value", "expected"),
    [
        (bool, False, "false", "true or false"),
        (bool, False, 1, "true or false"),
        (bool, False, None, "true or false"),
        (int, 7, True, "a whole number"),
        (int, 7, None, "a whole number"),
        (int, 7, 2.5, "a whole number"),
        (float, 7.0, False, "a number"),
        (float, 7.0, 10**400, "a number"),
        (str, "a", 5, "a text"),
        (pathlib.Path, "", 3, "a path"),
        (list, [1], 3, "a list in brackets, such as [1,2]"),
    ],
)
def test_a_value_of_another_type_is_refused(kind, default, value, expected):
    with pytest.raises(UsageError) as error:
        Setting("size", kind, default, "Size.").checked(value)
    assert str(error.value).startswith("size=")
    assert str(error.value).endswith(f": expected {expected} (Size.)")


def test_a_value_that_fits_another_type_is_converted():
    assert Setting("size", int, None, "Size.").checked(None) is None
    converted = Setting("rate", float, 0.5, "Rate.").checked(1)
    assert (converted, type(converted)) == (1, float)


_WRONG_KNOBS = [
    ({"size": 0}, "hparam size=0: expected a whole number, at least 1 (Size.)"),
    ({"size": 1.5}, "hparam size=1.5: expected a whole number, at least 1 (Size.)"),
    ({"kind": "c"}, "hparam kind=c: expected a or b (Kind.)"),
    ({"share": 1.0}, "hparam share=1.0: expected a number, at least 0 and below 1 (Share.)"),
    ({"top": 0}, "hparam top=0: expected a whole number, at least 1 (Ranks; -1: all.)"),
]


@pytest.mark.parametrize(("changes", "message"), _WRONG_KNOBS)
def test_hyperparameters_are_checked_wherever_they_come_from(changes, message):
    ((name, value),) = changes.items()
    for change in (
        lambda: Knobs(**changes),
        lambda: Knobs().copy(**changes),
        lambda: Knobs().freeze().override(f"{name}={value}"),
        lambda: Knobs.from_dict(changes),
        lambda: setattr(Knobs(), name, value),
    ):
        with pytest.raises(UsageError) as error:
            change()
        assert str(error.value).replace("'", "") == message


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("", {}),
        ("size=8", {"size": 8}),
        (" size = 8 , pos = emb ,", {"size": 8, "pos": "emb"}),
        ("rate=1,size=-3", {"rate": 1.0, "size": -3}),
        ("rate=1e-9", {"rate": 1e-9}),
        ("shared=true", {"shared": True}),
        ("shared=True", {"shared": True}),
        ("shared=1", {"shared": True}),
        ("shared=FALSE", {"shared": False}),
        ("pos=", {"pos": ""}),
        ("pos=a*b=c", {"pos": "a*b=c"}),
        ("limit=0.25", {"limit": 0.25}),
        ("limit=none", {"limit": None}),
    ],
)
def test_override(text: str, changes: dict[str, object]):
    changed = Example().override(text)
    assert changed == Example(**changes)
    assert type(changed.rate) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sizes=8", "unknown hparam 'sizes'; did you mean 'size'"),
        ("qqqq=8", "unknown hparam 'qqqq'$"),
        ("size", "'size': expected name=value"),
        ("size=1,size=2", "'size' is given twice"),
        ("size=1.0", "hparam size='1.0': expected a whole number"),
        ("size=", "hparam size='': expected a whole number"),
        ("rate=fast", "hparam rate='fast': expected a number"),
        ("rate=nan", "hparam rate=nan: expected a number"),
        ("rate=inf", "hparam rate=inf: expected a number"),
        ("shared=yes", "hparam shared='yes': expected true or false"),
        ("shared=2", "hparam shared='2': expected true or false"),
        ("limit=low", "hparam limit='low': expected a number"),
        ("_frozen=1", "unknown hparam '_frozen'"),
        ("override=1", "unknown hparam 'override'"),
    ],
)
def test_bad_overrides(text: str, message: str):
    with pytest.raises(UsageError, match=message):
        Example().override(text)


@dataclasses.dataclass
class Lists(HParams):
    sizes: list[int] = dataclasses.field(default_factory=lambda: [3, 5])
    rates: list[float] = dataclasses.field(default_factory=lambda: [0.5])
    switches: list[bool] = dataclasses.field(default_factory=lambda: [True])
    names: list[str] = dataclasses.field(default_factory=lambda: ["a"])
    whole: list[float] = dataclasses.field(default_factory=lambda: [1, 2])
    empty: list[int] = dataclasses.field(default_factory=list)
    absent: list[float] | None = None
    depth: int = 1


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("sizes=[3]", {"sizes": [3]}),
        ("sizes=[3,4],depth=2", {"sizes": [3, 4], "depth": 2}),
        (" depth = 2 , sizes = [ 3, 4  5 ] ,", {"sizes": [3, 4, 5], "depth": 2}),
        ("sizes=[]", {"sizes": []}),
        ("rates=[1,-2e-3]", {"rates": [1.0, -0.002]}),
        ("switches=[false,True,0]", {"switches": [False, True, False]}),
        ("names=[low,high],sizes=[7]", {"names": ["low", "high"], "sizes": [7]}),
        (
            "whole=[0.5],empty=[3,5],absent=[1.5]",
            {"whole": [0.5], "empty": [3, 5], "absent": [1.5]},
        ),
    ],
)
def test_lists_stand_in_brackets(text, changes):
    changed = Lists().override(text)
    assert changed == Lists(**changes)
    assert [*map(type, changed.rates)] == [float] * len(changed.rates)
    assert Lists().override(to_assignments(changed, Lists().to_dict())) == changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sizes=3", "hparam sizes=3: expected a list in brackets, such as"),
        ("sizes=3,4", "hparam '4': expected name=value"),
        ("sizes=[3,4", "hparam '4': expected name=value"),
        ("sizes=[3,a]", r"hparam sizes=\[3,a\]: expected a list in brackets"),
        ("sizes=[0.5]", r"hparam sizes=\[0.5\]: expected a list in brackets"),
        ("depth=[1,2]", r"hparam depth='\[1,2\]': expected a whole number"),
    ],
)
def test_bad_lists(text, message):
    with pytest.raises(UsageError, match=message):
        Lists().override(text)


def test_an_item_cannot_have_a_comma():
    with pytest.raises(UsageError, match="must not contain a comma"):
        to_assignments(Lists(names=["a,b"]), ["names"])


def test_override_leaves_the_original_alone():
    original = Example()
    original.override("size=9")
    assert original == Example()


examples = st.builds(
    Example,
    size=st.integers(),
    rate=st.floats(allow_nan=False, allow_infinity=False),
    shared=st.booleans(),
    pos=st.text(),
    limit=st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


@given(examples)
def test_json_round_trip(hparams: Example):
    assert Example.from_dict(json.loads(hparams.to_json())) == hparams


@given(examples, examples)
def test_override_can_say_any_number(one: Example, other: Example):
    text = f"size={other.size},rate={other.rate!r},shared={other.shared},limit={other.limit!r}"
    assert one.override(text) == dataclasses.replace(other, pos=one.pos)


def test_a_missing_field_keeps_its_default():
    assert Example.from_dict({"size": 5}) == Example(size=5)
    assert Example.from_dict({"rate": 1}).rate == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sice": 5}, "unknown hparam 'sice'; did you mean 'size'"),
        ({"size": "5"}, "hparam size='5': expected a whole number"),
        ({"size": True}, "hparam size=True: expected a whole number"),
        ({"size": 5.0}, "hparam size=5.0: expected a whole number"),
        ({"size": None}, "hparam size=None: expected a whole number"),
        ({"shared": 1}, "hparam shared=1: expected true or false"),
        ({"pos": ["a"]}, r"hparam pos=\['a'\]: expected a text"),
        ({"limit": "x"}, "hparam limit='x': expected a number"),
    ],
)
def test_ill_typed_json(values: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        Example.from_dict(values)


def test_a_mistyped_attribute_is_an_error():
    with pytest.raises(UsageError, match="unknown hparam 'sise'; did you mean 'size'"):
        Example().sise = 3
    with pytest.raises(UsageError, match="unknown hparam 'sise'; did you mean 'size'"):
        Example().copy(sise=3)


def test_frozen_means_frozen():
    frozen = Example().freeze()
    with pytest.raises(AttributeError, match="frozen: size cannot become 3"):
        frozen.size = 3
    assert frozen.size == 4


def test_a_copy_of_a_frozen_object_can_change():
    for other in (Example().freeze().copy(rate=2.0), Example().freeze().override("rate=2")):
        other.size = 3
        assert other == Example(size=3, rate=2.0)


def test_json_has_one_field_a_line_in_order():
    lines = Example().to_json().splitlines()
    assert lines[1:-1] == [
        ' "size": 4,',
        ' "rate": 0.5,',
        ' "shared": false,',
        ' "pos": "timing",',
        ' "limit": null',
    ]


def test_differences():
    assert Example().differences(Example()) == []
    assert Example(size=1).differences(Example(pos="emb")) == [
        "size: 1 != 4",
        "pos: 'timing' != 'emb'",
    ]


@pytest.mark.parametrize(
    ("mine", "theirs", "is_same"),
    [
        ("a + b", "a+b", True),
        ("none", "", True),
        ("a+b", "b+a", False),
        ("ab", "a+b", False),
    ],
)
def test_spelling_makes_no_difference(mine, theirs, is_same):
    @dataclasses.dataclass
    class Spelled(Example):
        text: str = ""
        parts: str = ""

        sets: ClassVar[tuple[str, ...]] = ("parts",)

    assert (Spelled(text=mine).differences(Spelled(text=theirs)) == []) == is_same
    same_set = set(mine.replace(" ", "").split("+")) == set(theirs.split("+"))
    assert (Spelled(parts=mine).differences(Spelled(parts=theirs)) == []) == same_set


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("a=0.50,b=x", " b = x , a=.5,", True),
        ("a=1e-1", "a=0.10", True),
        ("a=true", "a=1", True),
        ("a=[1,2.0],b=3", "b=3,a=[1, 2]", True),
        ("a=[1,2]", "a=[2,1]", False),
        ("", " , ", True),
        ("a=0.5", "a=0.51", False),
        ("a=x", "a=X", False),
        ("a=1", "b=1", False),
    ],
)
def test_assignments_mean_the_same_however_they_are_spelled(one, other, is_same):
    assert (meant_by(one) == meant_by(other)) == is_same


def test_a_field_that_only_one_class_has_differs():
    @dataclasses.dataclass
    class Larger(Example):
        depth: int = 2

    assert Example().differences(Larger()) == ["depth: None != 2"]
    assert Larger().differences(Example()) == ["depth: 2 != None"]


READS = {
    "nothing": (lambda knobs: None, []),
    "a field": (lambda knobs: knobs.size, ["size"]),
    "a field by name": (lambda knobs: getattr(knobs, "share", 0), ["share"]),
    "a copy's field": (lambda knobs: knobs.copy(top=3).override("rate=1").kind, ["kind"]),
    "a frozen copy's field": (lambda knobs: knobs.copy().freeze().rate, ["rate"]),
    "names": (lambda knobs: knobs.names(), []),
    "a dict": (lambda knobs: knobs.to_dict(), Knobs.names()),
    "attributes": (lambda knobs: vars(knobs), Knobs.names()),
    "a pickle": (pickle.dumps, Knobs.names()),
    "a shallow copy": (copy.copy, Knobs.names()),
    "a deep copy": (copy.deepcopy, Knobs.names()),
    "a dataclass": (dataclasses.replace, Knobs.names()),
}


@pytest.mark.parametrize("read", READS)
def test_what_is_read_is_noted(read):
    knobs = Knobs()
    knobs.note_reads()
    function, names = READS[read]
    function(knobs)
    assert knobs.unread(Knobs.names()) == [name for name in Knobs.names() if name not in names]


def test_without_a_note_nothing_counts_as_unread():
    assert Knobs().unread(Knobs.names()) == []


@dataclasses.dataclass(frozen=True)
class Trip(Config):
    ticket: str = setting("", "Where to.")
    seat: int = setting(1, "Row.", needs="ticket")
    window: bool | None = setting(None, "By the window.", needs="ticket")


@pytest.mark.parametrize("given", [{"seat": 2}, {"window": False}])
def test_what_has_an_effect_only_beside_another_setting_needs_it(given):
    name = next(iter(given))
    with pytest.raises(UsageError, match=rf"--{name} needs --ticket: give both or neither"):
        Trip(**given)
    assert getattr(Trip("home", **given), name) == given[name]
    assert Trip(seat=1, window=None) == Trip()
