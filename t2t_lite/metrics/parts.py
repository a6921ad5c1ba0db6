"""What an evaluation scores on its own: a whole problem, or each member of a mixture.

The values of a member have its label in their names: `bleu__de`. Labels are the target languages
if these are known and tell the members apart; else the pairs of languages, as in `bleu__en_de`;
else the names of the members' problems. (Two underscores: `bleu_zh` is a metric, and `bleu__zh`
the value of `bleu` for Chinese.) Under the plain name is the mean over the members.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence

from t2t_lite.data.problem import DatasetSplit, Problem
from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import MetricValue
from t2t_lite.metrics.by_name import (
    check_metrics,
    evaluation_values,
    output_metric,
    output_metrics,
)

# Between the name of a value and a label; no metric's name has it.
_BEFORE_LABEL = "__"
# Every evaluation has it, so that it tells the labels.
_LOSS = "loss"
_HELD_OUT = (DatasetSplit.EVAL, DatasetSplit.TEST, DatasetSplit.UNSEEN)
_NO_NAME = re.compile(r"[\W_]+")

# Fields of metrics.jsonl.
Values = Mapping[str, float | int | str]


@dataclasses.dataclass(frozen=True)
class Part:
    """What is scored on its own.

    Attributes:
        label: of a member of a mixture; "": it is a whole problem.
        problem: it, or the member.
        metrics: the names of the metrics of its outputs.
    """

    label: str
    problem: Problem
    metrics: Sequence[str]

    def field(self, name: str) -> str:
        """Returns the name of a value in metrics.jsonl."""
        return f"{name}{_BEFORE_LABEL}{self.label}" if self.label else name

    def check(self) -> None:
        """Checks that its outputs can be scored, before they are made.

        Raises:
            UserError: see `check_metrics`; or it has no outputs, as a language model.
        """
        check_metrics(self.metrics, self.problem.target_language)
        names = output_metrics(self.metrics)
        if names and not self.problem.has_inputs:
            raise UsageError(
                f"problem {self.problem.name!r} has no inputs, and thus no outputs for "
                f"{', '.join(names)} to score: name metrics such as perplexity, accuracy or "
                "bits_per_char"
            )

    def labelled(self, text: str) -> str:
        """Returns a text for messages, after the label."""
        return f"{self.label} {text}" if self.label else text


def parts_of(
    problem: Problem, split: str, metrics: Sequence[str] = (), data_dir: str | None = None
) -> list[Part]:
    """Returns what is evaluated of a split.

    Args:
        problem: any; the parts of a mixture are the members that have the split.
        split: of `DatasetSplit`.
        metrics: names; none: those of the problem, and for a member its own as well.
        data_dir: as for `Problem.has_split`.
    """
    given = tuple(metrics)
    found = [
        Part(label, member, given or tuple(dict.fromkeys([*problem.metrics, *member.metrics])))
        for label, member in _labelled(problem).items()
        if member.has_split(split, data_dir)
    ]
    return found or [Part("", problem, given or problem.metrics)]  # reading it tells what is wrong


def without_split(problem: Problem, split: str, data_dir: str | None = None) -> list[str]:
    """Returns the names of the members that a split's evaluation leaves out."""
    return [m.name for m in _labelled(problem).values() if not m.has_split(split, data_dir)]


def _labelled(problem: Problem) -> dict[str, Problem]:
    """Returns the members of a mixture by label; none if the problem is not a mixture.

    Plain text beside the pairs has nothing to evaluate, and no label.
    """
    if problem.members == (problem,):
        return {}
    members = [m for m in problem.members if any(map(m.has_split, _HELD_OUT))]
    forms = (
        [m.target_language for m in members],
        [m.source_language and m.target_language and "_".join(_pair(m)) for m in members],
    )
    for form in forms:
        labels = [_NO_NAME.sub("_", label).strip("_") for label in form]
        if all(labels) and len(set(labels)) == len(labels):
            break
    else:
        labels = [_NO_NAME.sub("_", member.name).strip("_") for member in members]
    return dict(zip(labels, members, strict=True))


def _pair(problem: Problem) -> tuple[str, str]:
    return problem.source_language, problem.target_language


def known_values(problem: Problem, parts: Sequence[Part]) -> dict[str, MetricValue]:
    """Returns the numbers in an evaluation of a problem in parts, by name.

    Raises:
        UsageError: a metric is unknown.
    """
    of_parts = [(part, evaluation_values(part.metrics, problem)) for part in parts]
    means = {
        name: value
        for name, value in of_parts[0][1].items()
        if all(name in values for _, values in of_parts)
    }
    own = {
        part.field(name): value._replace(name=part.field(name))
        for part, values in of_parts
        for name, value in values.items()
    }
    return means | own


def combined(found: Mapping[str, Values]) -> dict[str, float | int | str]:
    """Returns the record of an evaluation.

    Args:
        found: the values of the parts, by label.

    Returns:
        The values of a whole problem as they are. Those of members under their own names, and
        before them what all of them have: means of scores, sums of whole numbers, which count
        something, and equal texts.
    """
    if "" in found:
        return dict(found[""])
    every = list(found.values())
    whole: dict[str, float | int | str] = {}
    texts = set()
    for name in dict.fromkeys(itertools.chain.from_iterable(every)):
        given = [values[name] for values in every if name in values]
        numbers = [value for value in given if not isinstance(value, str)]
        if not numbers:
            if len(set(given)) == 1:  # such as the signature of a metric that only some have
                whole[name] = given[0]
                texts.add(name)
        elif len(numbers) == len(every):
            are_counts = all(isinstance(value, int) for value in numbers)
            whole[name] = sum(numbers) if are_counts else mean(numbers)
    own = {
        f"{name}{_BEFORE_LABEL}{label}": value
        for label, values in found.items()
        for name, value in values.items()
        if name not in texts
    }
    return whole | own


def mean(numbers: Sequence[float]) -> float:
    """Returns the mean; NaN or infinity if one of the numbers is (unlike `statistics.fmean`)."""
    return sum(numbers) / len(numbers)


def mean_summaries(parts: Sequence[Part], values: Values) -> list[str]:
    """Returns the means of the metrics of outputs that all parts have, for the log."""
    first, *others = (output_metrics(part.metrics) for part in parts)
    metrics = [output_metric(name) for name in first if all(name in other for other in others)]
    return [f"{m.title} {format(values[m.name], m.form).strip()}" for m in metrics]


def labels_in(fields: Iterable[str]) -> list[str]:
    """Returns the labels of the members in an evaluation with these fields, in their order."""
    start = f"{_LOSS}{_BEFORE_LABEL}"
    return [field.removeprefix(start) for field in fields if field.startswith(start)]


def split_field(field: str, labels: Iterable[str]) -> tuple[str, str]:
    """Returns the name of a value, and the label among `labels` that its field has; "" if none."""
    name, _, label = field.rpartition(_BEFORE_LABEL)
    return (name, label) if label in labels else (field, "")
