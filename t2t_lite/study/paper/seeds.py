"""Trainings of the rows of a table, each with several seeds, and what their results have in common.

Tables 2 and 3 are trained so.
"""

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from t2t_lite import registry
from t2t_lite.errors import UsageError

# The search settings of all trained tables: those of the paper (section 6.1).
DECODE_HPARAMS = "beam_size=4,alpha=0.6,extra_length=50"

# Student's t at 97.5 % for 1, 2, ... degrees of freedom; n seeds have n - 1.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
MOST_SEEDS = len(_STUDENT) + 1


class Row(Protocol):
    """A row of a table, found by its name."""

    @property
    def name(self) -> str:
        """As in `--rows`."""


RowType = TypeVar("RowType", bound=Row)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One training: a row and a seed."""

    row: str
    seed: int

    @property
    def name(self) -> str:
        """The name of its run folder, and its key in the results."""
        return f"{self.row}-seed{self.seed}"


def make_cells(table: str, problem: str, rows: Sequence[str], seeds: int) -> list[Cell]:
    """Returns the trainings of a table, beginning with the first seed of every row.

    Args:
        table: its title.
        problem: the problem to train on.
        rows: names of rows.
        seeds: number of trainings per row, with seeds 1 to `seeds`.

    Raises:
        UsageError: the problem is not scored by BLEU, or `seeds` is out of bounds.
    """
    if "bleu" not in registry.problem(problem).metrics:
        raise UsageError(f"--problem={problem} is not scored by BLEU, as {table} is")
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"--seeds={seeds}: expected 1 to {MOST_SEEDS}")
    return [Cell(row, seed) for seed in range(1, seeds + 1) for row in rows]


def find_row(table: str, rows: Sequence[RowType], name: str) -> RowType:
    """Returns the row of that name.

    Raises:
        UsageError: the table has no such row.
    """
    for row in rows:
        if row.name == name:
            return row
    names = ", ".join(row.name for row in rows)
    raise UsageError(f"{table} has no row {name!r}: its rows are {names}")


def of_row(results: Mapping[str, Any], row: str) -> list[dict[str, Any]]:
    """Returns the results of all seeds of a row, from those of a whole table."""
    return [cell for cell in results["cells"].values() if cell["row"] == row]


def asked(results: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `--rows` and `--seeds` of the results of a whole table."""
    cells = results["cells"].values()
    rows = dict.fromkeys(cell["row"] for cell in cells)
    return {"rows": ",".join(rows), "seeds": max((cell["seed"] for cell in cells), default=1)}


def mean(results: Sequence[Mapping[str, Any]], figure: str) -> float:
    """Returns the mean of a figure over the seeds."""
    return statistics.fmean(result[figure] for result in results)


def mean_and_interval(
    results: Sequence[Mapping[str, Any]], figure: str
) -> tuple[float, float | None]:
    """Returns the mean of a figure over the seeds, and `interval`."""
    return mean(results, figure), interval([result[figure] for result in results])


def interval(values: Sequence[float]) -> float | None:
    """Returns half the width of the 95 % confidence interval of the mean; None for one value.

    Uses Student's t, treating the seeds as a sample of normally distributed results.
    """
    if len(values) < 2:
        return None
    return _STUDENT[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))
