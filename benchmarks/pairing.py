"""Compares the speed of programs on a machine with other load.

Each contender runs in a separate process, so that thread pools do not interfere. They take turns,
so that a slow minute of the machine affects all of them. Ratios are computed within a round.
"""

import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from types import MappingProxyType
from typing import NamedTuple

# Runs one complete step; nothing is still running when it returns.
Step = Callable[[], None]


class UnavailableError(Exception):
    """A contender cannot run here, as the message says; the others do without it."""


class Ratio(NamedTuple):
    """One contender's speed relative to another's, over all rounds."""

    median: float
    lowest: float  # of any round
    highest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.lowest:.2f} to {self.highest:.2f})"


class Comparison(NamedTuple):
    """The measurements of each contender."""

    seconds: dict[str, list[float]]  # per step, one number for each round
    peak: dict[str, float]  # peak resident memory of its process, MiB
    absent: Mapping[str, str] = MappingProxyType({})  # why the other contenders could not run

    def median(self, name: str) -> float:
        """Returns the median seconds per step."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, other: str) -> Ratio:
        """Returns how many steps `name` takes while `other` takes one."""
        pairs = zip(self.seconds[other], self.seconds[name], strict=True)
        ratios = [theirs / ours for theirs, ours in pairs]
        return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def compare(
    contenders: Mapping[str, Callable[[], Step]], rounds: int, seconds: float
) -> Comparison:
    """Runs the contenders in turn.

    Args:
        contenders: for each name, a picklable function that prepares everything and returns the
            step to measure; it is called in the contender's process. It or the first steps may
            raise UnavailableError, or need a module that is not installed.
        rounds: turns of each.
        seconds: length of a turn, roughly.

    Returns:
        The seconds per step of every turn, and the peak memory.

    Raises:
        RuntimeError: a contender could not be prepared.
    """
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    absent = {}
    for name, prepare in contenders.items():
        pipes[name], theirs = context.Pipe()
        context.Process(target=_serve, args=(prepare, theirs), daemon=True).start()
        theirs.close()  # otherwise the end of the process would go unnoticed
        try:
            reason = pipes[name].recv()  # "": it is warm
        except EOFError:
            raise RuntimeError(f"{name} could not be prepared; see its error above") from None
        if reason:
            absent[name] = reason
            del pipes[name]
    steps = {}
    for name, pipe in pipes.items():
        steps[name] = max(1, round(seconds / _turn(pipe, 2)[0]))
    measured: dict[str, list[float]] = {name: [] for name in pipes}
    peak = {}
    for _ in range(rounds):
        for name, pipe in pipes.items():
            taken, peak[name] = _turn(pipe, steps[name])
            measured[name].append(taken)
    return Comparison(measured, peak, absent)


def _turn(pipe: Connection, steps: int) -> tuple[float, float]:
    """Returns the seconds per step of one turn, and the peak memory so far in MiB."""
    pipe.send(steps)
    seconds, peak = pipe.recv()
    return seconds / steps, peak


def _serve(prepare: Callable[[], Step], pipe: Connection) -> None:
    """Runs a contender's process: takes as many steps as each message says."""
    try:
        step = prepare()
        for _ in range(3):
            step()
    except UnavailableError as error:
        pipe.send(str(error))
        return
    except ModuleNotFoundError as error:
        pipe.send(f"{error}: pip install -e '.[bench]'")
        return
    pipe.send("")
    while True:
        try:
            steps = pipe.recv()
        except EOFError:  # the measurement is over
            return
        start = time.perf_counter()
        for _ in range(steps):
            step()
        seconds = time.perf_counter() - start
        pipe.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
