"""Measures what a search for hyperparameters loses by kills, and saves by pruning.

    pip install -e '.[tune]'
    python benchmarks/tuning.py --output_dir=FOLDER [--work=quick_start] [--trials=12]
        [--searches=all,pruned,killed]

searches three times with one seed: with every trial to its end, with pruning, and with pruning and
two kills (SIGKILL): of the search alone, and of all its processes. The work is the quick start's
problem with the ranges of docs/tuning.md, or with `--work=t2t` a T2T user directory that has a
problem, a set and ranges of its own. Prints the updates, the seconds and the best of each search,
and whether the trials of the last two are the same. The searches are kept in FOLDER, and go on when
the same command is run again.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.runs.search_folder import SearchFolder, Trial, best_trial
from t2t_lite.runs.selection import evaluations

PAGE = pathlib.Path(__file__).parents[1] / "docs" / "tuning.md"
# The flags of each search, and after how many evaluations it is killed.
SEARCHES: Mapping[str, tuple[Sequence[str], Sequence[int]]] = {
    "all": (["--noautotune_prune"], ()),
    "pruned": ([], ()),
    "killed": ([], (5, 20)),
}

USR_DIR = """\
from tensor2tensor.data_generators import problem, text_problems
from tensor2tensor.models import transformer
from tensor2tensor.utils import metrics, registry


@registry.register_problem
class ReversedDigits(text_problems.Text2TextProblem):

  @property
  def is_generate_per_split(self):
    return True

  @property
  def vocab_type(self):
    return text_problems.VocabType.CHARACTER

  @property
  def dataset_splits(self):
    return [{"split": problem.DatasetSplit.TRAIN, "shards": 1},
            {"split": problem.DatasetSplit.EVAL, "shards": 1}]

  def eval_metrics(self):
    return [metrics.Metrics.NEG_LOG_PERPLEXITY, metrics.Metrics.ACC]

  def generate_samples(self, data_dir, tmp_dir, dataset_split):
    is_train = dataset_split == problem.DatasetSplit.TRAIN
    for number in range(4000 if is_train else 200):
      text = "%07d" % ((number if is_train else -1 - number) * 7919 % 10**7)
      yield {"inputs": text, "targets": text[::-1]}


@registry.register_hparams
def digits_tiny():
  hparams = transformer.transformer_tiny()
  hparams.hidden_size = 32
  hparams.filter_size = 64
  hparams.batch_size = 512
  hparams.learning_rate_schedule = "constant*linear_warmup"
  hparams.learning_rate_warmup_steps = 10
  return hparams


@registry.register_ranged_hparams
def digits_range(rhp):
  rhp.set_float("learning_rate_constant", 1e-5, 1e-1, scale=rhp.LOG_SCALE)
  rhp.set_float("optimizer_adam_beta2", 0.9, 0.999, scale=rhp.REVERSE_LOG_SCALE)
  rhp.set_discrete("filter_size", [32, 64, 128], scale=rhp.LOG_SCALE)
  rhp.set_categorical("num_heads", [1, 2, 3, 4])
  rhp.set_int("num_sampled_classes", 0, 5)
"""


class Work(NamedTuple):
    """What is searched.

    Attributes:
        usr_dir: the source of the user directory.
        problem: its name.
        flags: of `t2t-trainer`: the set, the ranges and the length of a trial.
    """

    usr_dir: str
    problem: str
    flags: Sequence[str]


WORKS: Mapping[str, Work] = {
    "quick_start": Work(
        PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0],
        "translate_ende_locale",
        (
            *("--hparams_set=transformer_quickstart3", "--hparams_range=small_range"),
            *("--train_steps=400", "--local_eval_frequency=50"),
            "--decode_hparams=beam_size=1,extra_length=10",
        ),
    ),
    "t2t": Work(
        USR_DIR,
        "reversed_digits",
        (
            *("--hparams_set=digits_tiny", "--hparams_range=digits_range"),
            *("--train_steps=120", "--local_eval_frequency=15", "--eval_steps=5"),
        ),
    ),
}


def command(name: str, folder: pathlib.Path, work: Work, *flags: str) -> list[str]:
    """Returns a command of this package on the data of the benchmark."""
    return [
        *(sys.executable, "-m", f"t2t_lite.bin.{name}", f"--t2t_usr_dir={folder / 'usr'}"),
        *(f"--problem={work.problem}", f"--data_dir={folder / 'data'}", *flags),
    ]


def search(folder: pathlib.Path, work: Work, name: str, trials: int) -> None:
    """Runs a search, with its kills, to its end."""
    flags, kills = SEARCHES[name]
    arguments = command(
        "t2t_trainer",
        folder,
        work,
        *("--model=transformer", "--random_seed=3", *work.flags),
        f"--autotune_objective=metrics-{work.problem}/neg_log_perplexity",
        *("--autotune_maximize", f"--autotune_max_trials={trials}"),
        *(f"--output_dir={folder / name}", *flags),
    )
    for number, count in enumerate(kills):
        if evaluated(folder / name) >= count:
            continue
        process = subprocess.Popen(arguments, start_new_session=True)
        while process.poll() is None and evaluated(folder / name) < count:
            time.sleep(0.2)
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if number % 2 else os.kill)(process.pid, signal.SIGKILL)
        process.wait()
        print(f"killed after {evaluated(folder / name)} evaluations", flush=True)
    subprocess.run(arguments, check=True)


def evaluated(folder: pathlib.Path) -> int:
    """Returns the number of evaluations of all trials of a search."""
    return sum(len([*evaluations(trial)]) for trial in folder.glob("trial-*"))


def told(trial: Trial) -> tuple[Any, ...]:
    """Returns what is compared of a trial: all but its folder."""
    return trial.state, dict(trial.hparams), trial.value, trial.step, trial.reason


def main() -> None:
    """Runs the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    parser.add_argument("--work", choices=WORKS, default="quick_start")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--searches", default=",".join(SEARCHES))
    args = parser.parse_args()
    folder = args.output_dir.resolve()
    (folder / "usr").mkdir(parents=True, exist_ok=True)
    work = WORKS[args.work]
    (folder / "usr" / "__init__.py").write_text(work.usr_dir)
    generating = command("t2t_datagen", folder, work, f"--tmp_dir={folder / 'tmp'}")
    subprocess.run(generating, check=True)
    for name in args.searches.split(","):
        start = time.monotonic()
        search(folder, work, name, args.trials)
        print(f"{name}: {time.monotonic() - start:.0f} seconds", flush=True)
    found = {}
    for name in SEARCHES:
        if not (folder / name).is_dir():
            continue
        opened = SearchFolder.open(folder / name)
        found[name] = trials = opened.trials()
        best = best_trial(trials, opened.criterion)
        updates = sum(max(opened.curve(trial.number), default=0) for trial in trials)
        which = f"best: trial {best.number}, {best.value:.4f}" if best else "no best"
        print(f"{name:8} {len(trials)} trials, {updates:,} updates; {which}")
        print("         " + ", ".join(f"{trial.number} {trial.state.value}" for trial in trials))
    if {"pruned", "killed"} <= found.keys():
        pruned, killed = ([told(trial) for trial in found[name]] for name in ("pruned", "killed"))
        print(f"the same trials after two kills: {pruned == killed}")


if __name__ == "__main__":
    main()
