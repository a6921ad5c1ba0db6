"""Keeps the chatter of libraries that a command loads off stderr.

`python -m t2t_lite.bin.console MODULE` runs a module in a process of its own as commands run.
"""

import contextlib
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import tempfile
import types
from collections.abc import Iterator
from typing import Any

SILENT = "3"  # for TF_CPP_MIN_LOG_LEVEL; real errors arrive as Python exceptions


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Hides what TensorFlow's libraries write to stderr while they load.

    They write before TF_CPP_MIN_LOG_LEVEL takes effect. The text is shown if the block fails, and
    never hidden if the user has set that variable.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") != SILENT:
        with _uncollected_import():
            yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held, _uncollected_import():
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def _uncollected_import() -> Iterator[None]:
    """Keeps the garbage collector from TensorFlow's modules, if the block is the first to load it.

    They are some 400,000 objects, all of which stay. To look for garbage among them again and again
    takes a fifth of their import.
    """
    if "tensorflow" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def quiet_tensorflow() -> Iterator[None]:
    """Lets the first import of TensorFlow or Keras in the block be a `quiet_import`.

    They load one another, and then neither jax nor Matplotlib. Much of this package imports
    TensorFlow only when something needs it.
    """
    with _finding_first(_QuietTensorFlow()):
        yield


@contextlib.contextmanager
def _finding_first(finder: importlib.abc.MetaPathFinder) -> Iterator[None]:
    """Asks a finder for modules before all others."""
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Unneeded(importlib.abc.MetaPathFinder):
    """Hides packages that TensorFlow and Keras load wherever they are, in a third of the time."""

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> None:
        """Says that jax (for TensorFlow Lite) and Matplotlib (for galleries) are not there.

        Keras may need jax, as its backend.
        """
        is_backend = "keras.src.backend.jax" in sys.modules
        if fullname == "matplotlib" or (fullname == "jax" and not is_backend):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class _QuietTensorFlow(importlib.abc.MetaPathFinder):
    def __init__(self) -> None:
        self._asked = ""

    def find_spec(
        self, fullname: str, path: Any = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns what the others find, which then executes the module quietly."""
        if fullname not in ("keras", "tensorflow") or fullname == self._asked:
            return None
        self._asked = fullname
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asked = ""
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def execute_quietly(module: types.ModuleType) -> None:
                with quiet_import(), _finding_first(_Unneeded()):
                    execute(module)

            spec.loader.exec_module = execute_quietly  # type: ignore[method-assign]
        return spec


if __name__ == "__main__":
    del sys.argv[0]
    with quiet_tensorflow():
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
