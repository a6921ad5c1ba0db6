"""Trains the rows of Table 3, at full or tiny size; resumes after a kill."""

import dataclasses
import functools
import logging
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import files, registry
from t2t_lite.runs import metrics_jsonl, run_folder
from t2t_lite.settings import meant_by, split_assignments
from t2t_lite.study.paper import experiment_queue, seeds
from t2t_lite.study.paper.experiment_queue import Folders
from t2t_lite.study.paper.parameter_counts import size_of_run
from t2t_lite.study.paper.published import TABLE_3, Variation
from t2t_lite.study.paper.seeds import Cell
from t2t_lite.study.paper.table import Column, Table
from t2t_lite.study.reports.line_plot import Curve, line_plot

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


@dataclasses.dataclass(frozen=True)
class Table3Settings:
    """The settings shared by all trainings of a table."""

    problem: str
    scale: str  # tiny or full
    train_steps: int  # updates of each training
    hparams: str = ""  # changes for all trainings: "name=value,..."


def variation(name: str) -> Variation:
    """Returns the row of Table 3 of that name."""
    return seeds.find_row("Table 3", TABLE_3, name)


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
        changes["learning_rate_warmup_steps"] = max(1, settings.train_steps // 10)
    given = meant_by(settings.hparams)
    own = [f"{name}={value}" for name, value in changes.items() if name not in given]
    hparams = ",".join([*own, *split_assignments(settings.hparams)])
    if settings.scale == "tiny":
        hparams = experiment_queue.fitted_decay(_SETS["tiny"], hparams, settings.train_steps)
    return _SETS[settings.scale], hparams


def _shrunk(name: str, value: Any) -> Any:
    return value // _DIVISORS[name] if name in _DIVISORS else value


def trainer_flags(cell: Cell, settings: Table3Settings, folders: Folders) -> list[str]:
    """Returns the flags of t2t-trainer for a cell."""
    sets = hparams_flags(cell.row, settings)
    return [
        *experiment_queue.trainer_flags(settings.problem, "transformer", *sets, folders, cell.name),
        *experiment_queue.length_flags(settings.train_steps),
        "--keep_best_max=0",
        f"--random_seed={cell.seed}",
        "--eval_steps=1000000",
        f"--decode_hparams={seeds.DECODE_HPARAMS}",
    ]


def train(
    rows: Sequence[str], number_of_seeds: int, settings: Table3Settings, folders: Folders
) -> dict[str, Any]:
    """Trains all missing cells, beginning with the first seed of every row.

    Args:
        rows: names of rows of Table 3.
        number_of_seeds: number of trainings per row, with seeds from 1.
        settings: the settings of all trainings.
        folders: `output_dir` receives table3.json, table3.svg and a run folder per cell.

    Returns:
        The content of table3.json.
    """
    cells = seeds.make_cells("Table 3", settings.problem, rows, number_of_seeds)
    for cell in cells:
        hparams_flags(cell.row, settings)  # finds mistakes before hours of training
    with experiment_queue.opened(RESULTS, settings, folders, ["cells"]) as queue:
        for number, cell in enumerate(cells, 1):
            log.info("%s, %d of %d", cell.name, number, len(cells))
            flags = trainer_flags(cell, settings, folders)
            training = functools.partial(_train_one, cell, flags, queue.path(cell.name))
            queue.once("cells", cell.name, training)
            # Also if it was done already: another release may draw it differently.
            files.write_text(queue.path(CHART), chart(queue.results) + "\n")
        return queue.results


def _train_one(cell: Cell, flags: Sequence[str], folder: pathlib.Path) -> dict[str, Any]:
    """Trains a cell in a separate process; returns its results."""
    trained = experiment_queue.train(cell.name, flags, folder)
    evaluations = [record for _, record in metrics_jsonl.read_records(folder)]
    last = [record for record in evaluations if record["kind"] == "eval"][-1]
    run = run_folder.RunFolder.open(str(folder))
    return {
        **dataclasses.asdict(cell),
        "parameters": size_of_run(run),
        "perplexity": last["perplexity"],
        "bleu": last["bleu"],
        **trained,
    }


def table(results: Mapping[str, Any]) -> Table:
    """Returns the trained Table 3 beside the published one.

    Args:
        results: the content of table3.json.
    """
    settings = Table3Settings(**results["settings"])
    command = experiment_queue.paper_command("3", settings, **seeds.asked(results))
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
        cells = seeds.of_row(results, row.name)
        if not cells:
            continue
        rows.append(
            [
                row.label,
                row.perplexity,
                row.bleu,
                *seeds.mean_and_interval(cells, "perplexity"),
                *seeds.mean_and_interval(cells, "bleu"),
                len(cells),
                cells[0]["parameters"],
                seeds.mean(cells, "seconds") / 60.0,
            ]
        )
    notes = [
        "Published: WMT 2014 EN-DE, newstest2013. Here: the dev set of "
        f"{settings.problem}, "
        f"{settings.train_steps:,} updates; minutes are training time per seed.",
        "±: half the 95 % confidence interval of the mean over seeds.",
    ]
    return Table(f"Table 3, {settings.scale}", columns, rows, notes)


def chart(results: Mapping[str, Any]) -> str:
    """Plots BLEU against the number of parameters, one point per row; returns an SVG."""
    curves = []
    for style, row in enumerate(TABLE_3):
        cells = seeds.of_row(results, row.name)
        if cells:
            point = (cells[0]["parameters"] / 1e6, seeds.mean(cells, "bleu"))
            curves.append(Curve(row.label, [point], style))
    return line_plot("BLEU, dev set", "10⁶ parameters", curves, standalone=True)
