"""Prints docs/flags.md, with every flag of T2T: `python -m t2t_lite.bin.flags_page`."""

from collections.abc import Iterator

from t2t_lite import t2t_flags


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
    yield ""
    yield "Flags that say in another form what another flag or an hparam says are *taken as* it."
    yield "\n## Refused flags\n"
    yield "| flags | why, or what to do instead |"
    yield "|---|---|"
    together: dict[str, list[str]] = {}
    for command in t2t_flags.commands():
        for name, note in t2t_flags.refused(command).items():
            together.setdefault(note, []).append(f"`--{name}`")
    for note, names in sorted(together.items()):
        yield f"| {', '.join(sorted(set(names)))} | {note} |"
    for command in t2t_flags.commands():
        yield f"\n## {command}\n"
        yield "| flag | default in T2T | here | note |"
        yield "|---|---|---|---|"
        for flag in sorted(t2t_flags.flags_of(command), key=lambda flag: flag.name):
            default = "" if flag.default in (None, "") else f"`{flag.default}`"
            yield f"| `--{flag.name}` | {default} | {flag.treatment.value} | {flag.note} |"


if __name__ == "__main__":
    print(markdown(), end="")
