"""Registries of names that forget what a test registers."""

import contextlib
from collections.abc import Iterator

from t2t_lite.names import Registry


@contextlib.contextmanager
def restored(*registries: Registry) -> Iterator[None]:
    """Forgets, at the end of the block, what was registered in it."""
    before = [dict(known.items()) for known in registries]
    yield
    for known, entries in zip(registries, before, strict=True):
        known._entries.clear()
        known._entries.update(entries)
