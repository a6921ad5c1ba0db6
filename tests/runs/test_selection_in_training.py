"""A run that selects its model, from early stopping to t2t-eval, in this process."""

import json
import pathlib

import pytest

import t2t_lite as t2t
from support import small_runs
from support.commands import printed_by
from t2t_lite.bin import t2t_eval
from t2t_lite.errors import UsageError
from t2t_lite.runs import run_folder
from t2t_lite.training import trainer
from t2t_lite.training.config import TrainerConfig

pytestmark = pytest.mark.integration

HPARAMS = "batch_shuffle_size=0,learning_rate_schedule=constant"


def evaluations(folder) -> dict[int, dict]:
    return {record["step"]: record for record in small_runs.records_of(folder, "eval")}


def scores(capsys, *flags: str) -> list[dict]:
    more = "--output_format=json", "--decode_hparams=beam_size=1"
    return json.loads(printed_by(t2t_eval.main, *flags, *more))["checkpoints"]


@pytest.fixture(scope="module")
def chosen(data_dir, tmp_path_factory) -> TrainerConfig:
    """A run with a moving average that stopped early; it kept its last and its best checkpoint."""
    settings = small_runs.make_config(
        data_dir,
        tmp_path_factory.mktemp("run"),
        f"{HPARAMS},learning_rate_constant=0.002,ema_decay=0.5",
        train_steps=50,
        keep_checkpoint_max=1,
        best_metric="neg_log_perplexity",
        eval_early_stopping_steps=2,
        eval_early_stopping_metric_delta=50.0,
    )
    trainer.run(settings)
    return settings


def test_stops_early_and_keeps_the_best(chosen):
    folder = pathlib.Path(chosen.output_dir)
    found = evaluations(folder)
    assert list(found) == [2, 4]
    best = min(found, key=lambda step: found[step]["loss"])
    assert {path.stem for path in folder.glob("*.ckpt-*.index")} == {
        "model.ckpt-4",
        f"best.ckpt-{best}",
    }


@pytest.mark.slow
def test_a_run_that_stopped_early_stays_stopped(chosen):
    metrics = pathlib.Path(chosen.output_dir) / "metrics.jsonl"
    before = metrics.read_bytes()
    trainer.run(chosen)
    assert metrics.read_bytes() == before


def test_t2t_eval_agrees_with_the_evaluation_of_training(chosen, capsys):
    """Training evaluates the averaged weights, which t2t-eval restores."""
    newest, best = scores(capsys, f"--output_dir={chosen.output_dir}", "--checkpoint_path=4,best")
    found = evaluations(pathlib.Path(chosen.output_dir))
    for scored in (newest, best):
        for name in ("loss", "accuracy", "perplexity", "target_tokens"):
            assert scored["values"][name] == found[scored["step"]][name]
    assert newest["resampled"]["p_value"] is None
    assert 0 < best["resampled"]["p_value"] <= 1


def test_python_scores_as_the_evaluation_of_training_does(chosen):
    run = t2t.open_run(chosen.output_dir)
    settings = {"metrics": ["chrf", "exact_match"], "beam_size": 1, "extra_length": 1}
    values = t2t.evaluate(run, "best", **settings)
    found = evaluations(run.folder)[int(run.checkpoint("best").rpartition("-")[2])]
    for name in ("loss", "accuracy", "perplexity"):
        assert values[name] == found[name]
    assert values.keys() >= {"chrf", "chrf_signature", "exact_match"}
    assert "bleu" not in values
    with pytest.raises(UsageError, match="split 'eva': expected train, dev, test, unseen"):
        t2t.evaluate(run, split="eva")


@pytest.mark.slow
def test_a_warm_start_has_the_loss_of_its_source(chosen, data_dir, tmp_path):
    settings = small_runs.make_config(
        data_dir,
        tmp_path / "run",
        f"{HPARAMS},learning_rate_constant=0",
        train_steps=1,
        warm_start_from=chosen.output_dir,
    )
    trainer.run(settings)
    source = evaluations(pathlib.Path(chosen.output_dir))[4]
    assert evaluations(tmp_path / "run")[1]["loss"] == source["loss"]
    assert run_folder.read_run_settings(settings.output_dir).warm_start_from == chosen.output_dir
