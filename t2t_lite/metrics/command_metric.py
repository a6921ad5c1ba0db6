"""command:PROGRAM: any program as a metric, such as COMET in an environment of its own.

The program receives three files as its last arguments: sources, outputs and references, one segment
per line (UTF-8). It prints one number per line for each segment, or a single number for all. The
score is their mean. Higher is better, unless you register a subclass that says otherwise:

    @registry.register_metric
    class EditDistance(CommandMetric):
        argument, program = "", "./edit_distance.sh"
        lower_is_better = True
"""

import contextlib
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import types
from collections.abc import Iterator, Sequence
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.errors import UserError, quoted
from t2t_lite.metrics.base import Needs, OutputMetric, Segment, Statistics

_LINE_BREAK = re.compile(r"[\r\n]")  # where programs that read text end a line


class ProgramError(UserError):
    """A metric's program is missing, failed, or did not print numbers."""


@registry.register_metric("command")
class CommandMetric(OutputMetric):
    """A score computed by an external program from sources, outputs and references."""

    argument = "PROGRAM"
    needs = Needs.SOURCES
    form = ".6g"
    program: ClassVar[str] = ""  # empty: the name's argument
    time_limit: ClassVar[float] = 6 * 3600.0  # seconds; a program that hangs must not stop a run

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._line = name.partition(":")[2] or self.program

    def check(self) -> None:
        """Raises ProgramError if the program cannot be found."""
        self._words()

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns each segment's number and 1, or one row if the program prints a single number.

        Raises:
            ProgramError: the program is missing, failed, did not end in time, or did not print
                numbers.
        """
        words = self._words()
        columns = {
            "sources": [segment.source for segment in segments],
            "outputs": [segment.output for segment in segments],
            "references": [segment.reference for segment in segments],
        }
        with _deadly_signals_raise(), tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in columns]
            for path, texts in zip(paths, columns.values(), strict=True):
                lines = (_LINE_BREAK.sub(" ", text) + "\n" for text in texts)
                path.write_bytes("".join(lines).encode(errors="surrogateescape"))
            printed = self._run([*words, *map(str, paths)])
        return [(number, 1.0) for number in self._numbers(printed, len(segments))]

    def score(self, totals: Sequence[float]) -> float:
        """Returns the mean."""
        return totals[0] / totals[1]

    def _words(self) -> list[str]:
        """Returns the program's path and the arguments in the metric's name."""
        try:
            words = shlex.split(self._line)
        except ValueError as error:
            raise ProgramError(f"metric {self.name!r}: {error}") from None
        program = os.path.expanduser(words[0]) if words else ""
        found = shutil.which(program)
        if found is None:
            if os.path.isfile(program):
                raise ProgramError(
                    f"metric {self.name!r}: {program} is not executable; try chmod +x {program}"
                )
            raise ProgramError(
                f"metric {self.name!r}: program {program!r} is not found; give its path, or add "
                "its folder to PATH"
            )
        return [found, *words[1:]]

    def _run(self, words: Sequence[str]) -> str:
        """Runs the program and returns its output; an interruption or its time limit ends it."""
        process: subprocess.Popen[bytes] | None = None
        with tempfile.TemporaryFile() as errors:
            try:
                with _signals_wait():
                    process = subprocess.Popen(
                        words,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        start_new_session=True,  # so that its child processes end with it
                    )
                printed, _ = process.communicate(timeout=self.time_limit)
            except BaseException as error:
                if process is None:
                    if not isinstance(error, OSError):
                        raise
                    text = f"metric {self.name!r}: {words[0]}: {error.strerror}"
                    raise ProgramError(text) from None  # such as of a script without a #! line
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                raise ProgramError(
                    f"metric {self.name!r}: {words[0]} has not ended after {self.time_limit:g} "
                    "seconds; register a subclass of CommandMetric with another time_limit"
                ) from None
            if process.returncode:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise ProgramError(
                    f"metric {self.name!r}: {words[0]} ended with exit code {process.returncode}"
                    f"{': ' if said else ''}{said}"
                )
        return printed.decode(errors="replace")

    def _numbers(self, printed: str, count: int) -> list[float]:
        """Parses the program's output for `count` segments."""
        lines = [line.strip() for line in printed.split("\n") if line.strip()]
        if len(lines) not in (1, count):
            raise ProgramError(
                f"metric {self.name!r}: the program printed {len(lines)} lines; expected one "
                f"number for each of {count} segments, or one for all"
            )
        return [self._number(line, place) for place, line in enumerate(lines, 1)]

    def _number(self, line: str, place: int) -> float:
        try:
            number = float(line)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ProgramError(
                f"metric {self.name!r}: the program's line {place} is {quoted(line)}; expected a "
                "number"
            )
        return number


@contextlib.contextmanager
def _signals_wait() -> Iterator[None]:
    """Within its block, no handler of a signal runs, such as one that raises an exception.

    A program whose start is interrupted would run on, and nobody would know its number.
    """
    received: list[int] = []

    def deliver() -> None:
        for number in received:
            signal.raise_signal(number)

    is_main = threading.current_thread() is threading.main_thread()
    with contextlib.ExitStack() as after:
        after.callback(deliver)  # last, when the handlers are back
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if is_main else ():
            if callable(handler := signal.getsignal(number)):
                after.callback(signal.signal, number, handler)
                signal.signal(number, lambda number, _: received.append(number))
        yield


class _EndedBySignalError(BaseException):
    """Unwinds the stack before a signal ends this process."""


@contextlib.contextmanager
def _deadly_signals_raise() -> Iterator[None]:
    """Within its block, SIGTERM and SIGHUP raise an exception before they end this process.

    A program in a session of its own would otherwise run on. Signals that are ignored, or that have
    a handler, such as the trainer's, keep it. Only the main thread can set handlers.
    """
    received: list[int] = []

    def receive(number: int, frame: types.FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:  # another one must not interrupt the unwinding
            raise _EndedBySignalError

    is_main = threading.current_thread() is threading.main_thread()
    try:
        with contextlib.ExitStack() as handlers:
            for number in (signal.SIGTERM, signal.SIGHUP) if is_main else ():
                if signal.getsignal(number) is signal.SIG_DFL:
                    handlers.callback(signal.signal, number, signal.SIG_DFL)
                    signal.signal(number, receive)
            yield
    finally:
        if received:
            signal.raise_signal(received[0])
