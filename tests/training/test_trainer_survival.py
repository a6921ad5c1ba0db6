"""A run that is stopped or finds damaged files ends with the same result as another."""

import functools
import os
import pathlib
import signal

import numpy as np
import pytest

from support import small_runs
from support.limits import strategy_over
from support.rounding import assert_close
from support.terms import forward_terms, step_terms
from t2t_lite.errors import UserError
from t2t_lite.runs import checkpoint_files, run_folder
from t2t_lite.training import devices, trainer
from t2t_lite.training.evaluation import TeacherForced
from t2t_lite.training.preemption import PreemptionError
from t2t_lite.training.step import TrainStep

pytestmark = pytest.mark.slow

STEPS = 5
TRIAL = 1  # the first call of the step tries the largest batch


@pytest.fixture(scope="module")
def train(data_dir):
    """Returns a function that trains in a folder, up to STEPS."""

    def run(folder: pathlib.Path, hparams: str = "") -> None:
        hparams = f"batch_shuffle_size=2,{hparams}"
        trainer.run(
            small_runs.make_config(data_dir, folder, hparams, train_steps=STEPS, eval_steps=1)
        )

    return run


@pytest.fixture(scope="module")
def calm(train, tmp_path_factory) -> pathlib.Path:
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("calm")
    train(folder)
    return folder


def train_until_signal(train, folder: pathlib.Path, monkeypatch, owner: type, call: int) -> None:
    """Trains until SIGTERM comes as the `call`th call of `owner` begins."""
    method, calls = owner.__call__, []

    def signalling(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGTERM)
        return method(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(owner, "__call__", signalling)
        with pytest.raises(PreemptionError):
            train(folder)


def steps_saved(folder: pathlib.Path) -> list[int]:
    return [checkpoint_files.step_of(path) for path in checkpoint_files.checkpoints(folder)]


def test_a_run_with_accidents_ends_where_an_undisturbed_one_does(
    calm, train, tmp_path, monkeypatch, caplog
):
    train_until_signal(train, tmp_path, monkeypatch, TrainStep, TRIAL + 3)
    assert steps_saved(tmp_path) == [2, 3], "the step under way is finished and saved"
    train_until_signal(train, tmp_path, monkeypatch, TeacherForced, 1)
    assert steps_saved(tmp_path) == [2, 3, 4]
    assert small_runs.kinds_and_steps(tmp_path) == [("train", 2), ("eval", 2), ("train", 4)]
    torn = tmp_path / "model.ckpt-4.data-00000-of-00001"
    os.truncate(torn, torn.stat().st_size // 2)
    run = run_folder.RunFolder.open(str(tmp_path))
    assert run.restore_weights(run.build_model()) == 3
    assert run.latest_checkpoint() == str(tmp_path / "model.ckpt-3")
    with pytest.raises(UserError, match=r"model\.ckpt-4 cannot be read: Read less bytes"):
        run.restore_weights(run.build_model(), str(tmp_path / "model.ckpt-4"))
    train(tmp_path)
    assert f"skipping checkpoint {tmp_path}/model.ckpt-4" in caplog.text
    small_runs.assert_equal_runs(calm, tmp_path)
    assert small_runs.newest_state(tmp_path)["step/.ATTRIBUTES/VARIABLE_VALUE"] == STEPS


def test_half_the_devices_take_twice_the_parts(train, tmp_path, monkeypatch):
    def use(count: int) -> None:
        monkeypatch.setattr(devices, "make_strategy", lambda *args: strategy_over(count))

    # Not Adam, which makes as large a step of a gradient's rounding as of a gradient.
    sgd = "optimizer=sgd,learning_rate_schedule=constant,learning_rate_constant=0.1"
    train = functools.partial(train, hparams=sgd)
    use(2)
    train(tmp_path / "two")
    train_until_signal(train, tmp_path / "fewer", monkeypatch, TrainStep, TRIAL + 3)
    use(1)
    train(tmp_path / "fewer")
    use(3)
    with pytest.raises(UserError, match=r"2 parts .* cannot be divided evenly among 3 devices"):
        train(tmp_path / "fewer")
    two, fewer = (small_runs.newest_state(tmp_path / name) for name in ("two", "fewer"))
    assert two.keys() == fewer.keys()
    run = run_folder.RunFolder.open(str(tmp_path / "two"))
    forward = forward_terms(run.hparams, 16, run.encoders["targets"].vocab_size)
    terms = step_terms(forward, tokens=2 * 64)
    for name, value in two.items():
        if isinstance(value, bytes):  # which training files
            assert value == fewer[name]
            continue
        # Weights that were 0 at first are sums of what weights of a size of 1 have made.
        scale = max(1.0, np.abs(value).max())
        assert_close(fewer[name], value, STEPS * terms, scale=scale, err_msg=name)
