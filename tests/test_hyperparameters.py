"""HParams: overrides by string, types, JSON, freezing."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.errors import UsageError
from t2t_lite.hyperparameters import HParams


@dataclasses.dataclass
class Example(HParams):
    size: int = 4
    rate: float = 0.5
    shared: bool = False
    pos: str = "timing"
    limit: float | None = None


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
        ("size=1.0", "hparam 'size': '1.0' is not of type int"),
        ("size=", "hparam 'size': '' is not of type int"),
        ("rate=fast", "hparam 'rate': 'fast' is not of type float"),
        ("rate=nan", "hparam 'rate': 'nan' is not of type float"),
        ("rate=inf", "hparam 'rate': 'inf' is not of type float"),
        ("shared=yes", "hparam 'shared': 'yes' is not of type bool"),
        ("shared=2", "hparam 'shared': '2' is not of type bool"),
        ("limit=low", "hparam 'limit': 'low' is not of type float"),
        ("_frozen=1", "unknown hparam '_frozen'"),
        ("override=1", "unknown hparam 'override'"),
    ],
)
def test_bad_overrides(text: str, message: str):
    with pytest.raises(UsageError, match=message):
        Example().override(text)


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
        ({"size": "5"}, "hparam 'size': '5' is not of type int"),
        ({"size": True}, "hparam 'size': True is not of type int"),
        ({"size": 5.0}, "hparam 'size': 5.0 is not of type int"),
        ({"size": None}, "hparam 'size': None is not of type int"),
        ({"shared": 1}, "hparam 'shared': 1 is not of type bool"),
        ({"pos": ["a"]}, "hparam 'pos'.* is not of type str"),
        ({"limit": "x"}, r"hparam 'limit': 'x' is not of type float \| None"),
    ],
)
def test_ill_typed_json(values: dict[str, object], message: str):
    with pytest.raises(UsageError, match=message):
        Example.from_dict(values)


def test_a_mistyped_attribute_is_an_error():
    with pytest.raises(UsageError, match="unknown hparam 'sise'; did you mean 'size'"):
        Example().sise = 3


def test_frozen_means_frozen():
    frozen = Example().freeze()
    with pytest.raises(AttributeError, match="frozen: size cannot become 3"):
        frozen.size = 3
    assert frozen.size == 4


def test_a_copy_of_a_frozen_object_can_change():
    for copy in (Example().freeze().copy(rate=2.0), Example().freeze().override("rate=2")):
        copy.size = 3
        assert copy == Example(size=3, rate=2.0)


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
