"""The base classes of metrics, which the registry, the trainer and the commands use.

To add a metric, write one class:

    @t2t_lite.register_metric
    class LengthRatio(t2t_lite.OutputMetric):
        title = "Length (% of the reference's)"

        def statistics(self, segments):
            return [(len(s.output.split()), len(s.reference.split())) for s in segments]

This module imports neither TensorFlow nor sacreBLEU, so that looking up metrics stays fast.
"""

import abc
import dataclasses
import enum
import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from t2t_lite.errors import UsageError, quoted
from t2t_lite.version import __version__

if TYPE_CHECKING:
    from t2t_lite.data.problem import Problem

log = logging.getLogger(__name__)

# One row per segment, all of the same width; the score is computed from the column sums.
Statistics = Sequence[Sequence[float]]


class Segment(NamedTuple):
    """An output, its source and its reference."""

    source: str  # empty unless the metric needs sources
    output: str  # one line; empty if there is no output
    reference: str
    repairs: int = 0  # changes that made the output well-formed
    language: str = ""  # the code of the reference's; empty if unknown


class Needs(enum.Enum):
    """The parts of a segment that a metric reads."""

    TEXT = "outputs and references"
    TREES = "outputs and references that are bracketed trees"
    SOURCES = "sources, outputs and references"


class MetricValue(NamedTuple):
    """A number that a metric contributes to an evaluation."""

    name: str  # as in metrics.jsonl
    title: str  # in tables and reports
    lower_is_better: bool = False


@dataclasses.dataclass(frozen=True)
class Score:
    """A metric's result for a set of outputs.

    Attributes:
        values: numbers by name, as in metrics.jsonl.
        report: lines of text, as `t2t-decoder` prints them.
        summary: a short form for the trainer's log.
        statistics: what the score was computed from, for `bootstrap.resample`.
    """

    values: dict[str, float | int | str]
    report: str
    summary: str
    statistics: Statistics = ()


class Metric:
    """Base of all metrics; derive from `OutputMetric` or `TeacherForcedMetric`.

    Args:
        name: the registered name, followed by a colon and an argument if the metric takes one.

    Attributes:
        name: name of its number in metrics.jsonl.
        title: title of that number in tables and reports (default: the name in words).
        lower_is_better: whether a lower number is better.
        in_report: whether `t2t-report` draws its curve.
        argument: what follows a colon in the name, such as "PROGRAM"; empty: no argument; in
            brackets: it may be left out.
        extras: further numbers that it adds to an evaluation.

    Raises:
        UsageError: the name has an argument but the metric takes none, or the reverse.
    """

    title: str = ""
    lower_is_better: bool = False
    in_report: bool = True
    argument: ClassVar[str] = ""
    extras: ClassVar[Sequence[MetricValue]] = ()

    def __init__(self, name: str) -> None:
        self.name = name
        base, _, given = name.partition(":")
        may_lack_it = name == base and self.argument.startswith("[")
        if bool(given) != bool(self.argument) and not may_lack_it:
            written = f"{base}:{self.argument}" if self.argument else base
            raise UsageError(f"metric {name!r}: write {written}")
        self.title = self.title or (name if given else name.replace("_", " "))

    @property
    def values(self) -> list[MetricValue]:
        """All numbers that it adds to an evaluation, its score first."""
        return [MetricValue(self.name, self.title, self.lower_is_better), *self.extras]

    @property
    def files(self) -> Sequence[str]:
        """The files that it reads, which no output may replace."""
        return ()

    def check(self) -> None:
        """Raises UserError if it cannot run on this machine; called before long work begins."""

    def check_language(self, language: str) -> None:
        """Raises UsageError if it cannot score a language, as `check` does.

        Args:
            language: the code of the references' language; "": unknown.
        """


class OutputMetric(Metric, abc.ABC):
    """A score of decoded outputs, computed from statistics of the segments.

    The score of a corpus is a function of the sums of these statistics, so that it can be
    resampled (see `bootstrap`). A subclass defines `statistics`, and `score` unless the score is
    100 times the first sum divided by the second.

    Attributes:
        needs: the parts of a segment that `statistics` reads.
        label: label of the score in the decoder's report (default: the title).
        form: format specification of the score there.
    """

    needs: ClassVar[Needs] = Needs.TEXT
    label: str = ""
    form: str = "6.2f"

    @property
    def signature(self) -> str:
        """How the score was computed; quote it with the score."""
        return f"nrefs:1|version:{__version__}"

    @property
    def signature_values(self) -> dict[str, str]:
        """The signature as evaluations record it; empty if it adds nothing."""
        return {}

    @abc.abstractmethod
    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns a row of numbers for each segment.

        A metric with one number for the whole corpus returns one row; it cannot be resampled.

        Raises:
            UserError: the segments cannot be scored.
        """

    def score(self, totals: Sequence[float]) -> float:
        """Returns the score for summed statistics."""
        return 100.0 * totals[0] / totals[1] if totals[1] else 0.0

    def caution(self, segments: Sequence[Segment]) -> str:
        """Returns why the score says little about these segments, and the remedy; empty if not."""
        return ""

    def evaluate(self, segments: Sequence[Segment]) -> Score:
        """Scores one or more segments; a caution is logged.

        Raises:
            UsageError: what `statistics` returns is not rows of numbers, all of the same width.
        """
        returned = self.statistics(segments)
        rows = list(returned) if isinstance(returned, Iterable) else []
        try:
            totals = add_up(rows)
        except (TypeError, ValueError):
            totals = []
        if not totals:
            raise UsageError(
                f"metric {self.name} ({type(self).__name__}): statistics returned "
                f"{quoted(rows[:2] or returned)} for the first segments: expected a row of "
                "numbers for each segment, all of the same width"
            )
        score = float(self.score(totals))
        label = self.label or self.title
        if caution := self.caution(segments):
            log.warning("%s: %s", label, caution)
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
    """Sums over the target tokens of an evaluation under teacher forcing."""

    loss: float  # nats, without smoothing
    tokens: float
    right: float  # tokens whose most probable prediction is correct
    sentences: float
    all_right: float  # sentences whose tokens are all correct
    in_top5: float = 0.0  # tokens that are among the five most probable predictions
    prefixes: float = 0.0  # for each sentence, the share of its tokens before the first wrong one
    characters: float = 0.0  # of the targets' text; 0: unknown
    # Of two labels, how many texts with the first, and with the second, fall into each interval of
    # the second's probability, in ascending order; none, or only zeros: there are not two labels.
    by_probability: Sequence[Sequence[float]] = ()


class TeacherForcedMetric(Metric, abc.ABC):
    """A score of predictions under teacher forcing; every evaluation computes it.

    Attributes:
        of_numbers: whether evaluations of regression compute it, too: then the loss is the mean
            squared error, and nothing else is known but the number of tokens.
    """

    of_numbers: ClassVar[bool] = False

    def suits(self, problem: "Problem") -> bool:
        """Whether evaluations of a problem have the score, as far as the problem tells."""
        return self.of_numbers or not problem.has_numbers

    @abc.abstractmethod
    def score(self, totals: TeacherForcedTotals) -> float | None:
        """Returns the score; None: there is none for this problem."""
