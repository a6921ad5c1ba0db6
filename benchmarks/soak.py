"""A long training in miniature, to see whether memory, step time or traced graphs grow.

    python benchmarks/soak.py --data_dir=data --output_dir=runs/soak

trains `transformer_test` on translate_ende_locale (from t2t-datagen) for 50,000 steps. Every 1,000
steps it saves a checkpoint and evaluates, with decoding. It prints a line for every 5,000 steps
(`--every`): resident memory at their end, milliseconds per step (wall-clock, and processor time,
which other load affects less), and graphs traced so far. With TF_ENABLE_ONEDNN_OPTS=0, TensorFlow
does not keep a kernel for every shape. Bars: after the first of those lines, memory within 5 %, no
new graph, constant step time.
"""

import argparse
import dataclasses
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import ClassVar

import report

from t2t_lite import registry
from t2t_lite.data.generation import generator
from t2t_lite.training import trainer
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.features import Features
from t2t_lite.training.step import TrainStep

PAGE_MIB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclasses.dataclass
class Sample:
    """The state of the run after some steps."""

    step: int
    memory: float  # resident, MiB
    step_time: float  # median since the previous sample, seconds
    processor_time: float  # the same, of all cores together
    graphs: int  # of the training step, so far


class WatchedStep(TrainStep):
    """A training step that records its cost."""

    samples: ClassVar[list[Sample]] = []
    every = 1
    _times: ClassVar[list[tuple[float, float]]] = []

    def __call__(self, features: Features, step: int, learn: bool = True) -> bool:
        """Takes the step."""
        start = time.perf_counter(), time.process_time()
        finite = super().__call__(features, step, learn)  # waits for the step to finish
        self._times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        if learn and (step + 1) % self.every == 0:
            medians = map(statistics.median, zip(*self._times, strict=True))
            sample = Sample(step + 1, resident(), *medians, self.graphs)
            self.samples.append(sample)
            self._times.clear()
            print(
                f"step {sample.step:>7,}  {sample.memory:7.0f} MiB  "
                f"{1000 * sample.step_time:6.2f} ms a step  "
                f"{1000 * sample.processor_time:6.2f} ms of processor time  "
                f"{sample.graphs} graphs",
                flush=True,
            )
        return finite

    @property
    def graphs(self) -> int:
        """Number of graphs traced."""
        return self._compiled.experimental_get_tracing_count()


def resident() -> float:
    """Returns this process's resident memory in MiB (Linux)."""
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * PAGE_MIB


def main() -> None:
    """Trains, and prints the verdicts."""
    parser = report.parser(__doc__)
    add = parser.add_argument
    add("--data_dir", help="folder of t2t-datagen's files (a temporary one)")
    add("--tmp_dir", help="folder of raw files, to generate the data from first")
    add("--output_dir", help="new run folder (a temporary one)")
    add("--problem", default="translate_ende_locale")
    add("--hparams_set", default="transformer_test")
    add("--steps", type=int, default=50_000)
    add("--every", type=int, default=5_000, help="steps of a part (5000)")
    add("--hparams", default="batch_size=256")
    add("--schedule", default="continuous_train_and_eval", help="train: without evaluations")
    args = parser.parse_args()
    if args.steps < 2 * args.every:
        parser.error(f"--steps={args.steps}: parts of --every={args.every} steps need two or more")
    with report.opened(args) as add_case, tempfile.TemporaryDirectory() as folder:
        data_dir = args.data_dir or os.path.join(folder, "data")
        if args.tmp_dir:
            generator.generate_data(registry.problem(args.problem), data_dir, args.tmp_dir)
        train(args, data_dir, args.output_dir or os.path.join(folder, "run"))
        add_case(verdicts(args.hparams_set, WatchedStep.samples))


def train(args: argparse.Namespace, data_dir: str, output_dir: str) -> None:
    """Trains, watched."""
    WatchedStep.every = args.every
    trainer.TrainStep = WatchedStep
    trainer.run(
        TrainerConfig(
            data_dir=data_dir,
            output_dir=output_dir,
            problem=args.problem,
            model="transformer",
            hparams_set=args.hparams_set,
            hparams=args.hparams,
            train_steps=args.steps,
            local_eval_frequency=args.steps // 50,
            schedule=args.schedule,
            random_seed=1,
        )
    )


def verdicts(name: str, samples: Sequence[Sample]) -> report.Case:
    """Compares the parts of a run."""
    first, *others = samples
    change = max(abs(sample.memory / first.memory - 1) for sample in others)
    figures = [
        report.Figure("memory after the first part", first.memory, "MiB"),
        report.Figure("later change of memory", 100 * change, "%", most=5),
        report.Figure("later graphs", others[-1].graphs - first.graphs, "graphs", most=0),
    ]
    for clock in ("step_time", "processor_time"):
        times = [getattr(sample, clock) for sample in samples]
        title = f"{clock.replace('_', ' ')}, slowest part : fastest"
        figures.append(report.Figure(title, max(times) / min(times), "times"))
    return report.Case(name, figures=tuple(figures))


if __name__ == "__main__":
    main()
