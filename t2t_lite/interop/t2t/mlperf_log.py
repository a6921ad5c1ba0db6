"""T2T's log of MLPerf's events, which is not kept here."""

from typing import Any

__all__ = ["transformer_print"]


def transformer_print(*_args: Any, **_kwargs: Any) -> None:
    """Does nothing."""


def __getattr__(name: str) -> str:
    """Returns the name of an event."""
    if not name.isupper():
        raise AttributeError(name)
    return name.lower()
