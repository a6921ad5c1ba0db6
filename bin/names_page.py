"""Prints docs/t2t-names.md, T2T's names here: `python -m t2t_lite.bin.names_page`."""

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from t2t_lite import registry, t2t_flags
from t2t_lite.bin.commands_page import all_commands
from t2t_lite.hparams import refused_sets
from t2t_lite.interop.t2t import (
    adapter,
    hparam,
    metrics,
    names,
    tensorflow1,
    text_adapter,
    text_problems,
    translate,
)
from t2t_lite.interop.t2t.metrics import Metrics
from t2t_lite.interop.t2t.modalities import ModalityType
from t2t_lite.interop.t2t.problem import Problem
from t2t_lite.metrics.base import OutputMetric


def markdown() -> str:
    """Returns the text of docs/t2t-names.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# T2T's names"
    yield ""
    yield "What a user directory can use of tensor2tensor, and what replaces the rest: made from"
    yield "the code. [Coming from T2T](coming-from-t2t.md) says how to run such a directory,"
    yield "[T2T's flags](flags.md) lists the flags."
    yield from _modules()
    yield from _problems()
    yield from _sets()
    yield from _fields()
    yield from _members()
    yield from _metrics_and_modalities()
    yield "\n## TensorFlow 1\n"
    yield "In a user directory, `tensorflow` also has all of `tf.compat.v1`, and these names:"
    found = tensorflow1.NAMES
    leaves = (name for name in found if not any(other.startswith(f"{name}.") for other in found))
    yield f"{_code(leaves)}."
    yield "\n## Commands that T2T lacks\n"
    theirs = t2t_flags.commands()
    ours = [command.name for command in all_commands() if command.name not in theirs]
    yield f"{_code(ours)} ([Commands](commands.md))."


def _modules() -> Iterator[str]:
    yield "\n## Modules\n"
    yield "Without the leading `tensor2tensor`. The modules of a row have the same names."
    yield ""
    together: dict[str, list[str]] = {}
    for module, target in names.MODULES.items():
        together.setdefault(target, []).append(module)
    sets = {*registry.list_hparams(), *registry.list_refused_hparams()}
    rows = []
    for target, modules in together.items():
        offered = importlib.import_module(f"{adapter.__package__}.{target}").__all__
        others = _code(name for name in offered if name not in sets)
        has_sets = len(sets.intersection(offered)) > 0
        rows.append((_code(modules), others + ", [all sets](#hparams-sets)" * has_sets))
    yield from _table(("Modules", "Names"), rows)
    yield "\n## Names with a replacement\n"
    yield "Importing them works; using them is an error that names the replacement."
    yield ""
    replaced = ((f"`{name}`", _text(text)) for name, text in names.REPLACEMENTS.items())
    yield from _table(("Name", "Instead"), replaced)
    yield "\n## Modules of problems that are not here\n"
    yield "Importing them works; using a name of theirs is an error. Copy the module into your user"
    yield f"directory: {_code(names.PROBLEM_MODULES)}."


def _problems() -> Iterator[str]:
    yield "\n## Problems\n"
    yield "All registered problems; those of T2T's have T2T's names."
    yield ""
    families: dict[str, list[str]] = {}
    for name in registry.list_problems():
        families.setdefault(type(registry.problem(name)).__module__, []).append(name)
    rows = []
    for module, found in sorted(families.items()):
        summary = str(importlib.import_module(module).__doc__).partition("\n")[0]
        rows.append((_text(summary), _code(found)))
    yield from _table(("What", "Problems"), rows)


def _sets() -> Iterator[str]:
    yield "\n## Hparams sets\n"
    yield "All registered sets; those of T2T's have T2T's names:"
    yield f"{_code(registry.list_hparams())}."
    yield "\nThese sets of T2T's are refused:"
    yield ""
    needs = refused_sets.NEEDS.items()
    rows = ((_text(reason), _code(found)) for reason, found in needs)
    yield from _table(("What they need", "Sets"), rows)


def _fields() -> Iterator[str]:
    yield "\n## Fields of hparams sets\n"
    yield "The fields of a set itself have an effect. Of T2T's fields that a set lacks, these"
    yield "change nothing, as a warning says if your function sets one:"
    yield f"{_code(sorted(hparam.NO_EFFECT))}."
    yield "\nThese have one value; another one is an error:"
    yield ""
    rows = [
        (f"`{name}`", f"`{value!r}`", _text(hparam.INSTEAD.get(name, "")))
        for name, value in sorted(hparam.ONLY.items())
    ]
    yield from _table(("Field", "Value", "Instead of another one"), rows)


def _members() -> Iterator[str]:
    yield "\n## Members of problems\n"
    yield "A subclass may override these, with T2T's arguments:"
    yield ""
    classes: Sequence[Any] = (
        Problem,
        text_problems.Text2TextProblem,
        text_problems.Text2ClassProblem,
        text_problems.Text2RealProblem,
        translate.TranslateProblem,
    )
    inert = {*adapter.REFUSED_MEMBERS, *adapter.IGNORED_MEMBERS}
    rows = []
    for cls in classes:
        own = (name for name in vars(cls) if not name.startswith("_") and name not in inert)
        rows.append((f"`{cls.__name__}`", _code(own)))
    yield from _table(("Class", "Members"), rows)
    yield "\nOverriding these has no effect, as a warning says:"
    yield f"{_code(adapter.IGNORED_MEMBERS)}. Overriding these is an error:"
    yield ""
    refused = adapter.REFUSED_MEMBERS.items()
    rows = [(f"`{name}`", _text(instead)) for name, instead in refused]
    yield from _table(("Member", "Instead"), rows)


def _metrics_and_modalities() -> Iterator[str]:
    yield "\n## Metrics\n"
    yield "Members of `Metrics`, for `eval_metrics`, and the registered metrics they stand for:"
    yield ""
    members = _constants(Metrics)
    known = metrics.REGISTERED
    rows = [
        (f"`{n}`", f"`{known[value]}`", _computed_from(known[value]))
        for n, value in members.items()
        if value in known
    ]
    yield from _table(("T2T's", "Here", "Computed from"), rows)
    yield "\nT2T computes all of them under teacher forcing, from ids. A language model has no"
    yield "outputs, and a label is only right or wrong: metrics that do not suit a problem are left"
    yield "out, with a warning, before the first step."
    without = (name for name, value in members.items() if value not in known)
    yield f"\nThe others are left out, with a warning: {_code(without)}."
    yield "\n## Modalities\n"
    read = {*text_adapter.ClassAdapter.modalities, *text_adapter.RealAdapter.modalities}
    shown = {name: value in read for name, value in _constants(ModalityType).items()}
    yield f"Problems can use these members of `ModalityType`: {_code(n for n in shown if shown[n])}"
    yield "(labels in classification alone, where a text has one, and numbers in regression alone)."
    yield "Choosing another one is an error:"
    yield f"{_code(name for name in shown if not shown[name])}."


def _computed_from(metric: str) -> str:
    if issubclass(registry.metrics()[metric], OutputMetric):
        return "decoded text"
    return "two labels, under teacher forcing" if metric == "roc_auc" else "teacher forcing"


def _constants(cls: type) -> Mapping[str, str]:
    return {name: value for name, value in vars(cls).items() if name.isupper()}


def _code(found: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in found)


def _text(text: str) -> str:
    """Returns a message as Markdown, with links to the pages that it names."""
    escaped = re.sub(r"([|*_])", r"\\\1", text)
    return re.sub(r"\bdocs/([\w-]+\.md(?:#[\w-]+)?)", r"[\1](\1)", escaped)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    print(markdown(), end="")
