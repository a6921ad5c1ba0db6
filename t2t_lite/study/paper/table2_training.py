"""Trains the systems of Table 2 small, side by side; resumes after a kill.

Each system trains for the same time. Its checkpoint nearest to the operations of the system that
did fewest is scored as well, so that one run compares both by time and by operations.
"""

import dataclasses
import functools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_lite import files, registry
from t2t_lite.errors import UsageError
from t2t_lite.runs import checkpoint_files, metrics_jsonl, run_folder
from t2t_lite.study.paper import experiment_queue, seeds
from t2t_lite.study.paper.experiment_queue import Folders, Queue
from t2t_lite.study.paper.parameter_counts import size_of_run
from t2t_lite.study.paper.published import TABLE_2
from t2t_lite.study.paper.seeds import Cell
from t2t_lite.study.paper.table import CellValue, Column, Table
from t2t_lite.study.reports.line_plot import Curve, line_plot

log = logging.getLogger(__name__)

RESULTS, CHART = "table2.json", "table2.svg"

_CHECKPOINTS = 30  # of a training, of which the nearest to a number of operations is chosen
_SHARES = (0.125, 0.25, 0.5, 1.0)  # of a training's operations: the points of its curve
_MOST_STEPS = 10**9  # when time limits the training


@dataclasses.dataclass(frozen=True)
class SmallSystem:
    """A system as a registered model, with a set for Multi30k that trains on two cores."""

    model: str
    hparams_set: str
    published: str = ""  # its row of Table 2

    @property
    def name(self) -> str:
        """As in `--rows`."""
        return self.hparams_set.replace("_multi30k", "")


SYSTEMS = (
    SmallSystem("transformer", "transformer_multi30k", "Transformer (base model)"),
    SmallSystem("transformer", "transformer_multi30k_prenorm"),
    SmallSystem("transformer", "transformer_moe_multi30k"),
    SmallSystem("gnmt", "gnmt_multi30k", "GNMT + RL"),
    SmallSystem("deep_att", "deep_att_multi30k", "Deep-Att + PosUnk"),
    SmallSystem("lstm_seq2seq_attention", "lstm_multi30k"),
    SmallSystem("moe_lstm", "moe_lstm_multi30k", "MoE"),
    SmallSystem("conv_s2s", "conv_s2s_multi30k", "ConvS2S"),
    SmallSystem("byte_net", "bytenet_multi30k", "ByteNet"),
    SmallSystem("extended_neural_gpu", "extended_neural_gpu_multi30k"),
    SmallSystem("universal_transformer", "universal_transformer_multi30k"),
    SmallSystem("universal_transformer", "adaptive_universal_transformer_multi30k"),
    SmallSystem("evolved_transformer", "evolved_transformer_multi30k"),
)


@dataclasses.dataclass(frozen=True)
class Table2Settings:
    """The settings shared by all trainings of a table: either minutes or updates of each."""

    problem: str
    scale: str  # tiny
    train_minutes: float = 0.0
    train_steps: int = 0
    hparams: str = ""  # changes for all trainings: "name=value,..."

    def __post_init__(self) -> None:
        if bool(self.train_minutes) == bool(self.train_steps):
            raise UsageError("how long? Give either --train_minutes or --train_steps")


def trainer_flags(
    cell: Cell, settings: Table2Settings, folders: Folders, done: float = 0.0
) -> list[str]:
    """Returns the flags of t2t-trainer for a cell: no evaluation, but checkpoints all along.

    Args:
        cell: the row and the seed.
        settings: the settings of all trainings.
        folders: of the data and the results.
        done: minutes of training before a kill.
    """
    system = seeds.find_row("Table 2", SYSTEMS, cell.row)
    hparams = experiment_queue.fitted_decay(
        system.hparams_set, settings.hparams, settings.train_steps
    )
    common = experiment_queue.trainer_flags(
        settings.problem, system.model, system.hparams_set, hparams, folders, cell.name
    )
    if settings.train_minutes:
        length = [
            f"--train_steps={_MOST_STEPS}",
            f"--train_minutes={settings.train_minutes - done}",
            f"--save_checkpoints_secs={math.ceil(60 * settings.train_minutes / _CHECKPOINTS)}",
        ]
    else:
        length = [
            f"--train_steps={settings.train_steps}",
            f"--local_eval_frequency={math.ceil(settings.train_steps / _CHECKPOINTS)}",
        ]
    # A resumed training saves one more.
    keep = [f"--keep_checkpoint_max={2 * _CHECKPOINTS}", "--keep_best_max=0"]
    return [*common, *length, *keep, "--schedule=train", f"--random_seed={cell.seed}"]


def train(
    rows: Sequence[str], number_of_seeds: int, settings: Table2Settings, folders: Folders
) -> dict[str, Any]:
    """Trains all missing cells, beginning with the first seed of every row, then scores them.

    Args:
        rows: names of `SYSTEMS`.
        number_of_seeds: number of trainings per row, with seeds from 1.
        settings: the settings of all trainings.
        folders: `output_dir` receives table2.json, table2.svg and a run folder per cell.

    Returns:
        The content of table2.json.

    Raises:
        UsageError: a setting is invalid, or the problem is a mixture.
    """
    cells = seeds.make_cells("Table 2", settings.problem, rows, number_of_seeds)
    problem = registry.problem(settings.problem)
    if problem.members != (problem,):
        raise UsageError(
            f"--problem={settings.problem} is a mixture, whose BLEU is a mean over its members, "
            "without an interval over sentences: name one of them"
        )
    for cell in cells:  # finds mistakes before hours of training
        system = seeds.find_row("Table 2", SYSTEMS, cell.row)
        registry.hparams(system.hparams_set).override(settings.hparams)
    with experiment_queue.opened(RESULTS, settings, folders, ["cells", "scores"]) as queue:
        for number, cell in enumerate(cells, 1):
            log.info("%s, %d of %d", cell.name, number, len(cells))
            queue.once("cells", cell.name, functools.partial(_train_one, cell, settings, queue))
        budget = equal_operations(queue.results)
        for name, trained in queue.results["cells"].items():
            _score(name, trained, budget, queue)
        files.write_text(queue.path(CHART), chart(queue.results) + "\n")
        return queue.results


def _train_one(cell: Cell, settings: Table2Settings, queue: Queue) -> dict[str, Any]:
    """Trains a cell in a separate process; returns its results."""
    folder = queue.path(cell.name)
    done = run_folder.read_summary(folder).get("train_seconds", 0.0) / 60
    if settings.train_steps or done < settings.train_minutes:
        flags = trainer_flags(cell, settings, queue.folders, done)
        experiment_queue.run_command("t2t-trainer", flags, cell.name)
    cost = run_folder.read_summary(folder)
    run = run_folder.RunFolder.open(str(folder))
    steps = [checkpoint_files.step_of(path) for path in checkpoint_files.whole_checkpoints(folder)]
    records = [record for _, record in metrics_jsonl.read_records(folder)]
    counted = operations_at(steps, records, cost)
    return {
        **dataclasses.asdict(cell),
        "parameters": size_of_run(run),
        "updates": cost["steps"],
        "target_tokens": cost["target_tokens"],
        "operations": cost["flops_by_count"],
        "checkpoints": dict(zip(map(str, steps), counted, strict=True)),
        **experiment_queue.trained(trainer_flags(cell, settings, queue.folders), folder),
    }


def operations_at(
    steps: Sequence[int], records: Sequence[Mapping[str, Any]], cost: Mapping[str, Any]
) -> list[float]:
    """Returns the counted operations of a training up to each of its checkpoints.

    Args:
        steps: updates before each checkpoint.
        records: of metrics.jsonl, each with the operations since the last one.
        cost: the content of summary.json.
    """
    ends, counts = [0], [0.0]
    for record in records:
        if record["kind"] == "train":
            ends.append(record["step"])
            counts.append(counts[-1] + record.get("flops", 0.0))
    between = np.interp(steps, [*ends, cost["steps"]], [*counts, cost["flops_by_count"]])
    return [float(count) for count in between]


def equal_operations(results: Mapping[str, Any]) -> float:
    """Returns the operations of the training that did fewest: all others have passed there."""
    return min(cell["operations"] for cell in results["cells"].values())


def checkpoints_to_score(trained: Mapping[str, Any], budget: float) -> list[str]:
    """Returns the steps of the checkpoints of a training that are nearest to what is asked.

    The first is nearest to `budget` operations; then come those nearest to `_SHARES` of all
    operations of the training, which end with the last checkpoint.
    """
    counted: Mapping[str, float] = trained["checkpoints"]
    wanted = [budget, *(share * trained["operations"] for share in _SHARES)]
    return [min(counted, key=lambda step: abs(counted[step] - operations)) for operations in wanted]


def _score(name: str, trained: Mapping[str, Any], budget: float, queue: Queue) -> None:
    """Scores the checkpoints of a cell that are not scored yet, in a separate process."""
    done = queue.results["scores"]
    steps = sorted(set(checkpoints_to_score(trained, budget)), key=int)
    missing = [step for step in steps if f"{name}-{step}" not in done]
    if not missing:
        log.info("%s is already scored", name)
        return
    scored, command = experiment_queue.evaluate(
        f"{name}, dev",
        [f"--output_dir={queue.path(name)}", f"--checkpoint_path={','.join(missing)}"],
        seeds.DECODE_HPARAMS,
        queue.folders,
    )
    found = {}
    for step, scores in zip(missing, scored, strict=True):
        # BLEU is the first metric of most problems, but not of each.
        resampled = filter(None, [scores["resampled"], *scores["other_resampled"].values()])
        found[f"{name}-{step}"] = {
            "row": trained["row"],
            "seed": trained["seed"],
            "updates": int(step),
            "operations": trained["checkpoints"][step],
            "bleu": scores["values"]["bleu"],
            "half_width": next(one["half_width"] for one in resampled if one["metric"] == "bleu"),
            "perplexity": scores["values"]["perplexity"],
            "command": command,
        }
        log.info("%s after %s updates: BLEU %.2f", name, step, scores["values"]["bleu"])
    queue.record("scores", found)


def _scores(
    results: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], number: int
) -> list[dict[str, Any]]:
    """Returns each seed's scores at one of `checkpoints_to_score`."""
    budget, found = equal_operations(results), []
    for cell in cells:
        name = Cell(cell["row"], cell["seed"]).name
        step = checkpoints_to_score(cell, budget)[number]
        found.append(results["scores"][f"{name}-{step}"])
    return found


def table(results: Mapping[str, Any]) -> Table:
    """Returns the trained Table 2 beside the published BLEU.

    Args:
        results: the content of table2.json.
    """
    settings = Table2Settings(**results["settings"])
    command = experiment_queue.paper_command("2", settings, **seeds.asked(results))
    budget = equal_operations(results)
    columns = [
        Column("system"),
        Column("BLEU EN-DE", "published", "g"),
        *(
            Column(name, origin, spec, command)
            for name, origin, spec in (
                ("parameters", "computed", ",d"),
                ("target tokens/s", "measured", ",.0f"),
                ("minutes", "measured", ".1f"),
                ("updates", "measured", ",.0f"),
                ("FLOPs an update", "measured", ".2e"),
                ("FLOPs", "measured", ".2e"),
                ("BLEU at the end", "measured", ".2f"),
                ("± sentences", "measured", ".2f"),
                ("± seeds", "measured", ".2f"),
                ("FLOPs there", "measured", ".2e"),
                (f"BLEU near {budget:.1e} FLOPs", "measured", ".2f"),
                ("± sentences there", "measured", ".2f"),
                ("± seeds there", "measured", ".2f"),
                ("seeds", "measured", "d"),
            )
        ),
    ]
    rows = [
        _row(system, cells, results)
        for system in SYSTEMS
        if (cells := seeds.of_row(results, system.name))
    ]
    return Table(f"Table 2, {settings.scale}", columns, rows, _notes(settings))


def _row(
    system: SmallSystem, cells: Sequence[Mapping[str, Any]], results: Mapping[str, Any]
) -> list[CellValue]:
    published = {row.name: row.ende for row in TABLE_2}
    seconds, updates, operations = (
        seeds.mean(cells, figure) for figure in ("seconds", "updates", "operations")
    )
    near_budget, *_, at_end = (_scores(results, cells, i) for i in range(len(_SHARES) + 1))
    return [
        system.name,
        published.get(system.published),
        cells[0]["parameters"],
        seeds.mean(cells, "target_tokens") / seconds,
        seconds / 60.0,
        updates,
        operations / updates,
        operations,
        *_bleu(at_end),
        seeds.mean(near_budget, "operations"),
        *_bleu(near_budget),
        len(cells),
    ]


def _bleu(scores: Sequence[Mapping[str, Any]]) -> tuple[float, float, float | None]:
    """Returns the mean over the seeds, and both of its intervals."""
    mean, over_seeds = seeds.mean_and_interval(scores, "bleu")
    return mean, seeds.mean(scores, "half_width"), over_seeds


def _notes(settings: Table2Settings) -> list[str]:
    length = (
        f"{settings.train_minutes:g} minutes"
        if settings.train_minutes
        else f"{settings.train_steps:,} updates"
    )
    return [
        f"Published: newstest2014. Here: the dev set of {settings.problem}, {length} of training "
        f"for each seed, {seeds.DECODE_HPARAMS}; figures are means over the seeds.",
        "FLOPs: counted operations of training, without padding. BLEU near so many FLOPs: of the "
        "checkpoint nearest to what the training that did fewest did in all.",
        "± sentences: half the 95 % interval over resampled sentences. ± seeds: of the mean over "
        "the seeds.",
    ]


def chart(results: Mapping[str, Any]) -> str:
    """Plots BLEU against counted operations, a curve per system; returns an SVG."""
    curves = []
    for style, system in enumerate(SYSTEMS):
        if cells := seeds.of_row(results, system.name):
            scored = [_scores(results, cells, i) for i in range(len(_SHARES) + 1)]
            points = {(seeds.mean(s, "operations") / 1e12, seeds.mean(s, "bleu")) for s in scored}
            curves.append(Curve(system.name, sorted(points), style))
    return line_plot("BLEU, dev set", "10¹² counted operations", curves, standalone=True)
