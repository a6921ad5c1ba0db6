"""Sets with neither T2T's nor the paper's values recorded: they never change their meaning.

other_sets.json holds the default of every field: of BasicHParams, of each other class what it adds
or changes; and what each set changes in its class.
"""

import json
import pathlib

import pytest

from t2t_lite import registry

_FOLDER = pathlib.Path(__file__).parent


def _recorded(name: str) -> dict[str, dict]:
    return json.loads((_FOLDER / name).read_text(encoding="utf-8"))


_SETS = _recorded("other_sets.json")


def test_every_set_is_recorded_somewhere(golden):
    elsewhere = {*_recorded("upstream_sets.json"), *_recorded("paper_sets.json")}
    elsewhere |= json.loads((golden / "hparams_sets.json").read_text(encoding="utf-8")).keys()
    assert not set(registry.list_hparams()) - elsewhere - _SETS.keys()


@pytest.mark.parametrize("name", [name for name in _SETS if name.islower()])
def test_values(name: str):
    hparams = registry.hparams(name)
    kind = type(hparams).__name__
    wanted = _SETS["BasicHParams"] | _SETS[kind] | _SETS[name]
    ours = hparams.to_dict()
    assert {field: ours[field] for field in wanted} == wanted
