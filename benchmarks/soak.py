"""A long training in miniature, to see whether memory, step time or traced graphs grow.

    python benchmarks/soak.py --data_dir=data --output_dir=runs/soak

trains `transformer_test` on translate_ende_locale (from t2t-datagen) for 50,000 steps. Every 1,000
steps it saves a checkpoint and evaluates, with decoding. It prints a line for each tenth of the
run: resident memory at its end, milliseconds per step (wall-clock, and processor time, which other
load affects less), and graphs traced so far. The run folder must be new. With
TF_ENABLE_ONEDNN_OPTS=0, TensorFlow does not keep a kernel for every shape. Bars: after the first
5,000 steps, memory within 5 %, no new graph, constant step time.
"""

import argparse
import dataclasses
import os
import pathlib
import statistics
import time
from typing import ClassVar

from t2t_lite.training import trainer
from t2t_lite.training.config import TrainerConfig
from t2t_lite.training.train_step import Features, TrainStep

PARTS = 10
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
    """Trains and prints the verdicts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--problem", default="translate_ende_locale")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--hparams", default="batch_size=256")
    args = parser.parse_args()
    WatchedStep.every = args.steps // PARTS
    trainer.TrainStep = WatchedStep
    trainer.run(
        TrainerConfig(
            data_dir=args.data_dir,
            output_dir=args.output_dir,
            problem=args.problem,
            model="transformer",
            hparams_set="transformer_test",
            hparams=args.hparams,
            train_steps=args.steps,
            local_eval_frequency=args.steps // 50,
            random_seed=1,
        )
    )
    first, *others = WatchedStep.samples
    memory = [sample.memory for sample in WatchedStep.samples]
    change = max(abs(sample.memory / first.memory - 1) for sample in others)
    print(f"memory after the first part: {memory[0]:.0f} MiB, then within {change:.1%}; bar 5 %")
    print(f"graphs traced after the first part: {others[-1].graphs - first.graphs}; bar 0")
    for clock in ("step_time", "processor_time"):
        times = [getattr(sample, clock) for sample in WatchedStep.samples]
        print(f"{clock}: slowest part's median : fastest part's: {max(times) / min(times):.2f}")


if __name__ == "__main__":
    main()
