"""A named set never changes its meaning, and those under T2T's names hold T2T's values.

sets.json holds the default of every field (of BasicHParams, and of each other class what it adds),
and what each set changes in its class. The other files were recorded from T2T.
"""

import json
import pathlib

import pytest

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams import upstream_sets

_FOLDER = pathlib.Path(__file__).parent
_SETS = json.loads((_FOLDER / "sets.json").read_text(encoding="utf-8"))

# What T2T adds to every encoder input; off here unless a T2T checkpoint is imported.
_DIFFERENT_HERE = {"use_target_space_embedding"}

# Fields of T2T's with another name here.
_RENAMED = {"activation_dtype": "dtype"}


def test_every_set_is_recorded():
    assert [name for name in _SETS if name.islower()] == registry.list_hparams()


@pytest.mark.parametrize("name", registry.list_hparams())
def test_values(name: str):
    hparams = registry.hparams(name)
    recorded = _SETS["BasicHParams"] | _SETS[type(hparams).__name__] | _SETS[name]
    assert hparams.to_dict() == recorded


def test_recorded_values(golden):
    recorded = json.loads((golden / "hparams_sets.json").read_text(encoding="utf-8"))
    base = recorded["transformer_base"]
    assert len(recorded) > 30
    for name in recorded:
        theirs = base | recorded[name].get("differs_from_transformer_base", {})
        theirs["pos"] = theirs["pos"] or "none"
        ours = registry.hparams(name).to_dict()
        fields = (ours.keys() & theirs.keys()) - _DIFFERENT_HERE
        assert len(fields) > 40
        assert {f: ours[f] for f in fields} == {f: theirs[f] for f in fields}, name


def test_recorded_values_of_sets_made_from_a_table():
    """All that T2T 1.15's source changes in transformer_base, set by set."""
    recorded = json.loads((_FOLDER / "upstream_sets.json").read_text(encoding="utf-8"))
    assert set(recorded) == set(upstream_sets._SETS)
    base = registry.hparams("transformer_base").to_dict()
    for name, changes in recorded.items():
        theirs = {_RENAMED.get(field, field): value for field, value in changes.items()}
        theirs["pos"] = theirs.get("pos", "timing") or "none"
        theirs["optimizer"] = theirs.get("optimizer", "adam").lower()
        ours = registry.hparams(name).to_dict()
        changed = {field for field, value in ours.items() if base.get(field) != value}
        fields = (changed | theirs.keys()) & ours.keys() & (base.keys() | theirs.keys())
        assert {f: ours[f] for f in fields} == {f: theirs.get(f, base.get(f)) for f in fields}, name


def test_sets_that_are_not_available_say_why():
    available = set(registry.list_hparams())
    for name in registry.list_refused_hparams():
        assert name not in available
        with pytest.raises(UsageError, match=f"'{name}' is not available: it needs") as raised:
            registry.hparams(name)
        instead = str(raised.value).partition("; instead: ")[2].split()
        assert not instead or instead[0] == "the" or instead[0].rstrip(",") in available


def test_sets_of_t2t_that_are_not_available_are_known_by_name():
    """Of a name that is not in the list, a user only learns that it is unknown."""
    recorded = (_FOLDER / "refused_sets.txt").read_text(encoding="utf-8").split()
    assert registry.list_refused_hparams() == recorded


@pytest.mark.parametrize("name", registry.list_hparams())
def test_every_set_survives_json_and_says_what_it_is(name: str):
    hparams = registry.hparams(name)
    assert type(hparams).from_dict(json.loads(hparams.to_json())) == hparams
    assert registry._hparams[name].__doc__
