"""Tracing without Python's stacks, which TensorFlow else notes for each operation of a graph."""

import contextlib
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def not_noted() -> Iterator[None]:
    """Spares a seventh of the time of tests that trace, and more memory.

    Errors inside graphs then do not say which lines have made the operation.
    """
    from tensorflow.python.util import tf_stack

    any_stack = tf_stack.extract_stack()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf_stack, "extract_stack", lambda stacklevel=1: any_stack)
        yield
