"""Flags of a command as user directories see them, and flags that only their code knows."""

import os
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_lite import t2t_flags


def defaults(command: str, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the defaults that user directories see: where a command has none, T2T's.

    Args:
        command: its name.
        ours: its own defaults.
    """
    theirs = t2t_flags.defaults_of(command)
    return theirs | {
        name: theirs.get(name) if default in (None, "") else default
        for name, default in ours.items()
    }


def names(usr_dir: str, flag: str) -> bool:
    """Whether the code of a user directory, or beside it, has `"--flag"` as a text."""
    return contains(usr_dir, rf"""["']--?{re.escape(flag)}["'=]""")


def contains(usr_dir: str, pattern: str) -> bool:
    """Whether the code of a user directory, or beside it, has a text that matches."""
    folder = pathlib.Path(os.path.abspath(pathlib.Path(usr_dir).expanduser()))
    text = re.compile(pattern.encode())
    paths = (*folder.rglob("*.py"), *folder.parent.glob("*.py"))
    return any(text.search(path.read_bytes()) for path in paths if path.is_file())


def without(arguments: Sequence[str], flag: str) -> list[str]:
    """Returns the arguments without a flag, and without the values that follow it."""
    rest: list[str] = []
    in_values = False
    for argument in arguments:
        if not argument.startswith("-"):
            is_it = in_values
        else:
            name, equals, _ = argument.partition("=")
            is_it = name.lstrip("-") == flag
            in_values = is_it and not equals
        if not is_it:
            rest.append(argument)
    return rest
