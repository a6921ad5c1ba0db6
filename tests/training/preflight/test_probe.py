"""Steps in another process, and what its answers mean."""

import dataclasses
import json
import subprocess

import pytest

from t2t_lite.errors import UserError
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.preflight import probe

SMALL = "num_hidden_layers=1,hidden_size=8,filter_size=8,num_heads=2"
COST = probe.Cost(1, 1, False, weights=8, gradients=8, slots=16, base=100, peaks=[120], seconds=[])


@pytest.fixture
def request_(tmp_path) -> probe.Request:
    config = TrainerConfig(
        data_dir=str(tmp_path),
        output_dir=str(tmp_path / "run"),
        problem="algorithmic_identity_decimal40",
        model="transformer",
        hparams_set="transformer_test",
        hparams=SMALL,
    )
    return probe.Request(config, shapes=[(2, 5), (3, 4)])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"wrong": "unknown hparam"}, UserError),
        ({"exhausted": "no memory left"}, probe.DoesNotFitError),
        (vars(COST), None),
    ],
)
def test_answers_of_the_process(request_, monkeypatch, answer, expected):
    text = f"said by a library\n{json.dumps(answer)}\n"
    done = subprocess.CompletedProcess([], 0, stdout=text, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: done)
    if expected is None:
        assert probe.measure(request_, 1.0) == COST
        return
    with pytest.raises(expected, match=next(iter(answer.values()))):
        probe.measure(request_, 1.0)


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [(-9, probe.DoesNotFitError, "killed by signal 9"), (1, RuntimeError, "failed:\nTraceback")],
)
def test_a_process_that_ends_without_an_answer(request_, monkeypatch, code, error, message):
    done = subprocess.CompletedProcess([], code, stdout="", stderr="Traceback")
    monkeypatch.setattr(subprocess, "run", lambda *args, **kwargs: done)
    with pytest.raises(error, match=message):
        probe.measure(request_, 1.0)


@pytest.mark.integration
def test_the_peak_of_a_tiny_step_is_that_after_tracing(request_, monkeypatch):
    peaks = iter([10, 11, 12, 20, 30])  # three steps of warming up, and the two asked for
    monkeypatch.setattr(probe, "_peak", lambda gpus: next(peaks))
    cost = probe._take_steps(request_)
    assert (cost.base, cost.peaks, cost.seconds) == (12, [20, 30], [])


@pytest.mark.integration
def test_the_steps_of_a_model_whose_attention_is_guided_are_tried(request_):
    hparams = f"{SMALL},guided_alignment_weight=0.5"
    config = dataclasses.replace(request_.config, hparams=hparams, worker_gpu=0)
    cost = probe._take_steps(dataclasses.replace(request_, config=config, shapes=[(1, 3)]))
    assert (cost.replicas, len(cost.peaks)) == (1, 1)
