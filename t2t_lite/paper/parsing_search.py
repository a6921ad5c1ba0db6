"""Section 6.3: a parser's dropout, learning rate and beam, chosen on dev, then scored on test.

Every pair of dropout and learning rate is a training, every training is decoded with every beam
size; both are recorded in parsing_search.json as they end, so that a killed search goes on there.
"""

import dataclasses
import json
import logging
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.paper import experiments, parsing
from t2t_lite.paper.experiments import Places
from t2t_lite.paper.table import Column, Table, Value
from t2t_lite.runs import run_folder
from t2t_lite.search.decode_hparams import DecodeHParams

log = logging.getLogger(__name__)

RESULTS = "parsing_search.json"
_METRIC = "bracketing_f1"
_SEED = 1  # of every training: they differ in what is searched, and in nothing else


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all trainings of a search have in common."""

    problem: str
    hparams_set: str
    steps: int  # updates of each training
    hparams: str = ""  # changes for all of them: "name=value,..."


@dataclasses.dataclass(frozen=True)
class Grid:
    """What is tried."""

    dropouts: Sequence[float]  # of attention weights and of residual connections (section 5.4)
    learning_rates: Sequence[float]  # as the set's schedule has them; none: its own and twice that
    beam_sizes: Sequence[int]

    def __post_init__(self) -> None:
        if not self.dropouts or not self.beam_sizes:
            raise UsageError("--dropouts and --beam_sizes: at least one of each is needed")
        for dropout in self.dropouts:
            if not 0 <= dropout < 1:
                raise UsageError(f"--dropouts: {dropout} is not from 0 to below 1")
        for rate in self.learning_rates:
            if not 0 < rate < math.inf:
                raise UsageError(f"--learning_rates: {rate} is not above 0")


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training."""

    dropout: float
    learning_rate: float

    @property
    def name(self) -> str:
        """Its run folder inside that of the search, and its key in parsing_search.json."""
        return f"dropout{self.dropout}-rate{self.learning_rate}"


def rate_name(settings: Settings) -> str:
    """Returns the hparam that scales the learning rate's schedule.

    Raises:
        UsageError: no hparam does.
    """
    hparams = registry.hparams(settings.hparams_set).override(settings.hparams)
    assert isinstance(hparams, BasicHParams)
    factors = [factor.strip() for factor in hparams.learning_rate_schedule.split("*")]
    for factor, name in (("constant", "learning_rate_constant"), ("legacy", "learning_rate")):
        if factor in factors:
            return name
    raise UsageError(
        f"hparam learning_rate_schedule={hparams.learning_rate_schedule!r} leaves no rate to "
        "choose: it has no factor 'constant'"
    )


def trainings(settings: Settings, grid: Grid) -> list[Cell]:
    """Returns the trainings of a grid.

    Raises:
        UsageError: the trainer would refuse one of them.
    """
    hparams = registry.hparams(settings.hparams_set)
    own: float = getattr(hparams, rate_name(settings))
    rates = grid.learning_rates or (own, 2 * own)
    found = [Cell(dropout, rate) for dropout in grid.dropouts for rate in rates]
    for cell in found:
        hparams.override(_hparams(cell, settings))
    return found


def _hparams(cell: Cell, settings: Settings) -> str:
    """Returns the `--hparams` of a training; one that is searched cannot be in `settings`, too."""
    changes = [
        f"layer_prepostprocess_dropout={cell.dropout}",
        f"attention_dropout={cell.dropout}",
        f"{rate_name(settings)}={cell.learning_rate}",
    ]
    return ",".join(filter(None, [*changes, settings.hparams]))


def _decode_hparams(beam_size: int) -> str:
    """Returns `--decode_hparams` as in section 6.3; what else a problem has, it keeps."""
    return f"beam_size={beam_size},alpha=0.3,extra_length=300"


def trainer_flags(cell: Cell, settings: Settings, places: Places) -> list[str]:
    """Returns the flags of t2t-trainer for a training."""
    hparams = _hparams(cell, settings)
    common = experiments.trainer_flags(
        settings.problem, settings.hparams_set, hparams, settings.steps, places, cell.name
    )
    return [*common, "--schedule=train", f"--random_seed={_SEED}"]


def search(settings: Settings, grid: Grid, places: Places) -> dict[str, Any]:
    """Trains and decodes what is not done yet, then decodes test as was best on dev.

    Args:
        settings: the same in all trainings.
        grid: what to try; what was tried there before with other grids is chosen from, too.
        places: its folder of results gets parsing_search.json and the run folder of each training.

    Returns:
        What parsing_search.json holds.

    Raises:
        UsageError: the problem is no parsing, a name or value is wrong, or the folder was made
            with other settings.
        UserError: a training or decoding failed.
    """
    problem = registry.problem(settings.problem)
    if _METRIC not in problem.metrics:
        raise UsageError(
            f"--problem={settings.problem} is no parsing: its outputs are scored by "
            f"{', '.join(problem.metrics)}, not by {_METRIC}"
        )
    queue = _Queue(settings, places)
    for beam_size in grid.beam_sizes:
        DecodeHParams.of(problem, _decode_hparams(beam_size))
    cells = trainings(settings, grid)
    for number, cell in enumerate(cells, 1):
        log.info("%s, %d of %d", cell.name, number, len(cells))
        queue.train(cell)
        for beam_size in grid.beam_sizes:
            queue.score(cell, beam_size, DatasetSplit.EVAL)
    best = chosen(queue.results)
    log.info("chosen: %s", best)
    if any(entry["split"] == DatasetSplit.TEST for entry in problem.dataset_splits):
        tried = queue.results[DatasetSplit.EVAL][best]
        cell = Cell(tried["dropout"], tried["learning_rate"])
        queue.score(cell, tried["beam_size"], DatasetSplit.TEST)
    return queue.results


class _Queue:
    """The trainings and decodings of a search, each of them once."""

    def __init__(self, settings: Settings, places: Places) -> None:
        self._settings = settings
        self._places = places
        self._folder = pathlib.Path(places.output_dir)
        self._path = self._folder / RESULTS
        self.results = experiments.read_results(
            self._path,
            dataclasses.asdict(settings),
            ["cells", DatasetSplit.EVAL, DatasetSplit.TEST],
        )

    def train(self, cell: Cell) -> None:
        if cell.name in self.results["cells"]:
            log.info("%s is trained already", cell.name)
            return
        flags = trainer_flags(cell, self._settings, self._places)
        experiments.run_command("t2t-trainer", flags, cell.name)
        trained = {
            **dataclasses.asdict(cell),
            "seconds": run_folder.read_summary(self._folder / cell.name)["train_seconds"],
            "command": " ".join(["t2t-trainer", *flags]),
        }
        self._record("cells", cell.name, trained)

    def score(self, cell: Cell, beam_size: int, split: str) -> None:
        name = f"{cell.name}-beam{beam_size}"
        if name in self.results[split]:
            log.info("%s is decoded already on %s", name, split)
            return
        flags = [
            f"--output_dir={self._folder / cell.name}",
            *self._places.flags(),
            f"--decode_hparams={_decode_hparams(beam_size)}",
            "--output_format=json",
        ]
        if split == DatasetSplit.TEST:
            flags.append("--eval_use_test_set")
        printed = experiments.run_command("t2t-eval", flags, f"{name}, {split}", capture=True)
        (checkpoint,) = json.loads(printed)["checkpoints"]
        scores = checkpoint["values"]
        log.info("%s on %s: F1 %.2f, of all sentences %.2f", name, split, *_f1(scores))
        scored = {
            **dataclasses.asdict(cell),
            "beam_size": beam_size,
            "scores": scores,
            "command": " ".join(["t2t-eval", *flags]),
        }
        self._record(split, name, scored)

    def _record(self, section: str, name: str, result: Mapping[str, Any]) -> None:
        self.results[section][name] = result
        experiments.write_results(self._path, self.results)


def _f1(scores: Mapping[str, float]) -> tuple[float, float]:
    """Returns EVALB's F1, and that of all sentences."""
    return scores[_METRIC], scores[f"{_METRIC}_of_all"]


def chosen(results: Mapping[str, Any]) -> str:
    """Returns the name of what is best on dev, the first one of equals.

    By F1 of all sentences: EVALB leaves out those whose punctuation the parser got wrong, and so
    would favour a parser that fails in this way. Where it leaves out none, both are the same.
    """
    tried = results[DatasetSplit.EVAL]
    return max(tried, key=lambda name: _f1(tried[name]["scores"])[1])


def table(results: Mapping[str, Any]) -> Table:
    """Returns all that was tried on dev, and the chosen on test beside the published F1.

    Args:
        results: what parsing_search.json holds.
    """
    settings = Settings(**results["settings"])
    command = (
        f"t2t-paper parsing-search --problem={settings.problem} "
        f"--hparams_set={settings.hparams_set} --steps={settings.steps}"
        + (f" --hparams={settings.hparams}" if settings.hparams else "")
    )
    columns = [
        Column("split"),
        Column("dropout"),
        Column(rate_name(settings)),
        Column("beam"),
        Column("F1", "published", ".1f"),
        Column("F1 here", "measured", ".2f", command),
        Column("of all sentences", "measured", ".2f", command),
        Column("minutes", "measured", ".1f", command),
    ]
    best, published = chosen(results), parsing.published(settings.problem)
    tried, tested = results[DatasetSplit.EVAL], results[DatasetSplit.TEST]
    rows = [
        ["dev, chosen" if name == best else "dev", *_figures(scored, None, results)]
        for name, scored in tried.items()
    ]
    if best in tested:
        rows.append(["test", *_figures(tested[best], published.f1, results)])
    notes = [
        f"Published: WSJ, section 23, {published.training}. Here: {settings.problem}, "
        f"{settings.steps:,} updates; minutes are those of training.",
        "F1: by EVALB's rules, which leave some sentences out; of all sentences: these count as "
        "missed. The latter chooses.",
    ]
    return Table("Section 6.3: parsing, chosen on dev", columns, rows, notes)


def _figures(
    scored: Mapping[str, Any], published: float | None, results: Mapping[str, Any]
) -> list[Value]:
    """Returns a row of the table without its first cell."""
    cell = Cell(scored["dropout"], scored["learning_rate"])
    minutes = results["cells"][cell.name]["seconds"] / 60.0
    searched = [str(cell.dropout), str(cell.learning_rate), str(scored["beam_size"])]
    return [*searched, published, *_f1(scored["scores"]), minutes]
