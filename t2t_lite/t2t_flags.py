"""T2T's flags: what each command does with them, and absl's global set, where code reads them.

The table, t2t_flags.json, has every flag of tensor2tensor 1.15's commands and some of earlier
ones; it drives the parser and docs/flags.md. T2T's commands keep all their flags in absl's global
set, as `tensor2tensor.utils.flags.FLAGS`. Commands here have sets of their own, and publish the
values for user directories, which may define flags of theirs.
"""

import dataclasses
import enum
import json
import pathlib
from collections.abc import Mapping
from typing import Any

from absl import flags

FLAGS = flags.FLAGS

_LIBRARIES = ("absl.", "tensorflow.")

_ours: dict[str, flags.Flag] = {}  # those that `define` has added


class Treatment(enum.Enum):
    """What the command does with a flag of T2T."""

    HONOURED = "honoured"
    TAKEN = "taken as"  # something else, which the note is
    ACCEPTED = "accepted with a warning"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class T2TFlag:
    """A flag of T2T.

    Args:
        name: without dashes.
        default: T2T's default.
        treatment: what the command does with it.
        note: why it has no effect, what to write instead, or how it differs from T2T. If it is
            taken as something else: that, as `--FLAG=VALUE`, `--FLAG=HPARAM=VALUE` or a variable of
            the environment; without VALUE, it is that only if the flag is true.
    """

    name: str
    default: str | int | float | bool | None
    treatment: Treatment
    note: str = ""


_TABLE = {
    command: tuple(
        T2TFlag(name, default, Treatment(treatment), note)
        for name, (default, treatment, note) in table.items()
    )
    for command, table in json.loads(
        pathlib.Path(__file__).with_name("t2t_flags.json").read_text(encoding="utf-8")
    ).items()
}


def flags_of(command: str) -> tuple[T2TFlag, ...]:
    """Returns every flag that T2T's command of this name defines; none if T2T lacks it."""
    return _TABLE.get(command, ())


def commands() -> tuple[str, ...]:
    """Returns the names of T2T's commands."""
    return tuple(_TABLE)


def accepted(command: str) -> list[T2TFlag]:
    """Returns T2T's flags that the command takes but ignores."""
    return [flag for flag in flags_of(command) if flag.treatment is Treatment.ACCEPTED]


def taken(command: str) -> list[T2TFlag]:
    """Returns T2T's flags that the command takes as something else."""
    return [flag for flag in flags_of(command) if flag.treatment is Treatment.TAKEN]


def refused(command: str) -> dict[str, str]:
    """Returns, by name, what to do instead of using a flag that the command refuses."""
    return {
        flag.name: flag.note for flag in flags_of(command) if flag.treatment is Treatment.REFUSED
    }


def defaults_of(command: str = "") -> dict[str, str | int | float | bool | None]:
    """Returns T2T's defaults of all flags of its commands, those of a command before others'."""
    tables = (flags_of(command), *_TABLE.values())
    return {flag.name: flag.default for table in reversed(tables) for flag in table}


# ---- absl's global set


def define(defaults: Mapping[str, Any] | None = None) -> None:
    """Adds T2T's flags, where nobody has defined one of that name; others may define them again.

    Args:
        defaults: further flags, or other defaults than T2T's.
    """
    for name, default in (defaults_of() | dict(defaults or {})).items():
        if name not in FLAGS:
            FLAGS[name] = _ours[name] = _flag(name, default)
    FLAGS.mark_as_parsed()


def publish(given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
    """Sets flags, and returns the rest of T2T's to their defaults.

    A flag that is set here keeps its value when a user directory defines it.

    Args:
        given: values by name.
        defaults: as for `define`.
    """
    for name, flag in _ours.items():
        if FLAGS[name] is flag:
            delattr(FLAGS, name)
    _ours.clear()
    define(dict.fromkeys(given) | dict(defaults or {}))
    if "problem" in given:
        given = {"problems": given["problem"], **given}  # T2T before 1.6
    for name, value in given.items():
        setattr(FLAGS, name, value)


def own() -> dict[str, flags.Flag]:
    """Returns the flags that user directories have defined, each under its long name."""
    return {
        name: FLAGS[name]
        for name in FLAGS
        if FLAGS[name] is not _ours.get(name)
        and FLAGS[name].name == name
        and not str(FLAGS.find_module_defining_flag(name)).startswith(_LIBRARIES)
    }


def given() -> dict[str, Any]:
    """Returns what another process needs for `publish`: the values that are not defaults."""
    return {
        name: flag.value for name, flag in (_ours | own()).items() if not flag.using_default_value
    }


def _flag(name: str, default: Any) -> flags.Flag:
    note = "tensor2tensor's flag"
    match default:
        case bool():
            return flags.BooleanFlag(name, default, note, allow_override=True)
        case int():
            parser: flags.ArgumentParser = flags.IntegerParser()
        case float():
            parser = flags.FloatParser()
        case _:
            parser = flags.ArgumentParser()
    return flags.Flag(parser, None, name, default, note, allow_override=True)
