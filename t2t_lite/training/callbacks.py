"""Callbacks: a user's code that training calls between steps, with numbers; needs no TensorFlow.

Training calls them on worker 0 alone. They see no tensors, and a copy of every number, so that a
run with callbacks ends with the same weights and metrics, to the bit, as a run without.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from t2t_lite import registry
from t2t_lite.errors import UsageError, UserError, described, quoted
from t2t_lite.runs.run_folder import RunFolder
from t2t_lite.training.preemption import PreemptionError


class Callback:
    """What training tells while it goes on; a subclass defines the methods that it needs.

    Attributes:
        run: the run, with its folder, problem and hyperparameters; set before the first call.
    """

    run: RunFolder

    def step(self, step: int, values: Mapping[str, float]) -> None:
        """Called with every progress line, after each `--log_step_count_steps` updates.

        Args:
            step: number of updates so far.
            values: by name, those of the record in metrics.jsonl, and the speeds.
        """

    def evaluation(self, step: int, values: Mapping[str, float]) -> None:
        """Called after every evaluation, also in a process of another `--schedule`.

        Args:
            step: number of updates before it.
            values: by name, those of the record in metrics.jsonl.
        """

    def end(self, step: int) -> None:
        """Called last, once, unless an error ends the process.

        Args:
            step: number of updates in all.
        """


class CallbackError(UserError):
    """A callback failed; the message names it and the place in its code."""


class Callbacks:
    """All callbacks of a process, as one.

    Args:
        callbacks: those to call, in this order.
    """

    def __init__(self, callbacks: Sequence[Callback] = ()) -> None:
        self._callbacks = callbacks

    @classmethod
    def of(cls, names: str, others: Iterable[Callback] = ()) -> Self:
        """Makes the callbacks of registered classes, and adds others.

        Args:
            names: of the classes, separated by commas.
            others: called after these.

        Raises:
            UsageError: there is no such class, or the others are not a list of `Callback` objects.
            CallbackError: a constructor fails.
        """
        kinds = {name: registry.callback(name) for name in split(names)}
        if not isinstance(others, Iterable):
            raise UsageError(f"callbacks: expected a list of objects, got {quoted(others)}")
        others = list(others)
        for other in others:
            if not isinstance(other, Callback):
                raise UsageError(
                    f"callbacks: {quoted(other)} is not an object of a class derived from "
                    "t2t_lite.Callback"
                )
        return cls([*(_called(f"callback {n!r}", kind) for n, kind in kinds.items()), *others])

    def tell(self, run: RunFolder) -> None:
        """Gives each the run, before the first call."""
        for callback in self._callbacks:
            callback.run = run

    @contextlib.contextmanager
    def ending(self, step: Callable[[], int]) -> Iterator[None]:
        """Calls `end` when the block ends, by itself or by a signal, but not by an error.

        Args:
            step: returns the number of updates then.
        """
        try:
            yield
        except (PreemptionError, KeyboardInterrupt):
            self.end(step())
            raise
        self.end(step())

    def step(self, step: int, values: Mapping[str, float | str]) -> None:
        """Calls `Callback.step` of each, with the values that are numbers."""
        self._call("step", step, values)

    def evaluation(self, step: int, values: Mapping[str, float | str]) -> None:
        """Calls `Callback.evaluation` of each, with the values that are numbers."""
        self._call("evaluation", step, values)

    def end(self, step: int) -> None:
        """Calls `Callback.end` of each."""
        self._call("end", step)

    def _call(self, method: str, step: int, *values: Mapping[str, float | str]) -> None:
        """Calls a method of each.

        Raises:
            CallbackError: one fails; those after it are not called.
        """
        for callback in self._callbacks:
            numbers = [_numbers(one) for one in values]  # its own: it may change them
            name = f"callback {type(callback).__name__}.{method} at step {step}"
            _called(name, getattr(callback, method), step, *numbers)


def split(names: str) -> list[str]:
    """Returns the names in `--callbacks`."""
    return [*filter(None, map(str.strip, names.split(",")))]


def _numbers(values: Mapping[str, float | str]) -> dict[str, float]:
    return {name: value for name, value in values.items() if not isinstance(value, str)}


def _called(name: str, function: Callable[..., Any], *arguments: object) -> Any:
    """Returns the result of a user's function; an error names it and the line."""
    try:
        return function(*arguments)
    except PreemptionError:
        raise  # a signal, not the function, ends the process
    except (Exception, SystemExit) as error:
        inner = error.__traceback__ and error.__traceback__.tb_next
        place = f" ({inner.tb_frame.f_code.co_filename}, line {inner.tb_lineno})" if inner else ""
        raise CallbackError(
            f"{name} failed: {described(error)}{place}. Correct it or leave it out, and start "
            "again: what was trained is kept"
        ) from error
