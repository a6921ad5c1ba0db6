"""Runs all benchmarks with the settings for the machine at hand, and makes a table of the figures.

    pip install -e '.[bench,demo,serve]'
    python benchmarks/all.py --output_dir=FOLDER --newstest=FOLDER --multi30k=FOLDER
    python benchmarks/all.py --from FOLDER ANOTHER_FOLDER
    python benchmarks/pages.py

The first command writes NAME.json and NAME.log for each benchmark, and prints the table; it skips
those that have their JSON, so that it can be run again after an interruption. With GPUs, steps are
compiled by XLA, in bfloat16, with larger batches; with several, all of them are compared with one;
where JAX has the GPU, so is its step. The second command prints the table alone, with a column for
each folder, that is, for each machine. Benchmarks without their data are left out.

With `--machine=NAME` the first command also writes what the machine's column in docs/performance.md
is made from, one JSON file in benchmarks/figures/, in place of an older one of that
name. The third command makes the tables.
"""

import argparse
import itertools
import json
import os
import pathlib
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import machine
import pages
import report

HERE = pathlib.Path(__file__).parent


class Run(NamedTuple):
    """One benchmark with its settings."""

    name: str  # of its files
    script: str
    arguments: tuple[str, ...] = ()
    turns: tuple[str, ...] = ("rounds", "seconds")  # those of its flags
    environment: Mapping[str, str] = {}


def plan(args: argparse.Namespace, gpus: int, has_jax_gpu: bool) -> list[Run]:
    """Returns the benchmarks that can run."""
    runs = list(_training(gpus, has_jax_gpu))
    runs += [Run(name, name) for name in ("model_throughput", "recurrent_layer")]
    runs.append(Run("loss_memory", "loss_memory", turns=("rounds",)))
    if args.newstest:
        text = _newstest(args.newstest)
        xla = ("--decode_hparams=xla_compile=true",) if gpus else ()
        runs.append(Run("decode_throughput", "decode_throughput", (*text, *xla)))
        runs.append(Run("serve", "serve", text))
    if args.multi30k:
        corpus = str(args.multi30k)
        runs.append(Run("data_generation", "data_generation", (corpus,), ("rounds",)))
        runs += _soaks(corpus)
    return [run for run in runs if args.only is None or run.name in args.only]


def _training(gpus: int, has_jax_gpu: bool) -> Iterator[Run]:
    """Yields the benchmarks of the training step."""
    arguments: tuple[str, ...] = ()
    if gpus:
        arguments = ("--xla", "--sentences=1024", "--only", "base", "base_bfloat16", "big_bfloat16")
        arguments += ("devices",) * (gpus > 1)
    yield Run("train_throughput", "train_throughput", arguments)
    if has_jax_gpu:
        environment = {"KERAS_BACKEND": "jax"}
        yield Run("train_throughput_jax", "train_throughput_jax", environment=environment)
    for shape in ("tiny", "base"):
        for dtype in machine.DTYPES:
            name = f"training_profile_{shape}_{dtype}"
            yield Run(name, "training_profile", (shape, f"--dtype={dtype}"), ())


def newstests(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the English test sets in a folder, the newest last."""
    return sorted(folder.glob("newstest*.en*"))


def _newstest(folder: pathlib.Path) -> tuple[str, ...]:
    """Returns what to decode: the newest test set; its elders make the vocabulary."""
    *others, newest = newstests(folder)
    return (f"--text={newest}", f"--vocab_text={','.join(map(str, others))}")


def _soaks(corpus: str) -> Iterator[Run]:
    """Yields the long trainings."""
    for hparams_set, steps, hparams in (
        ("transformer_test", 20_000, "batch_size=256"),
        ("transformer_multi30k_prenorm", 3_000, ""),
    ):
        arguments = (
            f"--tmp_dir={corpus}",
            "--problem=translate_ende_multi30k",
            f"--hparams_set={hparams_set}",
            f"--hparams={hparams}",
            f"--steps={steps}",
            "--every=1000",
        )
        yield Run(f"soak_{hparams_set}", "soak", arguments, ())


def jax_has_gpu() -> bool:
    """Whether JAX computes on a GPU."""
    command = [sys.executable, "-c", "import jax; print(jax.default_backend())"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() in ("gpu", "cuda", "rocm")


def execute(run: Run, args: argparse.Namespace) -> bool:
    """Runs a benchmark unless it has its JSON; returns whether it has it now."""
    path = args.output_dir / f"{run.name}.json"
    if path.exists():
        print(f"{run.name}: done before", flush=True)
        return True
    command = [sys.executable, str(HERE / f"{run.script}.py"), *run.arguments, f"--json={path}"]
    turns = {flag: getattr(args, flag) for flag in run.turns}
    command += [f"--{flag}={value}" for flag, value in turns.items() if value is not None]
    print(f"{run.name}: {shlex.join(command)}", flush=True)
    with open(args.output_dir / f"{run.name}.log", "w", encoding="utf-8") as log:
        environment = {**os.environ, **run.environment}
        subprocess.run(command, stdout=log, stderr=log, env=environment)
    if not path.exists():
        print(f"{run.name}: failed; see {log.name}", flush=True)
    return path.exists()


# ---- the tables


def table(folders: Sequence[pathlib.Path]) -> str:
    """Returns the machine of each folder, and a Markdown table with a column for each."""
    columns = [[json.loads(path.read_text("utf-8")) for path in files(one)] for one in folders]
    machines = [machine.Machine(**column[0]["machine"]) for column in columns]
    lines = []
    for here, column in zip(machines, columns, strict=True):
        dates = sorted(content["date"][:10] for content in column)
        days = " to ".join(dict.fromkeys([dates[0], dates[-1]]))
        lines.append(f"- {'; '.join(str(here).splitlines())}. {days}.")
    found = [dict(itertools.chain(*map(cells, column))) for column in columns]
    lines += ["", "| | " + " | ".join(here.name for here in machines) + " |"]
    lines.append("|---" * (1 + len(columns)) + "|")
    for label in dict.fromkeys(itertools.chain(*found)):
        lines.append(f"| {label} | " + " | ".join(one.get(label, "") for one in found) + " |")
    return "\n".join(lines)


def write_page_figures(folder: pathlib.Path, name: str) -> pathlib.Path:
    """Writes the file in benchmarks/figures/ of the machine that a folder's figures are of."""
    results = [json.loads(path.read_text("utf-8")) for path in files(folder)]
    here = machine.Machine(**results[0]["machine"])
    processor = f"{here.name} ({' '.join(here.instructions) or 'instruction sets unknown'})"
    return pages.write_machine(pages.FOLDER, pages.content_of(name, processor, results))


def files(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the figures of a folder.

    Raises:
        SystemExit: there are none.
    """
    return sorted(folder.glob("*.json")) or sys.exit(f"{folder} has no figures (NAME.json)")


def cells(content: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the label and the text of each figure of a benchmark."""
    for case in content["results"]:
        title = f"{content['benchmark']}, {case['case']}"
        contenders = case["contenders"]
        for ratio in case["ratios"]:
            sides = [contenders[ratio[side]] for side in ("name", "other")]
            yield (
                f"{title}: {ratio['name']} : {ratio['other']}",
                _ratio_cell(ratio, sides, case["unit"]),
            )
        compared = {ratio[side] for ratio in case["ratios"] for side in ("name", "other")}
        for name, one in contenders.items():
            if name not in compared:
                yield f"{title}: {name}", f"{report.number(one['median'])} s"
        for name, reason in case["absent"].items():
            yield f"{title}: {name}", reason
        for figure in case["figures"]:
            yield f"{title}: {figure['name']}", str(report.Figure(**figure))


def _ratio_cell(ratio: dict[str, Any], sides: Sequence[dict[str, Any]], unit: str) -> str:
    """Returns a ratio, with the seconds, rates and peak memory of its two sides, if known."""
    parts = [report.ratio_text(ratio)]
    for field, in_unit in (("median", "s"), ("rate", f"{unit}/s"), ("peak_mib", "MiB")):
        values = [side[field] for side in sides]
        if None not in values:
            parts.append(f"{' : '.join(map(report.number, values))} {in_unit}")
    return "; ".join(parts)


def main() -> None:
    """Runs what is missing, and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--output_dir", type=pathlib.Path, help="folder of the figures")
    add("--from", dest="folders", type=pathlib.Path, nargs="+", help="print these folders' figures")
    add("--newstest", type=pathlib.Path, help="folder with newstest2013.en.gz, ...")
    add("--multi30k", type=pathlib.Path, help="folder with train.en.gz, val.de.gz, ...")
    add("--only", nargs="+", metavar="NAME", help="some benchmarks")
    add("--rounds", type=int, help="of each benchmark (its own)")
    add("--seconds", type=float, help="of each turn (its own)")
    add("--machine", metavar="NAME", help="its name in the pages, whose figures are then written")
    args = parser.parse_args()
    if bool(args.folders) == bool(args.output_dir):
        parser.error("expected either --output_dir or --from")
    if args.machine and not args.output_dir:
        parser.error("--machine: expected --output_dir, too")
    if args.newstest and len(newstests(args.newstest)) < 2:
        parser.error(f"--newstest={args.newstest}: expected two or more files newstest*.en*")
    failed = []
    if args.output_dir:
        args.output_dir.mkdir(parents=True, exist_ok=True)
        gpus = len(machine.gpus())
        runs = plan(args, gpus, bool(gpus) and jax_has_gpu())
        if unknown := {*(args.only or ())} - {run.name for run in runs}:
            parser.error(f"--only: {min(unknown)} is not one of the benchmarks that can run here")
        failed = [run.name for run in runs if not execute(run, args)]
    print(table(args.folders or [args.output_dir]))
    if args.machine:
        print(f"wrote {write_page_figures(args.output_dir, args.machine)}")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
