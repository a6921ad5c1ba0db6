"""Traces of models that threads share."""

import functools
import threading
from collections.abc import Callable
from typing import TypeVar

_Result = TypeVar("_Result")

_ONE = threading.RLock()


def one_at_a_time(function: Callable[..., _Result]) -> Callable[..., _Result]:
    """Makes a function wait while another like it is traced: a decorator.

    A hook in a layer would see what another thread computes with the layer. What is traced runs
    without waiting; a function that TensorFlow runs as written waits in every call.
    """

    @functools.wraps(function)
    def waiting(*args: object) -> _Result:
        with _ONE:
            return function(*args)

    return waiting
