"""The progress line and its clock."""

import logging
import math

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from t2t_lite.runs.metrics_jsonl import read_records
from t2t_lite.training.run_log import MetricsWriter, ProgressLine, train_values
from t2t_lite.training.totals import Totals


@pytest.fixture(autouse=True)
def _all_messages(caplog) -> None:
    caplog.set_level(logging.INFO)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when it is set."""
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return now


def totals(**changes: float) -> Totals:
    sums = dict.fromkeys(Totals._fields, 0.0) | {
        "loss": 300.0,
        "tokens": 300.0,
        "source_tokens": 270.0,
        "cells": 600.0,
        "sentences": 30.0,
        "steps": 3.0,
        "flops": 6e6,
    }
    return Totals(**(sums | changes))


def test_the_share_of_padding_is_of_both_sides():
    features = {
        "inputs": tf.constant([[[5, 1, 0], [1, 0, 0]]]),
        "targets": tf.constant([[[5, 1], [5, 1]]]),
    }
    zero, is_finite = tf.constant(0.0), tf.constant(True)
    step = Totals.of_step(features, zero, tf.constant(4.0), zero, is_finite, zero)
    values = train_values(Totals(*map(float, step)), 0.0)
    assert_close(values["padding_share"], 3 / 10, terms=10)


def test_a_skipped_step_counts_nothing_but_its_operations():
    features = dict.fromkeys(("inputs", "targets"), tf.constant([[[5, 1, 0]]]))
    nan, tokens, flops = tf.constant(np.nan), tf.constant(2.0), tf.constant(7.0)
    step = Totals.of_step(features, nan, tokens, nan, tf.constant(False), flops)
    sums = {name: float(value) for name, value in step._asdict().items()}
    assert sums == dict.fromkeys(sums, 0.0) | {"skipped": 1.0, "flops": 7.0}
    assert train_values(Totals(**sums), 0.0)["padding_share"] == 0.0


def test_a_line_is_per_step_and_device(clock, caplog):
    line = ProgressLine(0, 10, replicas=2)
    clock[0] += 6.0
    window = totals()
    speeds = line.update(3, window, train_values(window, 0.001))
    assert caplog.messages == [
        "step 3/10  loss 1.0000  rate 0.001  50 target tokens/s  0.50 steps/s  per device "
        "45+50 tokens, 5 sentences, 5% padding  ETA 0:00:14"
    ]
    assert speeds == {
        "target_tokens_per_second": 50.0,
        "steps_per_second": 0.5,
        "flops_per_second": 1e6,
    }


def test_auxiliary_losses_are_means_over_steps(caplog):
    values = train_values(totals(), 0.001, {"importance": 0.03, "load": 0.3})
    found = [values["importance_loss"], values["load_loss"]]
    assert_close(found, [0.01, 0.1], terms=1, dtype="float64")
    assert values["loss"] == 1.0
    ProgressLine(0, 10, replicas=2).update(3, totals(), values)
    assert "  loss 1.0000 + 0.1100 auxiliary  rate" in caplog.messages[0]


def test_a_line_is_at_most_160_characters(clock, caplog):
    line = ProgressLine(249_900, 999_999, replicas=1)
    clock[0] += 12.25
    sums = {"loss": 4.5e6, "tokens": 409_600.0, "source_tokens": 400_100.0, "cells": 980_000.0}
    window = totals(**sums, sentences=99_900.0, steps=100.0)
    line.update(250_000, window, train_values(window, 0.000698771))
    assert len(caplog.messages[0]) <= 160


def test_a_resumed_window_does_not_count_as_speed(clock):
    """The first window of a resumed process includes steps of the process before."""
    line = ProgressLine(2, 10, replicas=1)
    clock[0] += 1.0
    speeds = line.update(3, totals(), train_values(totals(), 0.0))
    assert speeds["steps_per_second"] == 1.0
    assert speeds["target_tokens_per_second"] == 100.0


def test_steps_that_were_skipped_are_steps(clock, caplog):
    line = ProgressLine(0, 10, replicas=2)
    clock[0] += 6.0
    window = totals(steps=1.0, skipped=2.0)
    speeds = line.update(3, window, train_values(window, 0.001))
    assert speeds["target_tokens_per_second"] == 50.0
    assert speeds["flops_per_second"] == 1e6
    assert (
        "50 target tokens/s  0.50 steps/s  per device 45+50 tokens, 5 sentences"
        in caplog.messages[0]
    )
    assert caplog.messages[0].endswith("  2 steps skipped: gradient not finite")


def test_pauses_are_left_out_of_the_time(clock):
    with ProgressLine(0, 10, replicas=1) as line:
        clock[0] += 2.0
        with line.paused():
            clock[0] += 50.0
            assert line.seconds == 2.0
        clock[0] += 1.0
        assert line.seconds == 3.0
        speeds = line.update(3, totals(), train_values(totals(), 0.0))
    clock[0] += 9.0
    assert line.seconds == 3.0
    assert speeds["steps_per_second"] == 1.0


def test_values_of_a_diverging_model_are_written_and_read(tmp_path):
    records = [{"loss": 90.0, "perplexity": 1e39}, {"loss": 700.0, "perplexity": 1e304}]
    records.append({"loss": math.inf, "perplexity": -math.inf})
    metrics = MetricsWriter(tmp_path, 0)
    for step, values in enumerate(records, 1):
        metrics.write("eval", step, values)
    assert MetricsWriter(tmp_path, 9).evaluated == {1, 2, 3}
    found = [record for _, record in read_records(tmp_path)]
    assert [{name: r[name] for name in ("loss", "perplexity")} for r in found] == records


def test_metrics_after_the_restored_step_are_removed(tmp_path):
    metrics = MetricsWriter(tmp_path, 0)
    for step in (10, 20, 30):
        metrics.write("train", step, {"loss": 1.0 / step})
    metrics.write("eval", 20, {"bleu": 1.0})
    whole = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    with (tmp_path / "metrics.jsonl").open("a") as lines:
        lines.write('{"kind": "train", "st')  # cut short by a kill
    again = MetricsWriter(tmp_path, 20)
    assert (tmp_path / "metrics.jsonl").read_text() == "".join([*whole[:2], whole[3]])
    assert again.evaluated == {20}
