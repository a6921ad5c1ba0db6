"""Keeps the chatter of libraries that a command loads off stderr."""

import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Iterator

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
    if "tensorflow" in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
