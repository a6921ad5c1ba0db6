"""What a run tells of itself: metrics.jsonl, TensorBoard, and a line on the screen.

metrics.jsonl holds only what the training computes, so that a run that was killed and resumed
leaves the same file, byte for byte, as one that was not; clocks go to the screen and TensorBoard.
"""

import contextlib
import datetime
import json
import logging
import pathlib
import sys
import time
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from t2t_lite import files
from t2t_lite.training.train_step import Totals

log = logging.getLogger(__name__)

METRICS = "metrics.jsonl"

# A record of metrics.jsonl, without its kind and step.
Values = dict[str, float | int | str]


class Metrics:
    """The records of one run folder.

    Args:
        folder: the run folder.
        step: updates made so far; later records, of a run that was killed, are cut off.
    """

    def __init__(self, folder: pathlib.Path, step: int) -> None:
        self.path = folder / METRICS
        kept = [line for line, record in self._records() if record["step"] <= step]
        self.evaluated = {r["step"] for line, r in self._records() if r["kind"] == "eval"}
        files.write_text(self.path, "".join(kept))
        self._writer = tf.summary.create_file_writer(str(folder))

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yields whole lines and what they hold; a line cut short by a kill is left out."""
        if not self.path.is_file():
            return
        with self.path.open(encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if line.endswith("\n"):
                    yield line, json.loads(line)

    def write(self, kind: str, step: int, values: Values) -> None:
        """Appends a record to metrics.jsonl and its numbers to TensorBoard."""
        record = {"kind": kind, "step": step, **values}
        with self.path.open("a", encoding="utf-8", newline="\n") as lines:
            lines.write(json.dumps(record) + "\n")
        if kind == "eval":
            self.evaluated.add(step)
        self.summarize(kind, step, values)

    def summarize(self, kind: str, step: int, values: Values) -> None:
        """Adds numbers to TensorBoard alone."""
        with self._writer.as_default():
            for name, value in values.items():
                if not isinstance(value, str):
                    tf.summary.scalar(f"{kind}/{name}", value, step=step)
        self._writer.flush()


def train_values(totals: Totals, learning_rate: float) -> Values:
    """Returns the training record of a window: means over its tokens and steps."""
    steps = max(totals.steps, 1.0)
    values: Values = {
        "loss": totals.loss / max(totals.tokens, 1.0),
        "learning_rate": learning_rate,
        "gradient_norm": totals.gradient_norm / steps,
        "target_tokens": int(totals.tokens),
        "sentences": int(totals.sentences),
        "padding_share": 1.0 - (totals.source_tokens + totals.tokens) / max(totals.cells, 1.0),
    }
    if totals.skipped:
        values["skipped_steps"] = int(totals.skipped)
    return values


class ProgressLine(contextlib.AbstractContextManager["ProgressLine"]):
    """Shows how training goes: a live line in a terminal, a log line for each window elsewhere.

    Args:
        step: updates made before.
        train_steps: updates to make in all.
    """

    def __init__(self, step: int, train_steps: int) -> None:
        self._step = step
        self._train_steps = train_steps
        self._since = time.monotonic()
        self._bar = Progress(
            BarColumn(bar_width=20),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task("", total=train_steps, completed=step)

    def __enter__(self) -> "ProgressLine":
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def restart_clock(self) -> None:
        """Leaves what came before (an evaluation, a checkpoint) out of the speed."""
        self._since = time.monotonic()

    def show(self, step: int, values: Values) -> Values:
        """Shows a window of steps and the time left; returns its speeds, for TensorBoard."""
        seconds = max(time.monotonic() - self._since, 1e-9)
        steps_per_second = max(step - self._step, 1) / seconds
        tokens_per_second = float(values["target_tokens"]) / seconds
        left = datetime.timedelta(seconds=round((self._train_steps - step) / steps_per_second))
        line = (
            f"step {step:,}/{self._train_steps:,}  loss {values['loss']:.4f}  "
            f"rate {values['learning_rate']:.3g}  {tokens_per_second:,.0f} target tokens/s  "
            f"padding {values['padding_share']:.0%}  {steps_per_second:.2f} steps/s  ETA {left}"
        )
        if "skipped_steps" in values:
            line += f"  {values['skipped_steps']} steps skipped: gradient not finite"
        if self._bar.disable:
            log.info(line)
        self._bar.update(self._task, completed=step, description=line)
        self._step = step
        self.restart_clock()
        return {"target_tokens_per_second": tokens_per_second, "steps_per_second": steps_per_second}
