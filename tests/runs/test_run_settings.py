"""flags.json is read as typed settings, and written with all that it had."""

import json

import pytest

from t2t_lite.errors import UserError
from t2t_lite.runs.run_settings import RunSettings

FLAGS = {
    "problem": "translate_ende_wmt32k",
    "model": "transformer",
    "hparams_set": "transformer_base",
    "output_dir": "run",
    "data_dir": "/data",
    "warm_start_from": "",
    "random_seed": 7,
    "parts": 8,
    "schedule": "train",
    "train_steps": 100,
    "eval_use_test_set": False,
    "eval_steps": 100,
    "decode_hparams": "alpha=0.6",
    "best_metric": "",
    "keep_checkpoint_max": 20,
    "keep_best_max": 1,
    "eval_early_stopping_steps": None,
    "a flag of another release": ["x"],
}
OLD = {name: FLAGS[name] for name in ("problem", "model", "hparams_set")}


def test_what_is_written_is_read_again_with_flags_that_nothing_else_reads(tmp_path):
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(FLAGS))
    settings = RunSettings.read(path)
    assert (settings.parts, settings.random_seed, settings.train_steps) == (8, 7, 100)
    assert settings.others == {
        "eval_early_stopping_steps": None,
        "a flag of another release": ["x"],
    }
    path.write_text(settings.to_json())
    assert json.loads(path.read_text()) == FLAGS
    assert RunSettings.read(path) == settings


def test_a_folder_of_an_older_release_lacks_what_came_later(tmp_path):
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(OLD))
    settings = RunSettings.read(path)
    assert (settings.parts, settings.train_steps, settings.keep_best_max) == (None, None, None)
    path.write_text(settings.to_json())
    assert RunSettings.read(path) == settings


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("train_steps", "100", "a whole number"),
        ("keep_best_max", None, "a whole number"),
        ("eval_use_test_set", 1, "true or false"),
        ("schedule", 3, "text"),
    ],
)
def test_a_value_of_another_type_is_named_with_its_file(tmp_path, name, value, kind):
    path = tmp_path / "flags.json"
    path.write_text(json.dumps(OLD | {name: value}))
    with pytest.raises(UserError, match=rf"flags\.json: expected {kind} as '{name}', got "):
        RunSettings.read(path)
