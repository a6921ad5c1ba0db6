"""Registries of names that forget what a test registers."""

import contextlib
from collections.abc import Iterator
from typing import Any

from t2t_lite import registry


@contextlib.contextmanager
def restored() -> Iterator[None]:
    """Forgets, at the end of the block, what was registered in it."""
    registry.import_own()
    before = [dict(known) for known in _known()]
    try:
        yield
    finally:
        for known, entries in zip(_known(), before, strict=True):
            known.clear()
            known.update(entries)


def _known() -> list[dict[str, Any]]:
    entries = (each._entries for each in registry._REGISTRIES)
    return [*entries, registry._refused_models]
