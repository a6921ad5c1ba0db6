"""Every flag of tensor2tensor 1.15's commands and some of earlier ones, and their treatment here.

upstream_flags.json drives the parser and docs/flags.md, which `python -m t2t_lite.upstream_flags`
prints.
"""

import dataclasses
import enum
import json
import pathlib
from collections.abc import Iterator


class Treatment(enum.Enum):
    """What the command does with a flag of T2T."""

    HONOURED = "honoured"
    ACCEPTED = "accepted with a warning"
    REFUSED = "refused"


@dataclasses.dataclass(frozen=True)
class T2TFlag:
    """A flag of T2T.

    Args:
        name: without dashes.
        default: T2T's default.
        treatment: what the command does with it.
        note: why it has no effect, what to write instead, or how it differs from T2T.
    """

    name: str
    default: str | int | float | bool | None
    treatment: Treatment
    note: str = ""


_TABLE = {
    command: tuple(
        T2TFlag(name, default, Treatment(treatment), note)
        for name, (default, treatment, note) in flags.items()
    )
    for command, flags in json.loads(
        pathlib.Path(__file__).with_name("upstream_flags.json").read_text(encoding="utf-8")
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


def refused(command: str) -> dict[str, str]:
    """Returns, by name, what to do instead of using a flag that the command refuses."""
    return {
        flag.name: flag.note for flag in flags_of(command) if flag.treatment is Treatment.REFUSED
    }


def defaults(command: str = "") -> dict[str, str | int | float | bool | None]:
    """Returns T2T's defaults of all flags of its commands, those of a command before others'."""
    tables = (flags_of(command), *_TABLE.values())
    return {flag.name: flag.default for table in reversed(tables) for flag in table}


def markdown() -> str:
    """Returns the text of docs/flags.md."""
    return "\n".join(_markdown_lines()) + "\n"


def _markdown_lines() -> Iterator[str]:
    yield "# The flags of tensor2tensor"
    yield ""
    yield "How each flag of tensor2tensor 1.15's commands, and some of earlier ones, are treated."
    yield "An unknown flag is an error that suggests the closest name. [commands.md](commands.md)"
    yield "and `--help` explain all flags that have an effect, including those that tensor2tensor"
    yield "does not have."
    yield ""
    yield "The code of a user directory finds all of them in `absl.flags.FLAGS`, with the command's"
    yield "value, or with tensor2tensor's default. Flags that the directory defines itself"
    yield "(`flags.DEFINE_string`, ...) are accepted on the command line, and parsed once it is"
    yield 'imported. Unknown flags that its code names, as in `add_argument("--lang")`, are left'
    yield "to it."
    for command, table in _TABLE.items():
        yield f"\n## {command}\n"
        yield "| flag | default in T2T | here | note |"
        yield "|---|---|---|---|"
        for flag in sorted(table, key=lambda flag: flag.name):
            default = "" if flag.default in (None, "") else f"`{flag.default}`"
            yield f"| `--{flag.name}` | {default} | {flag.treatment.value} | {flag.note} |"


if __name__ == "__main__":
    print(markdown(), end="")
