"""Training on a mixture: what stops it changes nothing."""

import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from support.marks import by_name
from support.mixtures import FRENCH, GERMAN, MIXTURE, generate, toys
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files
from t2t_lite.training import trainer
from t2t_lite.training.preemption import PreemptionError
from t2t_lite.training.step import TrainStep

pytestmark = pytest.mark.integration

STEPS = 4


@pytest.fixture(scope="module", autouse=True)
def _toys():
    with toys():
        yield


@pytest.fixture(scope="module", autouse=True)
def _as_written():
    """Runs steps as written: tracing one takes longer than the few of a run."""
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    generate(folder)
    return folder


def config(data_dir, folder, problem=MIXTURE, **changes):
    changes = {"train_steps": STEPS, "schedule": "train"} | changes
    hparams = "batch_shuffle_size=2,mixture_temperature=3"
    return small_runs.make_config(data_dir, folder, hparams, problem=problem, **changes)


@pytest.fixture(scope="module")
def calm(data_dir, tmp_path_factory):
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("calm")
    trainer.run(config(data_dir, folder))
    return folder


@pytest.mark.parametrize("is_killed", [True, *by_name(False)])
def test_a_stopped_run_ends_as_an_undisturbed_one(calm, data_dir, tmp_path, monkeypatch, is_killed):
    step, calls = TrainStep.__call__, []

    def stopping(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == 4:  # the first call tries the largest batch
            os.kill(os.getpid(), signal.SIGTERM)
        return step(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "__call__", stopping)
        with pytest.raises(PreemptionError):
            trainer.run(config(data_dir, tmp_path))
    if is_killed:  # then the third step is lost
        for path in tmp_path.glob("model.ckpt-3*"):
            path.unlink()
    saved = checkpoint_files.checkpoints(tmp_path)[-1]
    assert checkpoint_files.step_of(saved) == (2 if is_killed else 3)
    trainer.run(config(data_dir, tmp_path))
    expected, found = (small_runs.records_of(folder, "train")[-1] for folder in (calm, tmp_path))
    assert expected.pop("kind") == found.pop("kind")
    assert expected["step"] == STEPS
    assert found == pytest.approx(expected, rel=1e-4), "another batch has another loss"
    states = [small_runs.newest_state(folder) for folder in (calm, tmp_path)]
    assert states[0].keys() == states[1].keys()
    for name, value in states[0].items():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            # The threads of TensorFlow add in any order.
            np.testing.assert_allclose(states[1][name], value, rtol=1e-3, atol=1e-5, err_msg=name)


def test_settings_name_the_members(calm):
    assert json.loads((calm / "flags.json").read_text())["problem"] == MIXTURE
    assert json.loads((calm / "hparams.json").read_text())["mixture_temperature"] == 3.0


def test_other_rates_are_another_run_on_the_same_files(calm, data_dir, tmp_path):
    with pytest.raises(UserError, match="problem"):
        trainer.run(config(data_dir, calm, problem=f"{GERMAN}:1+{FRENCH}:2"))
    weighted = "+".join(f"{name}:{n}" for n, name in enumerate(MIXTURE.split("+"), 1))
    trainer.run(config(data_dir, tmp_path, problem=weighted, train_steps=2))
    assert small_runs.kinds_and_steps(tmp_path) == [("train", 2)]
