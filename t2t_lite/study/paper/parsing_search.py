"""Section 6.3: chooses a parser's dropout, learning rate and beam on dev, then scores on test.

Every pair of dropout and learning rate is trained once, and decoded with every beam size. Results
are recorded in parsing_search.json as soon as they exist, so that a killed search resumes.
"""

import dataclasses
import functools
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import registry
from t2t_lite.data.problem import DatasetSplit
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.study.paper import experiment_queue, table4
from t2t_lite.study.paper.experiment_queue import Folders, Queue
from t2t_lite.study.paper.table import CellValue, Column, Table

log = logging.getLogger(__name__)

RESULTS = "parsing_search.json"
_METRIC = "bracketing_f1"
_SEED = 1  # the same in all trainings, which differ only in the searched hparams


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """The settings shared by all trainings of a search."""

    problem: str
    hparams_set: str
    train_steps: int  # updates of each training
    hparams: str = ""  # changes for all trainings: "name=value,..."


@dataclasses.dataclass(frozen=True)
class SearchGrid:
    """The values to try."""

    dropouts: Sequence[float]  # of attention weights and of residual connections (section 5.4)
    learning_rates: Sequence[
        float
    ]  # in the unit of the set's schedule; none: its own and twice that
    beam_sizes: Sequence[int]

    def __post_init__(self) -> None:
        if not self.dropouts or not self.beam_sizes:
            raise UsageError("--dropouts and --beam_sizes: at least one value of each is needed")
        for dropout in self.dropouts:
            if not 0 <= dropout < 1:
                raise UsageError(f"--dropouts: {dropout} is not at least 0 and below 1")
        for rate in self.learning_rates:
            if not 0 < rate < math.inf:
                raise UsageError(f"--learning_rates: {rate} is not above 0")


@dataclasses.dataclass(frozen=True)
class Trial:
    """One training of a search."""

    dropout: float
    learning_rate: float

    @property
    def name(self) -> str:
        """The name of its run folder, and its key in parsing_search.json."""
        return f"dropout{self.dropout}-rate{self.learning_rate}"


def rate_name(settings: SearchSettings) -> str:
    """Returns the hparam that scales the learning-rate schedule.

    Raises:
        UsageError: the schedule has no rate.
    """
    hparams = registry.hparams(settings.hparams_set).override(settings.hparams)
    assert isinstance(hparams, BasicHParams)
    factors = [factor.strip() for factor in hparams.learning_rate_schedule.split("*")]
    for factor, name in (("constant", "learning_rate_constant"), ("legacy", "learning_rate")):
        if factor in factors:
            return name
    raise UsageError(
        f"hparam learning_rate_schedule={hparams.learning_rate_schedule!r} has no rate to "
        "choose: it lacks the factor 'constant'"
    )


def trials(settings: SearchSettings, grid: SearchGrid) -> list[Trial]:
    """Returns the trainings of a grid."""
    hparams = registry.hparams(settings.hparams_set)
    own: float = getattr(hparams, rate_name(settings))
    rates = grid.learning_rates or (own, 2 * own)
    found = [Trial(dropout, rate) for dropout in grid.dropouts for rate in rates]
    for trial in found:
        hparams.override(_hparams(trial, settings))
    return found


def _hparams(trial: Trial, settings: SearchSettings) -> str:
    """Returns the `--hparams` of a training; `settings` may not contain searched hparams."""
    changes = [
        f"layer_prepostprocess_dropout={trial.dropout}",
        f"attention_dropout={trial.dropout}",
        f"{rate_name(settings)}={trial.learning_rate}",
    ]
    return ",".join(filter(None, [*changes, settings.hparams]))


def _decode_hparams(beam_size: int) -> str:
    """Returns the `--decode_hparams` of section 6.3; the problem's others stay as they are."""
    return f"beam_size={beam_size},alpha=0.3,extra_length=300"


def trainer_flags(trial: Trial, settings: SearchSettings, folders: Folders) -> list[str]:
    """Returns the flags of t2t-trainer for a training."""
    hparams = experiment_queue.fitted_decay(
        settings.hparams_set, _hparams(trial, settings), settings.train_steps
    )
    return [
        *experiment_queue.trainer_flags(
            settings.problem, "transformer", settings.hparams_set, hparams, folders, trial.name
        ),
        *experiment_queue.length_flags(settings.train_steps),
        "--schedule=train",
        f"--random_seed={_SEED}",
    ]


def search(settings: SearchSettings, grid: SearchGrid, folders: Folders) -> dict[str, Any]:
    """Trains and decodes what is missing, then decodes test with the best settings on dev.

    Args:
        settings: the settings of all trainings.
        grid: the values to try; earlier results with other grids also take part in the choice.
        folders: `output_dir` receives parsing_search.json and a run folder per training.

    Returns:
        The content of parsing_search.json.

    Raises:
        UsageError: the problem is not a parsing problem.
    """
    problem = registry.problem(settings.problem)
    if _METRIC not in problem.metrics:
        raise UsageError(
            f"--problem={settings.problem} is not a parsing problem: its outputs are scored by "
            f"{', '.join(problem.metrics)}, not by {_METRIC}"
        )
    for beam_size in grid.beam_sizes:
        DecodeHParams.of(problem, _decode_hparams(beam_size))
    found = trials(settings, grid)
    sections = ["cells", DatasetSplit.EVAL, DatasetSplit.TEST]
    with experiment_queue.opened(RESULTS, settings, folders, sections) as queue:
        for number, trial in enumerate(found, 1):
            log.info("%s, %d of %d", trial.name, number, len(found))
            queue.once("cells", trial.name, functools.partial(_train, trial, settings, queue))
            for beam_size in grid.beam_sizes:
                _score(trial, beam_size, DatasetSplit.EVAL, queue)
        best = chosen(queue.results)
        log.info("chosen: %s", best)
        if problem.has_split(DatasetSplit.TEST, folders.data_dir):
            tried = queue.results[DatasetSplit.EVAL][best]
            trial = Trial(tried["dropout"], tried["learning_rate"])
            _score(trial, tried["beam_size"], DatasetSplit.TEST, queue)
        return queue.results


def _train(trial: Trial, settings: SearchSettings, queue: Queue) -> dict[str, Any]:
    """Trains in a separate process; returns the result to record."""
    flags = trainer_flags(trial, settings, queue.folders)
    trained = experiment_queue.train(trial.name, flags, queue.path(trial.name))
    return dataclasses.asdict(trial) | trained


def _score(trial: Trial, beam_size: int, split: str, queue: Queue) -> None:
    """Decodes a split with a trained model in a separate process, unless that was done."""
    name = f"{trial.name}-beam{beam_size}"
    queue.once(split, name, functools.partial(_score_one, trial, beam_size, split, name, queue))


def _score_one(trial: Trial, beam_size: int, split: str, name: str, queue: Queue) -> dict[str, Any]:
    (checkpoint,), command = experiment_queue.evaluate(
        f"{name}, {split}",
        [f"--output_dir={queue.path(trial.name)}"],
        _decode_hparams(beam_size),
        queue.folders,
        *(["--eval_use_test_set"] if split == DatasetSplit.TEST else []),
    )
    scores = checkpoint["values"]
    log.info("%s on %s: F1 %.2f, of all sentences %.2f", name, split, *_f1(scores))
    return {
        **dataclasses.asdict(trial),
        "beam_size": beam_size,
        "scores": scores,
        "command": command,
    }


def _f1(scores: Mapping[str, float]) -> tuple[float, float]:
    """Returns EVALB's F1, and that of all sentences."""
    return scores[_METRIC], scores[f"{_METRIC}_of_all"]


def chosen(results: Mapping[str, Any]) -> str:
    """Returns the name of the best result on dev; of equal ones, the first.

    The criterion is the F1 of all sentences. EVALB leaves out sentences with wrong punctuation, and
    would favour a parser that makes such errors. If none are left out, both scores are equal.
    """
    tried = results[DatasetSplit.EVAL]
    return max(tried, key=lambda name: _f1(tried[name]["scores"])[1])


def table(results: Mapping[str, Any]) -> Table:
    """Returns all results on dev, and the chosen one on test beside the published F1.

    Args:
        results: the content of parsing_search.json.
    """
    settings = SearchSettings(**results["settings"])
    command = experiment_queue.paper_command("parsing-search", settings, **_asked(results))
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
    best, published = chosen(results), table4.published_parser(settings.problem)
    tried, tested = results[DatasetSplit.EVAL], results[DatasetSplit.TEST]
    rows = [
        ["dev, chosen" if name == best else "dev", *_figures(scored, None, results)]
        for name, scored in tried.items()
    ]
    if best in tested:
        rows.append(["test", *_figures(tested[best], published.f1, results)])
    notes = [
        f"Published: WSJ, section 23, {published.training}. Here: {settings.problem}, "
        f"{settings.train_steps:,} updates; minutes are training time.",
        "F1: by EVALB's rules, which leave some sentences out; of all sentences: these count as "
        "missed. The latter decides the choice.",
    ]
    return Table("Section 6.3: parsing, chosen on dev", columns, rows, notes)


def _asked(results: Mapping[str, Any]) -> dict[str, str]:
    """Returns the flags of the smallest grid that holds these results."""
    flags = {"dropouts": "dropout", "learning_rates": "learning_rate", "beam_sizes": "beam_size"}
    tried = results[DatasetSplit.EVAL].values()
    return {
        flag: ",".join(str(value) for value in sorted({one[name] for one in tried}))
        for flag, name in flags.items()
    }


def _figures(
    scored: Mapping[str, Any], published: float | None, results: Mapping[str, Any]
) -> list[CellValue]:
    """Returns a row of the table without its first cell."""
    trial = Trial(scored["dropout"], scored["learning_rate"])
    minutes = results["cells"][trial.name]["seconds"] / 60.0
    searched = [str(trial.dropout), str(trial.learning_rate), str(scored["beam_size"])]
    return [*searched, published, *_f1(scored["scores"]), minutes]
