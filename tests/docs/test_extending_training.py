"""The callbacks on the page about extending training: MLflow for real, W&B with a stand-in."""

import sys
import types

import pytest

from support.registries import restored
from support.small_runs import make_run
from t2t_lite.training.callbacks import Callbacks


@pytest.fixture
def call(pages, tmp_path):
    """Returns a function that calls the callback of a name as a training of two steps does."""
    blocks = [*pages["extending-training.md"].blocks("python")]

    def called(name: str) -> str:
        """Returns the name of the run folder."""
        (code,) = (block.code for block in blocks if f'register_callback("{name}")' in block.code)
        assert len(code.split("class ")[1].splitlines()) <= 12
        with restored():
            exec(compile(code, name, "exec"), {})
            callbacks = Callbacks.of(name)
        callbacks.tell(make_run(tmp_path / "my_run"))
        with callbacks.ending(lambda: 2):
            callbacks.step(1, {"loss": 2.5, "learning_rate": 0.5})
            callbacks.evaluation(1, {"loss": float("nan"), "bleu__de": 1, "bleu_signature": "v:2"})
            callbacks.step(2, {"loss": 1.5})
        return "my_run"

    return called


def test_mlflow(call, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow", reason="pip install mlflow-skinny, too large for dev")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "tracked").as_uri())
    name = call("mlflow")
    client = mlflow.MlflowClient()
    (run,) = client.search_runs(["0"])
    assert (run.info.run_name, run.info.status) == (name, "FINISHED")
    history = {
        metric: [
            (one.step, one.value) for one in client.get_metric_history(run.info.run_id, metric)
        ]
        for metric in ("train/loss", "train/learning_rate", "eval/bleu__de")
    }
    assert history == {
        "train/loss": [(1, 2.5), (2, 1.5)],
        "train/learning_rate": [(1, 0.5)],
        "eval/bleu__de": [(1, 1.0)],
    }


def test_weights_and_biases(call, monkeypatch):
    logged, started = [], []
    record = types.SimpleNamespace(log=lambda values, step: logged.append((step, values)))
    wandb = types.ModuleType("wandb")
    wandb.run = None

    def init(**settings):
        started.append(settings)
        wandb.run = record
        return record

    def finish():
        wandb.run = None

    wandb.init, wandb.finish = init, finish
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    name = call("wandb")
    (settings,) = started
    assert (settings["id"], settings["resume"]) == (name, "allow")
    assert settings["config"]["hidden_size"] == 16
    assert [step for step, _ in logged] == [1, 1, 2]
    assert logged[0][1] == {"train/loss": 2.5, "train/learning_rate": 0.5}
    assert logged[1][1].keys() == {"eval/loss", "eval/bleu__de"}
    assert wandb.run is None
