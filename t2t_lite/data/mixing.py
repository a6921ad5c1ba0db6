"""How the training examples of a problem, or of each problem of a mixture, are mixed."""

import logging
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from t2t_lite.data.data_statistics import DataStatistics
from t2t_lite.data.input_pipeline import Mixing
from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.data.records import count_records
from t2t_lite.errors import DataError, UsageError
from t2t_lite.hparams.basic import BasicHParams

log = logging.getLogger(__name__)

# Points between which changing rates follow a straight line over the examples, not the updates.
_POINTS = 65


class MemberFiles(NamedTuple):
    """The training files of a member.

    Attributes:
        name: the member's.
        paths: its files.
        rate: its share of the examples, at first.
        final_rate: its share in the end.
        size: the number of examples in its files, of one member of several.
    """

    name: str
    paths: Sequence[str]
    rate: float
    final_rate: float
    size: int = 1


def training_files(problem: Problem, data_dir: str, hparams: BasicHParams) -> list[MemberFiles]:
    """Returns the training files of each of a problem's members; warns if they need no temperature.

    Args:
        problem: the problem.
        data_dir: folder of the data.
        hparams: have `mixture_temperature` and `mixture_annealing_steps`.

    Raises:
        UserError: a file is missing.
        UsageError: the weights change, but `mixture_annealing_steps` is 0, or the reverse.
        DataError: a member of a mixture has no example.
    """
    _check_annealing(problem, hparams)
    names = [member.name for member in problem.members]
    paths = [m.existing_filepaths(data_dir, DatasetSplit.TRAIN) for m in problem.members]
    sizes = [count_records(own) for own in paths] if len(names) > 1 else [1]
    if 0 in sizes:
        raise DataError(
            f"{paths[sizes.index(0)][0]} and the files beside it have no example; delete them and "
            f"run t2t-datagen --problem={problem.generated_by} again"
        )
    rates = problem.rates(sizes, hparams.mixture_temperature)
    if hparams.mixture_temperature != 1 and [*rates] == [*problem.rates(sizes, 1)]:
        log.warning(
            "hparam mixture_temperature=%g has no effect on problem %s: it is for mixtures without "
            "weights, whose members have different numbers of examples",
            hparams.mixture_temperature,
            problem.name,
        )
    final = problem.final_rates or rates
    return [MemberFiles(*member) for member in zip(names, paths, rates, final, sizes, strict=True)]


def mixing(
    members: Sequence[MemberFiles],
    hparams: BasicHParams,
    parts: int,
    counted: Sequence[DataStatistics],
) -> Mixing:
    """Returns how the input pipeline mixes the files of all members, one after the other.

    Rates that change are given by updates, but examples are drawn before they have one. How many
    an update takes follows from the members' lengths: with rates p, one example of member m is
    c_m of an update, and an update takes 1 / sum(p_m c_m) examples.

    An epoch has as many examples as the files of all members together.

    Args:
        members: the files.
        hparams: have `mixture_annealing_steps`.
        parts: W, the parts of the batch of an update.
        counted: statistics of each member; not read if the rates are constant.
    """
    files = [len(member.paths) for member in members]
    first = np.array([member.rate for member in members])
    last = np.array([member.final_rate for member in members])
    sizes = np.array([member.size for member in members])
    epoch = int(sizes.sum())
    # One for what remains of a pass, one for chance.
    passes = 2 + math.ceil((epoch * np.maximum(first, last) / sizes).max())
    if not hparams.mixture_annealing_steps:
        return Mixing(files, [first.tolist()], epoch=epoch, passes=passes)
    updates = np.linspace(0, hparams.mixture_annealing_steps, _POINTS)
    rates = first + (last - first) * np.linspace(0, 1, _POINTS)[:, None]  # [P, M]
    of_update = np.array([_share_of_part(statistics) / parts for statistics in counted])  # [M]
    taken = 1 / (rates @ of_update)  # [P], examples of an update
    between = (taken[1:] + taken[:-1]) / 2 * np.diff(updates)
    examples = [0.0, *np.cumsum(between).tolist()]
    return Mixing(files, rates.tolist(), examples, epoch, passes)


def _share_of_part(statistics: DataStatistics) -> float:
    """Returns the share that an example has of one part of a batch, on average."""
    parts = np.array(statistics.by_bucket) / np.array(statistics.scheme.batch_sizes)
    return float(parts.sum() / statistics.examples)


def _check_annealing(problem: Problem, hparams: BasicHParams) -> None:
    steps = hparams.mixture_annealing_steps
    if problem.final_rates and not steps:
        raise UsageError(
            f"problem {problem.name!r}: its weights change, but hparam mixture_annealing_steps is "
            "0: set it to the number of updates in which they do"
        )
    if steps and not problem.final_rates:
        raise UsageError(
            f"hparam mixture_annealing_steps={steps}: problem {problem.name!r} has no weights that "
            "change: give each member two, as in a:0.9..0.5+b:0.1..0.5"
        )
