"""Prints docs/hparams.md, with every hparam and set: `python -m t2t_lite.bin.hparams_page`."""

import textwrap
from collections.abc import Iterator
from typing import Any

from t2t_lite import registry
from t2t_lite.bin.commands_page import escaped, table
from t2t_lite.bin.flag import INDENT, format_default
from t2t_lite.settings import HParams, Setting, settings_by_group, settings_of


def markdown() -> str:
    """Returns the text of docs/hparams.md."""
    return "\n".join(_lines()) + "\n"


def describe(name: str, changes: str = "") -> str:
    """Returns the text of `--help_hparams`: every field of a set, and where it is special.

    Args:
        name: a registered set.
        changes: to the set: `"name=value,..."`.

    Raises:
        UsageError: the set or a field is unknown, or a value is not allowed.
    """
    about, parent = registry.hparams_origin(name)
    hparams = registry.hparams(name).override(changes)
    differing = _differing(hparams, parent)
    other = f"those of {parent}" if parent else "the defaults"
    lines = [f"{name}: {about}", f"Values marked * differ from {other}, which are in parentheses."]
    for title, group in settings_by_group(type(hparams)).items():
        lines += ["", f"{title}:"]
        for setting in group:
            mark, was = " ", ""
            if setting.name in differing:
                mark, was = "*", f" ({format_default(differing[setting.name])})"
            value = format_default(getattr(hparams, setting.name))
            lines.append(f"{mark} {setting.name}={value}{was}")
            lines += textwrap.wrap(setting.meaning, 92, initial_indent=" " * 8, **INDENT)
    return "\n".join(lines)


def _differing(hparams: HParams, parent: str) -> dict[str, Any]:
    """Returns the values that fields have in another set, or by default, where they differ."""
    base = registry.hparams(parent).to_dict() if parent else {}
    fields = settings_of(type(hparams)).values()
    before = {setting.name: base.get(setting.name, setting.default) for setting in fields}
    return {name: was for name, was in before.items() if was != getattr(hparams, name)}


def _lines() -> Iterator[str]:
    yield "# Hyperparameters"
    yield ""
    yield "The fields of `--hparams` and of registered sets, made from the code."
    yield "`t2t-trainer --hparams_set=NAME --help_hparams` prints those of one set with its values."
    groups: dict[str, dict[str, Setting]] = {}
    for name in registry.list_hparams():
        for setting in settings_of(type(registry.hparams(name))).values():
            groups.setdefault(setting.group, {})[setting.name] = setting
    yield "\n## Fields"
    for title, group in groups.items():
        yield from table(title, "hparam", group.values())
    yield "\n## Sets\n"
    yield "A set has the values of another one, or the defaults above, with these changes."
    yield ""
    yield "| set | what it is | changes of | changes |"
    yield "|---|---|---|---|"
    for name in registry.list_hparams():
        about, parent = registry.hparams_origin(name)
        hparams = registry.hparams(name)
        changes = (
            f"`{field}={format_default(getattr(hparams, field))}`"
            for field in _differing(hparams, parent)
        )
        link = f"`{parent}`" if parent else ""
        yield f"| `{name}` | {escaped(about)} | {link} | {', '.join(changes)} |"


if __name__ == "__main__":
    print(markdown(), end="")
