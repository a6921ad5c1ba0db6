"""Metric: one way to score a model, as the registry, the trainer and the commands know it.

A metric of your own is one class:

    @t2t_lite.register_metric
    class LengthRatio(t2t_lite.OutputMetric):
        title = "Length (% of the reference's)"

        def statistics(self, segments):
            return [(len(s.output.split()), len(s.reference.split())) for s in segments]

This module imports neither TensorFlow nor sacreBLEU: naming metrics must stay quick.
"""

import abc
import dataclasses
import enum
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from t2t_lite.errors import UsageError
from t2t_lite.version import __version__

# One row for each segment, all of the same width; it is their sums that are scored.
Statistics = Sequence[Sequence[float]]


class Segment(NamedTuple):
    """One output with what it is scored against."""

    source: str  # empty unless the metric needs sources
    output: str  # one line; empty: there is none
    reference: str
    repairs: int = 0  # changes without which the output is not well-formed


class Needs(enum.Enum):
    """What a metric reads of a segment."""

    TEXT = "outputs and references"
    TREES = "outputs and references that are bracketed trees"
    SOURCES = "sources, outputs and references"


class Value(NamedTuple):
    """A number that a metric adds to an evaluation."""

    name: str  # as in metrics.jsonl
    title: str  # for people
    lower_is_better: bool = False


@dataclasses.dataclass(frozen=True)
class Score:
    """What a metric says of some outputs.

    Attributes:
        values: by name, as they stand in metrics.jsonl.
        report: lines for people, as `t2t-decoder` prints them.
        summary: the least of it, for a line of the trainer's log.
        statistics: what the score was computed from, for `bootstrap.resample`.
    """

    values: dict[str, float | int | str]
    report: str
    summary: str
    statistics: Statistics = ()


class Metric:
    """A way to score a model; derive from `OutputMetric` or `TeacherForcedMetric`.

    Args:
        name: the registered name, with what follows its colon, if it takes something.

    Attributes:
        name: of its number in metrics.jsonl.
        title: of that number in tables and reports; empty: the name in words.
        lower_is_better: which way it gets better.
        in_report: whether `t2t-report` draws its curve.
        argument: what stands behind a colon in its name, such as "PROGRAM"; empty: nothing.
        extras: numbers that it adds to an evaluation beside its own.

    Raises:
        UsageError: the name has an argument and the metric takes none, or the other way round.
    """

    title: str = ""
    lower_is_better: bool = False
    in_report: bool = True
    argument: ClassVar[str] = ""
    extras: ClassVar[Sequence[Value]] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        base, _, given = name.partition(":")
        if bool(given) != bool(self.argument):
            written = f"{base}:{self.argument}" if self.argument else base
            raise UsageError(f"metric {name!r}: write {written}")
        self.title = self.title or (name if given else name.replace("_", " "))

    @property
    def values(self) -> list[Value]:
        """The numbers that it adds to an evaluation, its own first."""
        return [Value(self.name, self.title, self.lower_is_better), *self.extras]

    def check(self) -> None:
        """Raises UserError if it cannot score on this machine; called before long work begins."""


class OutputMetric(Metric, abc.ABC):
    """A score of decoded outputs, computed from statistics of the segments.

    The score of a corpus is a function of the sums of these statistics, so that it can be
    resampled (`bootstrap`). Derive, and define `statistics`; where the score is not the percentage
    that the first sum is of the second, `score` too.

    Attributes:
        needs: what `statistics` reads of a segment.
        label: of the score in the decoder's report; empty: the title.
        form: how the score is written there, as a format specification.
    """

    needs: ClassVar[Needs] = Needs.TEXT
    label: str = ""
    form: str = "6.2f"

    @property
    def signature(self) -> str:
        """How the score is counted; quote it beside the score."""
        return f"nrefs:1|version:{__version__}"

    @property
    def signature_values(self) -> dict[str, str]:
        """What the evaluation records of the signature; nothing, where it says little."""
        return {}

    @abc.abstractmethod
    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns a row of numbers for each segment.

        A metric that has one number for all of them returns one row; it cannot be resampled.

        Raises:
            UserError: the segments cannot be scored.
        """

    def score(self, totals: Sequence[float]) -> float:
        """Returns the score of segments whose statistics add up to `totals`."""
        return 100.0 * totals[0] / totals[1] if totals[1] else 0.0

    def evaluate(self, segments: Sequence[Segment]) -> Score:
        """Scores segments, at least one."""
        rows = self.statistics(segments)
        score = float(self.score(add_up(rows)))
        label = self.label or self.title
        lines = [f"{label} = {score:{self.form}}"]
        summary = f"{self.title} {f'{score:{self.form}}'.strip()}"
        signatures = self.signature_values
        for signature in signatures.values():
            lines.append(f"{label} signature: {signature}")
            summary += f" ({signature})"
        return Score({self.name: score, **signatures}, "\n".join(lines), summary, rows)


def add_up(rows: Statistics) -> list[float]:
    """Returns the sum of each column."""
    return [float(sum(column)) for column in zip(*rows, strict=True)]


class TeacherForcedTotals(NamedTuple):
    """Sums over the target tokens of an evaluation, each given its right prefix."""

    loss: float  # nats, without smoothing
    tokens: float
    right: float  # tokens whose most probable subword is the right one
    sentences: float
    all_right: float  # sentences in which every token is


class TeacherForcedMetric(Metric, abc.ABC):
    """A score of the model's predictions given right prefixes; every evaluation computes it."""

    @abc.abstractmethod
    def score(self, totals: TeacherForcedTotals) -> float:
        """Returns the score."""
