"""summary.json: sums over records and processes, and what the log says of them."""

import json
import logging
import math

import tensorflow as tf

from support.limits import strategy_over
from t2t_lite import registry
from t2t_lite.training.cost_tracker import CostTracker, Hardware, gemm_rate
from t2t_lite.training.run_log import MetricsWriter, train_values
from t2t_lite.training.totals import Totals

HARDWARE = Hardware(devices=2, gemm_rate=1e6)


def window(**sums: float) -> tf.Variable:
    values = dict.fromkeys(Totals._fields, 0.0) | sums
    return tf.Variable(list(values.values()), dtype=tf.float64)


def write(folder, step: int, **sums: float) -> None:
    """Writes the training record of a window."""
    totals = Totals(**(dict.fromkeys(Totals._fields, 0.0) | sums))
    MetricsWriter(folder, step).write("train", step, train_values(totals, 0.0))


def test_processes_add_up(tmp_path):
    sums = window()
    account = CostTracker(tmp_path, 0, sums, HARDWARE)
    write(tmp_path, 10, tokens=100, source_tokens=90, sentences=5, flops=4e6, steps=10)
    sums.assign(window(tokens=10, source_tokens=9, sentences=1, flops=1e6, steps=1))
    first = account.update(11, seconds=5.0)
    assert (first.target_tokens, first.source_tokens, first.sentences) == (110, 99, 6)
    assert first.flops_by_count == 5e6
    assert first.flops_by_time == 5.0 * 2 * 1e6
    assert first.utilisation == 0.5
    saved = json.loads((tmp_path / "summary.json").read_text())
    assert saved["train_seconds"] == 5.0

    resumed = CostTracker(tmp_path, 11, sums, Hardware(devices=1, gemm_rate=4e6))
    write(tmp_path, 20, tokens=100, source_tokens=90, sentences=5, flops=4e6, steps=10)
    sums.assign(tf.zeros_like(sums))
    second = resumed.update(20, seconds=1.0)
    assert second.steps == 20
    assert second.target_tokens == 200
    assert second.train_seconds == 6.0
    assert second.flops_by_time == 14e6, "each process counts with its own devices and rate"
    assert second.utilisation == 3e6 / 4e6, "of this process alone"
    third = resumed.update(20, seconds=2.0)
    assert third.train_seconds == 7.0, "an update replaces the one before it"


def test_the_log_says_both_counts(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    sums = window()
    account = CostTracker(tmp_path, 0, sums, HARDWARE)
    sums.assign(window(tokens=1200, source_tokens=1100, sentences=7, flops=3e6))
    account.log(3, seconds=2.0)
    tokens, flops = caplog.messages
    assert tokens.startswith(
        "in total 3 steps, 1,100 source + 1,200 target tokens, 7 sentences, 0:00:02 of training"
    )
    assert flops.startswith(
        "training FLOPs: 3.00e+06 by count of matrix products, 4.00e+06 by time × devices × "
        "sustained rate; utilisation 75 % of 2 × 1.00e+06 FLOP/s"
    )


def test_a_model_without_a_count_has_the_papers_estimate_alone(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    CostTracker(tmp_path, 0, window(tokens=5), HARDWARE).log(1, seconds=2.0)
    assert caplog.messages[1].startswith("training FLOPs: 4.00e+06 by time")
    assert "utilisation" not in caplog.text


def test_a_process_without_a_step_leaves_the_summary_alone(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    CostTracker(tmp_path, 7, window(), HARDWARE).log(7, seconds=0.1)
    assert not (tmp_path / "summary.json").exists()
    assert not caplog.messages


def test_devices_that_share_a_cpu_are_one(monkeypatch):
    monkeypatch.setattr("t2t_lite.training.cost_tracker.gemm_rate", lambda *args: 5.0)
    model = registry.model("transformer")(registry.hparams("transformer_test").freeze(), 9, 9)
    assert Hardware.measure(strategy_over(4), model).rate == 5.0


def test_the_measured_rate_is_that_of_a_product(monkeypatch):
    """On a clock that advances 0.1 s per call, the rate is the work divided by the ticks."""
    transformer = registry.model("transformer")(
        "transformer_test", 40, 40, hidden_size=16, filter_size=24, num_heads=2, num_hidden_layers=1
    )
    clock = iter(range(1000))
    monkeypatch.setattr("time.perf_counter", lambda: next(clock) / 10)
    expected = 2 * (2 * 8 * 16 * 3 * 16) / 0.1  # one turn; the fused projection [16, 48] is largest
    assert math.isclose(gemm_rate(transformer, 8, "CPU:0"), expected, rel_tol=1e-9)
