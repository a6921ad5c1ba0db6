"""Imports of `tensor2tensor` in user directories, answered by `tensor2tensor_api`.

The finder comes after Python's own: an installed tensor2tensor is not hidden. What answers is
imported only when it is asked for.
"""

import importlib
import importlib.abc
import importlib.machinery
import logging
import sys
import types
from collections.abc import Iterable, Sequence

log = logging.getLogger(__name__)

ROOT = "tensor2tensor"


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `tensor2tensor` and its modules in `tensor2tensor_api.names`.

    Attributes:
        packages: the user directories, whose copies of T2T's modules are found, too.
    """

    def __init__(self) -> None:
        self.packages: list[str] = []

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a module; None for other packages.

        Raises:
            ModuleNotFoundError: it is not there; the message says what to write instead.
        """
        if fullname.partition(".")[0] != ROOT:
            return None
        names = importlib.import_module("t2t_lite.tensor2tensor_api.names")
        if fullname == ROOT:
            log.info(
                "tensor2tensor is not installed: t2t_lite answers its imports "
                "(docs/coming-from-t2t.md)"
            )
        spec: importlib.machinery.ModuleSpec = names.spec(fullname, self.packages)
        return spec


_FINDER = _Finder()


def install(packages: Iterable[str]) -> None:
    """Lets `tensor2tensor` be imported from here on, in this process.

    Args:
        packages: names of user directories; further calls add theirs.
    """
    _FINDER.packages += packages
    if _FINDER not in sys.meta_path:
        sys.meta_path.append(_FINDER)


def packages() -> list[str]:
    """Returns the user directories for which `install` has been called in this process."""
    return list(_FINDER.packages)
