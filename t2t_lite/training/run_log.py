"""Writes the metrics of a run to metrics.jsonl and TensorBoard, and shows its progress.

metrics.jsonl contains no measured times, so that a run that was killed and resumed writes the same
file, byte for byte, as an uninterrupted one; times go to the screen and to TensorBoard.
"""

import contextlib
import logging
import pathlib
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from t2t_lite.progress import duration
from t2t_lite.runs import metrics_jsonl
from t2t_lite.training.totals import Totals

log = logging.getLogger(__name__)

# The fields of a record in metrics.jsonl, apart from kind and step.
Values = dict[str, float | int | str]


class MetricsWriter:
    """Writes records to metrics.jsonl and TensorBoard.

    Args:
        folder: the run folder.
        step: number of updates so far, if training resumes: removes damaged records and later ones,
            which a killed process left. None: keeps the file as it is.
    """

    def __init__(self, folder: pathlib.Path, step: int | None = None) -> None:
        self._folder = folder
        self.evaluated = set() if step is None else metrics_jsonl.cut_back(folder, step)
        self._writer = tf.summary.create_file_writer(str(folder))

    def write(self, kind: str, step: int, values: Values) -> None:
        """Appends a record to metrics.jsonl and its numbers to TensorBoard."""
        metrics_jsonl.append(self._folder, {"kind": kind, "step": step, **values})
        if kind == "eval":
            self.evaluated.add(step)
        self.write_tensorboard(kind, step, values)

    def write_tensorboard(self, kind: str, step: int, values: Values) -> None:
        """Writes numbers to TensorBoard only."""
        with self._writer.as_default():
            for name, value in values.items():
                if not isinstance(value, str):
                    # Numbers beyond float32, such as a perplexity of 1e39, become infinite.
                    with np.errstate(over="ignore"):
                        number = np.float32(value)
                    tf.summary.scalar(f"{kind}/{name}", number, step=step)
        self._writer.flush()

    def write_samples(
        self, step: int, table: list[list[str]], images: Sequence[np.ndarray], label: str = ""
    ) -> None:
        """Writes a table of text and an image for each decoder layer to TensorBoard.

        Args:
            step: number of updates so far.
            table: cells in Markdown; the first row is the header.
            images: each [height, width, 1] in [0, 1].
            label: of the member of a mixture that they are of; "": of a whole problem.
        """
        of = f"/{label}" if label else ""
        with self._writer.as_default():
            tf.summary.text(f"samples{of}", table, step=step)
            for number, image in enumerate(images):
                tf.summary.image(f"attention{of}/decoder_layer_{number}", image[None], step=step)
        self._writer.flush()


def train_values(
    totals: Totals, learning_rate: float, auxiliary: Mapping[str, float] | None = None
) -> Values:
    """Returns the training record of the steps since the last one: means over tokens and steps.

    Args:
        totals: sums over these steps.
        learning_rate: of the next step.
        auxiliary: the auxiliary losses by name, summed over these steps.
    """
    steps, tokens = max(totals.steps, 1.0), totals.source_tokens + totals.tokens
    values: Values = {
        "loss": totals.loss / max(totals.tokens, 1.0),
        "learning_rate": learning_rate,
        "gradient_norm": totals.gradient_norm / steps,
        "source_tokens": int(totals.source_tokens),
        "target_tokens": int(totals.tokens),
        "sentences": int(totals.sentences),
        "padding_share": 1.0 - tokens / totals.cells if totals.cells else 0.0,
    }
    for name, loss in (auxiliary or {}).items():
        values[f"{name}_loss"] = loss / steps
    if totals.flops:
        values["flops"] = totals.flops
    if totals.skipped:
        values["skipped_steps"] = int(totals.skipped)
    return values


class ProgressLine(contextlib.AbstractContextManager["ProgressLine"]):
    """Shows the progress of training: a live line in a terminal, log lines elsewhere.

    Args:
        step: number of updates so far.
        train_steps: total number of updates.
        replicas: R, the number of devices.
    """

    def __init__(self, step: int, train_steps: int, replicas: int) -> None:
        self._train_steps = train_steps
        self._replicas = replicas
        self._shown_step, self._shown_seconds = step, 0.0
        self._before = 0.0  # seconds in steps until the clock was last stopped
        self._since: float | None = time.monotonic()  # None: the clock is stopped
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
        self._before, self._since = self.seconds, None
        self._bar.stop()

    @property
    def seconds(self) -> float:
        """Time spent in steps so far."""
        running = 0.0 if self._since is None else time.monotonic() - self._since
        return self._before + running

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stops the clock within the block, for example during an evaluation."""
        self._before, self._since = self.seconds, None
        yield
        self._since = time.monotonic()

    def update(self, step: int, totals: Totals, values: Values) -> Values:
        """Shows the steps since the last update and the remaining time.

        Args:
            step: number of updates so far.
            totals: sums over these steps; a resumed run's first include steps before the resume.
            values: the result of `train_values` for `totals`.

        Returns:
            The speeds, for TensorBoard.
        """
        seconds = max(self.seconds - self._shown_seconds, 1e-9)
        speed = max(step - self._shown_step, 1) / seconds  # steps per second
        steps = max(totals.steps + totals.skipped, 1.0)
        parts = steps * self._replicas
        auxiliary = [float(value) for name, value in values.items() if name.endswith("_loss")]
        more = f" + {sum(auxiliary):.4f} auxiliary" if auxiliary else ""
        line = (
            f"step {step:,}/{self._train_steps:,}  loss {values['loss']:.4f}{more}  "
            f"rate {values['learning_rate']:.3g}  {totals.tokens / steps * speed:,.0f} target "
            f"tokens/s  {speed:.2f} steps/s  per device {totals.source_tokens / parts:,.0f}+"
            f"{totals.tokens / parts:,.0f} tokens, {totals.sentences / parts:,.0f} sentences, "
            f"{values['padding_share']:.0%} padding  "
            f"ETA {duration((self._train_steps - step) / speed)}"
        )
        if "skipped_steps" in values:
            line += f"  {values['skipped_steps']} steps skipped: gradient not finite"
        if self._bar.disable:
            log.info(line)
        self._bar.update(self._task, completed=step, description=line)
        self._shown_step, self._shown_seconds = step, self.seconds
        return {
            "target_tokens_per_second": totals.tokens / steps * speed,
            "steps_per_second": speed,
            "flops_per_second": totals.flops / steps * speed,
        }
