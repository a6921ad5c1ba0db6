"""Holds a folder from elsewhere to a table of what is known of it: files, and keys of settings.

Each file and each key is read, or known to be without effect on what a model computes, or refused
by name, so that no imported model is silently another one.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from t2t_lite.errors import UserError, quoted

# What says in JSON or in Marian's YAML that a setting is not used, whatever it is.
OFF: tuple[Any, ...] = (None, False, 0, "", [], {}, "false", "0", "none", "[]")


class Known(NamedTuple):
    """What is known of the names in one place.

    Attributes:
        read: the names that are read.
        without_effect: matches the names that change nothing.
        only: names whose effect has no counterpart here, with the values that have none.
    """

    read: frozenset[str]
    without_effect: re.Pattern[str]
    only: Mapping[str, Sequence[Any]] = {}

    def knows(self, name: str) -> bool:
        """Whether a name is read or without effect, whatever its value."""
        return name in self.read or self.without_effect.fullmatch(name) is not None

    def covers(self, name: str) -> bool:
        """Whether anything is known of a name."""
        return self.knows(name) or name in self.only

    def require(self, where: str, settings: Mapping[str, Any]) -> None:
        """Raises UserError for a setting that is not known, and not off.

        Args:
            where: the settings are, for the error.
            settings: by name.
        """
        for name, value in settings.items():
            allowed = self.only.get(name)
            if self.knows(name) or (_is_off(value) if allowed is None else value in allowed):
                continue
            only = f" (only {' or '.join(map(_shown, allowed))})" if allowed else ""
            raise UserError(
                f"{where}: {_shown(name)}={_shown(value)} has no counterpart here{only}: such a "
                "model cannot be imported; if nothing depends on the setting, remove it"
            )

    def require_files(self, folder: str, names: Iterable[str]) -> None:
        """Raises UserError for a file that is neither read nor without effect.

        Args:
            folder: for the error.
            names: of the files in it.
        """
        for name in sorted(names):
            if not self.knows(name):
                raise UserError(
                    f"{folder} has a file {quoted(name)}, which is not known here: it may change "
                    "what the model writes; if it does not, move it out of the folder"
                )


def known(read: str, without_effect: str, **only: Sequence[Any]) -> Known:
    """Returns what is known of names that are separated by spaces.

    Args:
        read: see `Known`.
        without_effect: regular expressions.
        **only: see `Known`.
    """
    return Known(
        frozenset(read.split()), re.compile("|".join(without_effect.split()), re.DOTALL), only
    )


def _is_off(value: Any) -> bool:
    """Whether a setting is not used, or is made of settings none of which is."""
    return value in OFF or (isinstance(value, dict) and all(map(_is_off, value.values())))


def _shown(value: Any) -> str:
    """Returns a name or a value for an error: in quotes only if it needs them."""
    return (
        value
        if isinstance(value, str) and re.fullmatch(r"[\w+.:/-]{1,60}", value)
        else quoted(value)
    )
