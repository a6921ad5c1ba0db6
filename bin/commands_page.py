"""Prints docs/commands.md, with every command and flag: `python -m t2t_lite.bin.commands_page`."""

import importlib
import pkgutil
from collections.abc import Iterable, Iterator

from t2t_lite import bin as commands
from t2t_lite.bin.command import Command
from t2t_lite.bin.flag import COMMON_FLAGS, format_default
from t2t_lite.settings import Setting, settings_of


def all_commands() -> list[Command]:
    """Returns the package's commands, by name."""
    modules = sorted(m.name for m in pkgutil.iter_modules(commands.__path__))
    names = [name for name in modules if name.startswith("t2t_")]
    found = (importlib.import_module(f"t2t_lite.bin.{name}") for name in names)
    return [module.COMMAND for module in found if hasattr(module, "COMMAND")]


def markdown() -> str:
    """Returns the text of docs/commands.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Commands and their flags"
    yield ""
    yield "The text of `--help`. [flags.md](flags.md) says how tensor2tensor's flags are treated."
    yield from table("Flags of every command", "flag", COMMON_FLAGS, "--")
    for command in all_commands():
        yield f"\n## {command.name}\n"
        yield f"`{command.name}` {command.description}".replace("\n", " ")
        yield "\n```shell"
        yield from command.examples
        yield "```"
        for title, group in command.groups.items():
            yield from table(title, "flag", group, "--")
        for title, hparams in command.settings.items():
            yield from table(title, "setting", settings_of(hparams).values())


def table(title: str, what: str, group: Iterable[Setting], prefix: str = "") -> Iterator[str]:
    """Yields the lines of a table of settings."""
    yield f"\n**{title}**\n"
    yield f"| {what} | default | meaning |"
    yield "|---|---|---|"
    for setting in group:
        default = "" if setting.default in ("", None) else f"`{format_default(setting.default)}`"
        yield f"| `{prefix}{setting.name}` | {default} | {escaped(setting.meaning)} |"


def escaped(text: str) -> str:
    """Returns a text as a cell of a table; what is between backticks stays as it is."""
    parts = text.replace("|", "\\|").split("`")
    parts[::2] = [part.replace("*", "\\*").replace("_", "\\_") for part in parts[::2]]
    return "`".join(parts)


if __name__ == "__main__":
    print(markdown(), end="")
