"""Scores outputs by the names of registered metrics."""

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.errors import DataError, UsageError
from t2t_lite.metrics.base import (
    Metric,
    MetricValue,
    Needs,
    OutputMetric,
    Score,
    Segment,
    TeacherForcedMetric,
    TeacherForcedTotals,
)
from t2t_lite.metrics.text_form import warn_of_forms

if TYPE_CHECKING:
    from t2t_lite.data.problem import Output, Problem

# In a list of names; the last alternative is a quote that is never closed.
_METRIC_NAME = re.compile(
    r"""(?: [^,'"\\] | \\. | '[^']*' | "(?:[^"\\]|\\.)*" | ['"\\] )+""", re.DOTALL | re.VERBOSE
)


def score_outputs(
    metric: str,
    outputs: Sequence["Output"],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
    language: str = "",
) -> Score:
    """Scores outputs against one reference each.

    Args:
        metric: the name of a registered metric.
        outputs: from `Problem.postprocess`; an empty text is a missing output.
        references: the reference texts, in the same order.
        sources: the source texts; None if unknown.
        language: the code of the references' language; "": unknown.

    Raises:
        UsageError: the metric is unknown, or needs sources and there are none.
        DataError: there is nothing to score, or the numbers of outputs and references differ.
    """
    found = output_metric(metric)
    count = len(references)
    if len(outputs) != count:
        raise DataError(f"{metric}: {len(outputs)} outputs but {count} references")
    if not count:
        raise DataError(f"{metric}: there are no outputs to score")
    if found.needs is Needs.SOURCES and sources is None:
        raise UsageError(f"metric {metric!r} needs the sources, which are not known here")
    texts = sources if sources is not None else [""] * count
    return found.evaluate(
        [
            Segment(source, output.text, reference, output.repairs, language)
            for source, output, reference in zip(texts, outputs, references, strict=True)
        ]
    )


def score_by_metrics(
    metrics: Iterable[str],
    outputs: Sequence["Output"],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
    language: str = "",
) -> dict[str, Score]:
    """Scores outputs by several metrics; returns the scores by metric name.

    Says which words differ from those of the references in their form alone.
    """
    warn_of_forms([output.text for output in outputs], references)
    given = outputs, references, sources, language
    return {name: score_outputs(name, *given) for name in metrics}


def segment_scores(
    metrics: Iterable[str],
    outputs: Sequence["Output"],
    references: Sequence[str],
    sources: Sequence[str],
    language: str = "",
) -> list[dict[str, float]]:
    """Returns the scores of each output alone, by metric.

    Args:
        metrics: names of metrics that can be resampled.
        outputs: as for `score_outputs`.
        references: as for `score_outputs`.
        sources: as for `score_outputs`.
        language: as for `score_outputs`.
    """
    found: list[dict[str, float]] = [{} for _ in outputs]
    if not found:
        return found
    for name in metrics:
        metric = output_metric(name)
        rows = score_outputs(name, outputs, references, sources, language).statistics
        for scores, row in zip(found, rows, strict=True):
            scores[name] = float(metric.score(row))
    return found


def output_metric(name: str) -> OutputMetric:
    """Returns the metric of that name.

    Raises:
        UsageError: the metric is unknown, or does not score outputs.
    """
    metric = registry.metric(name)
    if not isinstance(metric, OutputMetric):
        raise UsageError(
            f"metric {name!r} scores predictions under teacher forcing, not outputs; t2t-eval "
            "prints it"
        )
    return metric


def find_metric(name: str) -> Metric | None:
    """Returns the metric of that name, or None if it is unknown."""
    try:
        return registry.metric(name)
    except UsageError:
        return None


def output_metrics(names: Iterable[str]) -> list[str]:
    """Returns the metrics in `names` that score outputs."""
    return [name for name in names if isinstance(registry.metric(name), OutputMetric)]


def split_metrics(names: str) -> tuple[str, ...]:
    """Splits a list of names at commas, without repetitions.

    As in a shell, a comma that is quoted or follows a backslash belongs to the name:
    "bleu,command:./score.sh 'a,b'" has two names.
    """
    parts = (name.strip() for name in _METRIC_NAME.findall(names))
    return tuple(dict.fromkeys(name for name in parts if name))


def check_metrics(names: Iterable[str], language: str | None = None) -> None:
    """Checks that outputs can be scored, before they are made.

    Args:
        names: of metrics.
        language: the code of the references' language; "": unknown; None: checked later.

    Raises:
        UserError: a metric is unknown, cannot run on this machine, or cannot score the language.
    """
    if isinstance(names, str):  # ("bleu") in place of ("bleu",)
        raise UsageError(
            f"metrics are {names!r}: expected a sequence of names, such as [{names!r}]"
        )
    for name in names:
        metric = registry.metric(name)
        metric.check()
        if language is not None:
            metric.check_language(language)


def metric_files(names: Iterable[str]) -> list[str]:
    """Returns the files that metrics read, beside outputs, references and sources."""
    return [path for name in names for path in registry.metric(name).files]


def teacher_forced_values(
    totals: TeacherForcedTotals, of_numbers: bool = False
) -> dict[str, float | int | str]:
    """Returns the scores of all teacher-forced metrics that have one, by name.

    Args:
        totals: of an evaluation.
        of_numbers: whether targets are numbers, which only some of the metrics score.
    """
    metrics = [metric for metric in _teacher_forced() if metric.of_numbers or not of_numbers]
    found = {metric.name: metric.score(totals) for metric in metrics}
    return {name: float(score) for name, score in found.items() if score is not None}


def evaluation_values(
    metrics: Iterable[str], problem: "Problem | None" = None
) -> dict[str, MetricValue]:
    """Returns the numbers in an evaluation by these metrics, by name.

    Args:
        metrics: names of metrics.
        problem: what is evaluated; None: any.

    Raises:
        UsageError: a metric is unknown.
    """
    forced = [one for one in _teacher_forced() if problem is None or one.suits(problem)]
    named = [*forced, *(registry.metric(name) for name in metrics)]
    return {value.name: value for metric in named for value in metric.values}


def _teacher_forced() -> list[TeacherForcedMetric]:
    return [
        cls(name)
        for name, cls in registry.metrics().items()
        if issubclass(cls, TeacherForcedMetric)
    ]
