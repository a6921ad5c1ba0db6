"""Trains the rows of Table 3, at full or tiny size; resumes after a kill."""

import dataclasses
import logging
import math
import pathlib
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import files, registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.paper import experiment_queue
from t2t_lite.paper.experiment_queue import Folders
from t2t_lite.paper.parameter_counts import ParameterCount
from t2t_lite.paper.published import TABLE_3, Variation
from t2t_lite.paper.table import Column, Table
from t2t_lite.reporting.line_plot import Curve, line_plot
from t2t_lite.runs import metrics_file, run_folder

log = logging.getLogger(__name__)

RESULTS, CHART = "table3.json", "table3.svg"
_SETS = {"tiny": "transformer_paper_tiny", "full": "transformer_paper_base"}

# A tiny model's sizes, which keep the row's ratios to base.
_DIVISORS = {
    "num_hidden_layers": 2,
    "hidden_size": 4,
    "filter_size": 4,
    "attention_key_channels": 4,
    "parameter_attention_key_channels": 4,
    "parameter_attention_value_channels": 4,
}

# Student's t at 97.5 % for 1, 2, ... degrees of freedom; n seeds have n - 1.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
MOST_SEEDS = len(_STUDENT) + 1


@dataclasses.dataclass(frozen=True)
class Table3Settings:
    """The settings shared by all trainings of a table."""

    problem: str
    scale: str  # tiny or full
    steps: int  # updates of each training
    hparams: str = ""  # changes for all trainings: "name=value,..."


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training: a row of Table 3 and a seed."""

    row: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its run folder, and its key in table3.json."""
        return f"{self.row}-seed{self.seed}"


def variation(name: str) -> Variation:
    """Returns the row of Table 3 of that name.

    Raises:
        UsageError: there is no such row.
    """
    for row in TABLE_3:
        if row.name == name:
            return row
    names = ", ".join(row.name for row in TABLE_3)
    raise UsageError(f"Table 3 has no row {name!r}: its rows are {names}")


def hparams_flags(row: str, settings: Table3Settings) -> tuple[str, str]:
    """Returns `--hparams_set` and `--hparams` of a row at a scale.

    The row differs from base as in the paper, by the same ratio. At the tiny scale the learning
    rate falls to 0 at the last update.
    """
    theirs = registry.hparams(variation(row).hparams_set).to_dict()
    base = registry.hparams("transformer_paper_base").to_dict()
    changes: dict[str, Any] = {name: value for name, value in theirs.items() if value != base[name]}
    if settings.scale == "tiny":
        changes = {name: _shrunk(name, value) for name, value in changes.items()}
        warmup = max(1, settings.steps // 10)
        changes["learning_rate_warmup_steps"] = warmup
        changes["learning_rate_decay_steps"] = max(1, settings.steps - warmup)
    common = [part.strip() for part in settings.hparams.split(",") if part.strip()]
    given = {part.partition("=")[0].strip() for part in common}
    own = [f"{name}={value}" for name, value in changes.items() if name not in given]
    return _SETS[settings.scale], ",".join([*own, *common])


def _shrunk(name: str, value: Any) -> Any:
    return value // _DIVISORS[name] if name in _DIVISORS else value


def trainer_flags(cell: Cell, settings: Table3Settings, folders: Folders) -> list[str]:
    """Returns the flags of t2t-trainer for a cell."""
    hparams_set, hparams = hparams_flags(cell.row, settings)
    return [
        *experiment_queue.trainer_flags(
            settings.problem, hparams_set, hparams, settings.steps, folders, cell.name
        ),
        "--keep_best_max=0",
        f"--random_seed={cell.seed}",
        "--eval_steps=1000000",
        "--decode_hparams=beam_size=4,alpha=0.6,extra_length=50",
    ]


def train(
    rows: Sequence[str], seeds: int, settings: Table3Settings, folders: Folders
) -> dict[str, Any]:
    """Trains all missing cells, beginning with the first seed of every row.

    Args:
        rows: names of rows of Table 3.
        seeds: number of trainings per row, with seeds 1 to `seeds`.
        settings: the settings of all trainings.
        folders: `output_dir` receives table3.json, table3.svg and a run folder per cell.

    Returns:
        The content of table3.json.

    Raises:
        UsageError: the folder has results of other settings, a name is unknown, or the problem
            is not scored by BLEU.
        UserError: a training failed.
    """
    if "bleu" not in registry.problem(settings.problem).metrics:
        raise UsageError(f"--problem={settings.problem} is not scored by BLEU, as Table 3 is")
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"--seeds={seeds}: expected 1 to {MOST_SEEDS}")
    folder = pathlib.Path(folders.output_dir)
    path = folder / RESULTS
    results = experiment_queue.read_results(path, dataclasses.asdict(settings), ["cells"])
    cells = [Cell(row, seed) for seed in range(1, seeds + 1) for row in rows]
    for cell in cells:
        hparams_flags(cell.row, settings)  # finds mistakes before hours of training
    for number, cell in enumerate(cells, 1):
        if cell.name in results["cells"]:
            log.info("%s is already done", cell.name)
            continue
        log.info("training %s, %d of %d", cell.name, number, len(cells))
        flags = trainer_flags(cell, settings, folders)
        results["cells"][cell.name] = _train_one(cell, flags, folder / cell.name)
        experiment_queue.write_results(path, results)
        files.write_text(folder / CHART, chart(results) + "\n")
    files.write_text(folder / CHART, chart(results) + "\n")  # redrawn even if all cells were done
    return results


def _train_one(cell: Cell, flags: Sequence[str], folder: pathlib.Path) -> dict[str, Any]:
    """Trains a cell in a separate process; returns its results."""
    experiment_queue.run_command("t2t-trainer", flags, cell.name)
    evaluations = [record for _, record in metrics_file.read_metrics(folder)]
    last = [record for record in evaluations if record["kind"] == "eval"][-1]
    run = run_folder.open_run(str(folder))
    sizes = {encoder.vocab_size for encoder in run.encoders.values()}
    assert isinstance(run.hparams, TransformerHParams)
    return {
        "row": cell.row,
        "seed": cell.seed,
        "parameters": ParameterCount.of(run.hparams).at(max(sizes)),
        "perplexity": last["perplexity"],
        "bleu": last["bleu"],
        "seconds": run_folder.read_summary(folder)["train_seconds"],
        "command": " ".join(["t2t-trainer", *flags]),
    }


def interval(values: Sequence[float]) -> float | None:
    """Returns half the width of the 95 % confidence interval of the mean; None for one value.

    Uses Student's t, treating the seeds as a sample of normally distributed results.
    """
    if len(values) < 2:
        return None
    return _STUDENT[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))


def table(results: Mapping[str, Any]) -> Table:
    """Returns the trained Table 3 beside the published one.

    Args:
        results: the content of table3.json.
    """
    settings = Table3Settings(**results["settings"])
    command = (
        f"t2t-paper table3 --problem={settings.problem} --scale={settings.scale} "
        f"--steps={settings.steps}" + (f" --hparams={settings.hparams}" if settings.hparams else "")
    )
    columns = [
        Column("variation"),
        Column("PPL", "published", ".2f"),
        Column("BLEU", "published", ".1f"),
        Column("PPL here", "measured", ".2f", command),
        Column("± PPL", "measured", ".2f", command),
        Column("BLEU here", "measured", ".2f", command),
        Column("± BLEU", "measured", ".2f", command),
        Column("seeds", "measured", "d", command),
        Column("parameters", "computed", ",d", command),
        Column("minutes", "measured", ".1f", command),
    ]
    rows = []
    for row in TABLE_3:
        cells = [cell for cell in results["cells"].values() if cell["row"] == row.name]
        if not cells:
            continue
        perplexities, scores, seconds = (
            [cell[what] for cell in cells] for what in ("perplexity", "bleu", "seconds")
        )
        rows.append(
            [
                row.label,
                row.perplexity,
                row.bleu,
                statistics.fmean(perplexities),
                interval(perplexities),
                statistics.fmean(scores),
                interval(scores),
                len(cells),
                cells[0]["parameters"],
                statistics.fmean(seconds) / 60.0,
            ]
        )
    notes = [
        "Published: WMT 2014 EN-DE, newstest2013. Here: the dev set of "
        f"{settings.problem}, {settings.steps:,} updates; minutes are training time per seed.",
        "±: half the 95 % confidence interval of the mean over seeds.",
    ]
    return Table(f"Table 3, {settings.scale}", columns, rows, notes)


def chart(results: Mapping[str, Any]) -> str:
    """Plots BLEU against the number of parameters, one point per row; returns an SVG."""
    curves = []
    for style, row in enumerate(TABLE_3):
        cells = [cell for cell in results["cells"].values() if cell["row"] == row.name]
        if cells:
            score = statistics.fmean(cell["bleu"] for cell in cells)
            curves.append(Curve(row.label, [(cells[0]["parameters"] / 1e6, score)], style))
    return line_plot("BLEU, dev set", "10⁶ parameters", curves, standalone=True)
