"""A flag of a command, and the flags of a configuration."""

import pathlib
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from absl import flags

from t2t_lite import files
from t2t_lite.errors import UsageError
from t2t_lite.runs.config import TrainedModelConfig
from t2t_lite.settings import Config, Setting, settings_by_group, settings_of

C = TypeVar("C", bound=Config)

_DEFINITIONS: dict[type, Callable[..., Any]] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
}
_LONGEST_CHOICES = 60  # characters, in the first line of a flag's help
_PLACEHOLDERS = {str: "TEXT", pathlib.Path: "PATH", int: "N", float: "X"}


class Flag(Setting):
    """One flag of a command; its name is without dashes."""

    def define(self, values: flags.FlagValues) -> None:
        """Adds the flag to absl's set, which parses it; `checked` checks the value."""
        if self.listed:
            parser: flags.ArgumentParser[str] = flags.ArgumentParser()
            serializer: flags.ArgumentSerializer[str] = flags.ArgumentSerializer()
            flag = _ListFlag(parser, serializer, self.name, self.default, self.help)
            flags.DEFINE_flag(flag, values)
        else:
            definition = _DEFINITIONS.get(self.kind, flags.DEFINE_string)
            definition(self.name, self.default, self.help, flag_values=values)
        values[self.name].parser = _Parser(self, values[self.name].parser)

    def describe(self) -> str:
        """Returns the flag's part of `--help`."""
        value = "|".join(self.choices) or _PLACEHOLDERS.get(self.kind)
        text = self.help
        if value and len(value) > _LONGEST_CHOICES:
            value, text = _PLACEHOLDERS[self.kind], self.meaning
        head = f"  --{self.name}={value}" if value else f"  --[no]{self.name}"
        if self.default is not None and self.default is not False and self.default != "":
            text = f"{text.removesuffix('.')} (default: {format_default(self.default)})."
        return head + "\n" + textwrap.fill(text, 92, initial_indent=" " * 8, **INDENT)


class _Parser(flags.ArgumentParser):
    """absl's parser of a flag, with our message for a value of another kind."""

    def __init__(self, flag: Flag, parser: flags.ArgumentParser) -> None:
        self._flag = flag
        self._parser = parser

    def parse(self, argument: Any) -> Any:
        """Returns the value that an argument stands for, as absl does."""
        try:
            return self._parser.parse(argument)
        except ValueError:
            return self._flag.checked(argument, f"--{self._flag.name}")


class _ListFlag(flags.Flag):
    """absl's flag, of whose values the last counts, for a list: the others would be lost."""

    def parse(self, argument: Any) -> None:
        """Takes a value.

        Raises:
            UsageError: the flag has another value already.
        """
        if self.present and self.value and argument not in ("", self.value):
            raise UsageError(
                f"--{self.name} is given twice: join its values, as "
                f"--{self.name}={self.value},{argument}"
            )
        super().parse(argument)


INDENT: dict[str, Any] = {"subsequent_indent": " " * 8, "break_on_hyphens": False}


def config_flags(
    config_class: type, others: Mapping[str, Sequence[Flag]] | None = None
) -> dict[str, tuple[Flag, ...]]:
    """Returns a flag for each field of a configuration, in the groups of its fields.

    Args:
        config_class: the dataclass.
        others: further flags by group, appended to their groups.
    """
    groups = {
        title: tuple(Flag(**vars(setting)) for setting in found)
        for title, found in settings_by_group(config_class).items()
    }
    for title, found in (others or {}).items():
        groups[title] = (*groups.get(title, ()), *found)
    return groups


def from_flags(config_class: type[C], args: types.SimpleNamespace) -> C:
    """Returns the configuration that the flags of `config_flags` describe.

    Raises:
        UserError: a file to read is not there, or one to write cannot be written: before anything
            takes time.
    """
    settings, values = settings_of(config_class), vars(args)
    config = config_class(**{name: values[name] for name in settings})
    for name, setting in settings.items():
        path = values[name]
        if path and setting.reads and path != "-":
            files.require_readable(path, f"--{name}")
        elif path and setting.writes:
            files.require_writable(path, f"--{name}")
    return config


# The flags of every command.
COMMON_FLAGS = (
    Flag(
        "t2t_usr_dir",
        pathlib.Path,
        "",
        "Folder of your own problems, models, hyperparameter sets and metrics. Its __init__.py is "
        "imported, and must import the modules that register them.",
    ),
    Flag(
        "registry_help",
        bool,
        False,
        "List all problems, models, hyperparameter sets and metrics, and exit.",
    ),
)

WAIT_MINUTES = Flag(
    "wait_minutes",
    float,
    0,
    "Wait this many minutes for the next one, while the run is trained; -1 waits for ever.",
    minimum=-1,
)

RUN_FLAGS = config_flags(TrainedModelConfig)["The trained model"]
OUTPUT_DIR = RUN_FLAGS[0]


def format_default(default: Any) -> str:
    """Returns a default value as a user would write it."""
    if isinstance(default, float):
        return f"{default:g}"
    return str(default).lower() if isinstance(default, bool) else str(default)


def describe_setting(setting: Setting) -> str:
    """Returns a hyperparameter's part of `--help`."""
    head = f"  {setting.name}={format_default(setting.default)}"
    return textwrap.fill(
        f"{head:27} {setting.help}", 100, **(INDENT | {"subsequent_indent": " " * 28})
    )
