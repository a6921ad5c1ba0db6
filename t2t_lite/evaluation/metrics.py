"""Scores of outputs and evaluations by the names of registered metrics."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from t2t_lite import registry
from t2t_lite.errors import DataError, UsageError
from t2t_lite.evaluation.metric import (
    Metric,
    Needs,
    OutputMetric,
    Score,
    Segment,
    TeacherForcedMetric,
    TeacherForcedTotals,
    Value,
)

if TYPE_CHECKING:
    from t2t_lite.data.problem import Output


def score_outputs(
    metric: str,
    outputs: Sequence["Output"],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
) -> Score:
    """Scores outputs against one reference each.

    Args:
        metric: the name of a registered metric.
        outputs: as `Problem.postprocess` makes them; empty text: there is none.
        references: the right texts, in the same order.
        sources: what they are outputs for; None: unknown.

    Raises:
        UsageError: there is no such metric, or it needs what is not there.
        DataError: there is nothing to score, or not as many outputs as references.
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
            Segment(source, output.text, reference, output.repairs)
            for source, output, reference in zip(texts, outputs, references, strict=True)
        ]
    )


def score_by(
    metrics: Iterable[str],
    outputs: Sequence["Output"],
    references: Sequence[str],
    sources: Sequence[str] | None = None,
) -> dict[str, Score]:
    """Scores outputs by several metrics, whose names it returns the scores by."""
    return {name: score_outputs(name, outputs, references, sources) for name in metrics}


def output_metric(name: str) -> OutputMetric:
    """Returns the metric of that name.

    Raises:
        UsageError: there is none, or it does not score outputs.
    """
    metric = registry.metric(name)
    if not isinstance(metric, OutputMetric):
        raise UsageError(
            f"metric {name!r} scores predictions given right prefixes, not outputs; t2t-eval "
            "prints it"
        )
    return metric


def known_metric(name: str) -> Metric | None:
    """Returns the metric of that name; None if there is none."""
    try:
        return registry.metric(name)
    except UsageError:
        return None


def output_metrics(names: Iterable[str]) -> list[str]:
    """Returns those of some metrics that score outputs."""
    return [name for name in names if isinstance(registry.metric(name), OutputMetric)]


def split_metrics(names: str) -> tuple[str, ...]:
    """Returns the names in a list with commas, each once."""
    return tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))


def check_metrics(names: Iterable[str]) -> None:
    """Raises UserError if one of these metrics does not exist or cannot score on this machine."""
    if isinstance(names, str):  # ("bleu") in place of ("bleu",)
        raise UsageError(
            f"metrics are {names!r}: expected a sequence of names, such as [{names!r}]"
        )
    for name in names:
        registry.metric(name).check()


def teacher_forced_values(totals: TeacherForcedTotals) -> dict[str, float | int | str]:
    """Returns every registered score of predictions given right prefixes, by name."""
    return {metric.name: metric.score(totals) for metric in _teacher_forced()}


def evaluation_values(metrics: Iterable[str]) -> dict[str, Value]:
    """Returns the numbers that an evaluation by these metrics has, by name.

    Raises:
        UsageError: there is no such metric.
    """
    named = [*_teacher_forced(), *(registry.metric(name) for name in metrics)]
    return {value.name: value for metric in named for value in metric.values}


def _teacher_forced() -> list[TeacherForcedMetric]:
    return [
        cls(name)
        for name, cls in registry.metrics().items()
        if issubclass(cls, TeacherForcedMetric)
    ]
