"""Which model generalises: T2T's algorithmic problems, with sources longer than in training.

    python benchmarks/generalisation.py --output_dir=generalisation

trains every model on every problem of short_algorithmic/, for the same number of updates, by
t2t-trainer in a separate process. Each then decodes the problem's test split greedily. An output
is right if all of it is. A table in Markdown shows the shares of right outputs by the length of
the source.

The lengths are a quarter of T2T's, so that minutes suffice to learn them. Models are as
small: 64 features.

Finished trainings are in generalisation.json; a killed command resumes when it is run again, and
models and problems that are named later are added.
"""

import argparse
import collections
import dataclasses
import functools
import logging
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import short_algorithmic

from t2t_lite import files, registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UserError
from t2t_lite.study.paper import experiment_queue, seeds
from t2t_lite.study.paper.experiment_queue import Folders, Queue
from t2t_lite.study.paper.table import Column, Table

RESULTS = "generalisation.json"
USR_DIR = os.path.relpath(pathlib.Path(short_algorithmic.__file__).parent)
PROBLEMS = (
    *("identity_decimal", "shift_decimal", "reverse_decimal", "reverse_nlplike", "sort"),
    *("addition_binary", "multiplication_binary"),
)
DECODE_HPARAMS = "beam_size=1,extra_length=5"
# `max_length` admits the longest test source.
COMMON = (
    "batch_size=1024,hidden_size=64,batch_shuffle_size=64,max_length=64,label_smoothing=0,"
    "learning_rate_schedule=constant*linear_warmup*rsqrt_normalized_decay,"
    "learning_rate_constant=0.004,learning_rate_warmup_steps=100"
)
TRANSFORMER = (
    "num_hidden_layers=2,filter_size=128,num_heads=4,"
    "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
)
RECURRENT = "num_hidden_layers=1,dropout=0"


@dataclasses.dataclass(frozen=True)
class Row:
    """A registered model, a set of its hparams, and what makes it small."""

    name: str
    model: str
    hparams_set: str
    hparams: str


ROWS = (
    Row("neural_gpu", "neural_gpu", "neural_gpu", "dropout=0"),
    Row("lstm", "lstm_seq2seq", "lstm_multi30k", RECURRENT),
    Row(
        "lstm_attention",
        "lstm_seq2seq_attention_bidirectional_encoder",
        "lstm_multi30k",
        RECURRENT,
    ),
    Row("transformer", "transformer", "transformer_tiny", TRANSFORMER),
    Row("transformer_relative", "transformer", "transformer_relative_tiny", TRANSFORMER),
    Row(
        "universal_transformer",
        "universal_transformer",
        "universal_transformer_multi30k",
        TRANSFORMER,
    ),
    Row(
        "adaptive_universal_transformer",
        "universal_transformer",
        "adaptive_universal_transformer_multi30k",
        TRANSFORMER,
    ),
    Row(
        "conv_s2s",
        "conv_s2s",
        "conv_s2s_multi30k",
        "dropout=0,encoder_layers=64x3*2,decoder_layers=64x3*2",
    ),
    Row(
        "byte_net",
        "byte_net",
        "bytenet_multi30k",
        # Its kernels reach the other end of the longest test source.
        "dropout=0,residual_block=chain,kernel_height=5,num_block_repeat=2",
    ),
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all trainings share."""

    steps: int  # updates of each training


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training: a model and a problem."""

    row: str
    problem: str

    @property
    def name(self) -> str:
        """The name of its run folder, and its key in the results."""
        return f"{self.row}-{self.problem}"


def measure(
    rows: Sequence[str], problems: Sequence[str], settings: Settings, folders: Folders
) -> dict[str, Any]:
    """Trains and scores all missing cells, one problem after another; returns all results.

    Raises:
        UsageError: a name is unknown, or the folder has results of other settings.
        UserError: a training or its decoding failed.
    """
    for row in rows:
        seeds.find_row("The table", ROWS, row)
    for problem in problems:
        registry.problem(f"short_{problem}")
    queue = Queue(RESULTS, settings, folders, ["cells"])
    for cell in (Cell(row, problem) for problem in problems for row in rows):
        queue.once("cells", cell.name, functools.partial(run_cell, cell, settings, queue))
    return queue.results


def run_cell(cell: Cell, settings: Settings, queue: Queue) -> dict[str, Any]:
    """Trains and scores a cell; returns its results."""
    row = seeds.find_row("The table", ROWS, cell.row)
    common = experiment_queue.trainer_flags(
        f"short_{cell.problem}",
        row.model,
        row.hparams_set,
        f"{COMMON},{row.hparams}",
        queue.folders,
        cell.name,
    )
    generate = ["--generate_data", f"--tmp_dir={queue.path('tmp')}"]
    length = experiment_queue.length_flags(settings.steps)
    flags = [*common, *generate, *length, "--schedule=train", "--random_seed=1"]
    trained = experiment_queue.train(cell.name, flags, queue.path(cell.name))
    return {**dataclasses.asdict(cell), "by_length": decode(cell, queue), **trained}


def decode(cell: Cell, queue: Queue) -> dict[str, tuple[int, int]]:
    """Decodes the test split in a separate process; returns the result of `count_right`."""
    problem = registry.problem(f"short_{cell.problem}")
    samples = list(problem.generate_samples("", "", DatasetSplit.TEST))
    sources, references = ([sample[side] for sample in samples] for side in ("inputs", "targets"))
    source, output = (queue.path(cell.name) / name for name in ("test.inputs", "test.outputs"))
    files.write_text(source, "".join(f"{line}\n" for line in sources))
    flags = [
        f"--output_dir={queue.path(cell.name)}",
        f"--t2t_usr_dir={queue.folders.t2t_usr_dir}",
        f"--decode_from_file={source}",
        f"--decode_to_file={output}",
        f"--decode_hparams={DECODE_HPARAMS}",
    ]
    experiment_queue.run_command("t2t-decoder", flags, cell.name)
    return count_right(sources, output.read_text("utf-8").splitlines(), references)


def count_right(
    sources: Sequence[str], outputs: Sequence[str], references: Sequence[str]
) -> dict[str, tuple[int, int]]:
    """Returns, by the number of symbols of the source: outputs that are wholly right, and all.

    Raises:
        UserError: there is not one output for each source.
    """
    if len(outputs) != len(sources):
        raise UserError(f"expected {len(sources)} outputs, got {len(outputs)}: decode again")
    right: collections.Counter[int] = collections.Counter()
    count: collections.Counter[int] = collections.Counter()
    for source, output, reference in zip(sources, outputs, references, strict=True):
        length = len(source.split())
        count[length] += 1
        right[length] += output == reference
    return {str(length): (right[length], count[length]) for length in sorted(count)}


def shares(
    by_length: Mapping[str, Sequence[int]], ranges: Iterable[tuple[int, int]]
) -> list[float]:
    """Returns the percentage of right outputs for sources in each range of lengths.

    Args:
        by_length: the result of `count_right`.
        ranges: for each, the length below it and its longest.
    """
    found = []
    for below, longest in ranges:
        inside = [counts for length, counts in by_length.items() if below < int(length) <= longest]
        right, count = map(sum, zip(*inside, strict=True))
        found.append(100 * right / count)
    return found


def table(results: Mapping[str, Any]) -> Table:
    """Returns the table of all results: a row per model, a column per problem."""
    steps, cells = results["settings"]["steps"], results["cells"]
    problems = [name for name in PROBLEMS if any(c["problem"] == name for c in cells.values())]
    rows = []
    for row in ROWS:
        if any(cell["row"] == row.name for cell in cells.values()):
            found = [cells.get(Cell(row.name, problem).name) for problem in problems]
            rows.append([row.name, *(_written(cell, short_algorithmic.RANGES) for cell in found)])
    command = f"python benchmarks/generalisation.py --steps={steps}"
    *others, last = (f"{times:g}" for times in short_algorithmic.MULTIPLES)
    length = short_algorithmic.TRAIN_LENGTH
    notes = [
        f"Sources of up to {length} symbols in training. Percentages of outputs that are wholly "
        f"right, for test sources up to {', '.join(others)} and {last} times as long, each "
        "without those of the range before.",
        f"{steps:,} updates each, one seed; greedy search.",
    ]
    columns = [Column("model"), *(Column(name, "measured", "", command) for name in problems)]
    return Table("Generalisation to longer sources", columns, rows, notes)


def _written(cell: Mapping[str, Any] | None, ranges: Iterable[tuple[int, int]]) -> str | None:
    return " / ".join(f"{x:.0f}" for x in shares(cell["by_length"], ranges)) if cell else None


def main(argv: Sequence[str] | None = None) -> None:
    """Measures what is missing, and prints the table."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--output_dir", required=True, help="folder of results and trainings")
    parser.add_argument("--steps", type=int, default=1500, help="updates of each training")
    parser.add_argument("--rows", default=",".join(row.name for row in ROWS), help="models")
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    args = parser.parse_args(argv)
    folders = Folders(str(pathlib.Path(args.output_dir, "data")), args.output_dir, USR_DIR)
    rows, problems = args.rows.split(","), args.problems.split(",")
    try:
        results = measure(rows, problems, Settings(args.steps), folders)
    except UserError as error:
        raise SystemExit(str(error)) from None
    print(table(results).markdown())


if __name__ == "__main__":
    main()
