"""The settings that workers must share."""

import dataclasses
import json
import logging
import shutil

import pytest

from t2t_lite.errors import UserError, warn_once
from t2t_lite.training.cluster.rendezvous import difference
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.resolved_settings import resolve_hparams, shared_settings


@pytest.fixture
def config(data_dir) -> TrainerConfig:
    return TrainerConfig(
        data_dir=str(data_dir),
        output_dir="run",
        problem="text2text_tmpdir",
        model="transformer",
        hparams_set="transformer_test",
        worker_hosts="a:1,b:2",
        worker_id=0,
    )


def other_than(config: TrainerConfig, **changes) -> str | None:
    """Returns the difference of a worker with changes from the chief."""
    changed = dataclasses.replace(config, worker_id=1, **changes)
    return difference(
        "worker 1",
        shared_settings(changed, resolve_hparams(changed)),
        shared_settings(config, resolve_hparams(config)),
    )


def test_a_change_that_the_schedule_does_not_read_is_a_warning(config, caplog):
    changes = "hidden_size=8,learning_rate_decay_steps=7"
    resolve_hparams(dataclasses.replace(config, hparams=changes))
    assert [line.partition(":")[0] for line in caplog.messages] == [
        "hparam learning_rate_decay_steps has no effect"
    ]


FALLS = (
    "learning_rate_schedule=constant*single_cycle_cos_decay,learning_rate_warmup_steps=10,"
    "learning_rate_decay_steps=40"
)


@pytest.mark.parametrize(
    ("settings", "steps"),
    [
        ({}, 250_000),
        ({"train_steps": 51}, 51),
        ({"train_steps": 51, "train_minutes": 5.0}, 51),
        ({"train_steps": 50}, None),
        ({"train_minutes": 5.0}, None),
        ({"schedule": "continuous_eval"}, None),
        ({"schedule": "evaluate"}, None),
        ({"hparams": f"{FALLS},learning_rate_minimum=1e-9"}, None),
    ],
)
def test_updates_with_a_rate_of_0_are_a_warning(settings, steps, config, caplog):
    warn_once.cache_clear()
    for _ in range(2):
        resolve_hparams(dataclasses.replace(config, **{"hparams": FALLS, **settings}))
    warning = (
        f"the learning rate is 0 after 50 updates, and the rest of --train_steps={steps} changes "
        "nothing: give --train_steps=50; or, in a new run, --hparams=learning_rate_decay_steps="
        f"{(steps or 0) - 10}, with which the rate falls to 0 at the end"
    )
    assert caplog.messages == ([warning] if steps else [])


def test_minutes_that_may_end_before_the_rate_is_0_are_no_warning(config, caplog):
    caplog.set_level(logging.INFO)
    resolve_hparams(dataclasses.replace(config, hparams=FALLS, train_minutes=7.5))
    line = "0 after 50 updates: if --train_minutes=7.5 suffices for more, they change nothing"
    assert line in caplog.text


@pytest.fixture
def copy(data_dir, tmp_path):
    return shutil.copytree(data_dir, tmp_path / "copy")


def test_folders_may_have_other_names(config, copy):
    assert other_than(config, data_dir=str(copy), output_dir="mnt/run") is None


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"train_steps": 7}, "--train_steps=7, but worker 0 has --train_steps=250000"),
        ({"random_seed": 7}, "--random_seed=7, but worker 0 has --random_seed=None"),
        ({"worker_gpu": 7}, "--worker_gpu=7, but worker 0 has --worker_gpu=None"),
        ({"hparams": "batch_size=7"}, "--hparams=batch_size=7, but worker 0 has --hparams=:"),
    ],
)
def test_unequal_flags(changes, difference, config):
    assert f"worker 1 has {difference}" in other_than(config, **changes)


def test_unequal_hyperparameters_of_one_set(config):
    """For example a user's set that has changed on one machine."""
    hparams = resolve_hparams(config)
    line = difference(
        "worker 1",
        shared_settings(config, hparams.copy(batch_size=7)),
        shared_settings(config, hparams),
    )
    assert "worker 1 has hparam batch_size=7, but worker 0 has hparam batch_size=" in line


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("text2text_tmpdir-train-00001-of-00002", "bytes of"),
        ("text2text_tmpdir-dev-00000-of-00001", "bytes of"),
        ("vocab.text2text_tmpdir.32768.subwords", "SHA-256 of"),
    ],
)
def test_unequal_data(name, what, config, copy):
    with (copy / name).open("ab") as file:
        file.write(b"\n")
    assert f"worker 1 has {what} {name}=" in other_than(config, data_dir=str(copy))


def test_data_made_from_something_else(config, copy):
    path = copy / "text2text_tmpdir.fingerprint.json"
    fingerprint = json.loads(path.read_text())
    for entry in fingerprint.values():
        entry["samples"] = "other"
    path.write_text(json.dumps(fingerprint))
    assert "worker 1 has fingerprint=" in other_than(config, data_dir=str(copy))


def test_missing_data(config, copy):
    (copy / "text2text_tmpdir-train-00001-of-00002").unlink()
    with pytest.raises(UserError, match="00001-of-00002 is missing"):
        other_than(config, data_dir=str(copy))


@pytest.mark.parametrize(
    ("changes", "splits"),
    [
        ({}, {"train", "dev"}),
        ({"eval_use_test_set": True}, {"train", "test"}),
        ({"schedule": "train"}, {"train"}),
        ({"schedule": "evaluate"}, {"dev"}),
        ({"schedule": "evaluate", "eval_use_test_set": True}, {"test"}),
    ],
)
def test_the_splits_that_are_read_are_compared(changes, splits, config, copy):
    dev, test = (copy / f"text2text_tmpdir-{name}-00000-of-00001" for name in ("dev", "test"))
    shutil.copyfile(dev, test)
    changed = dataclasses.replace(config, data_dir=str(copy), **changes)
    settings = shared_settings(changed, resolve_hparams(changed))
    sizes = [name for name in settings if name.startswith("bytes of ")]
    assert {name.split("-")[1] for name in sizes} == splits
