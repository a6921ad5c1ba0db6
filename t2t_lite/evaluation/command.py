"""command:PROGRAM, any program as a metric: COMET, say, installed wherever it likes to be.

The program gets three files as its last arguments, sources, outputs and references, each with a
segment a line (UTF-8), and prints a number for each segment, one a line, or a single number for all
of them. The score is their mean. Higher counts as better; for a program of which that is not so:

    @registry.register_metric
    class EditDistance(Command):
        argument, program = "", "./edit_distance.sh"
        lower_is_better = True
"""

import math
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from typing import ClassVar

from t2t_lite import registry
from t2t_lite.errors import UserError, quoted
from t2t_lite.evaluation.metric import Needs, OutputMetric, Segment, Statistics


class ProgramError(UserError):
    """A metric's program is missing, failed, or did not print numbers."""


@registry.register_metric("command")
class Command(OutputMetric):
    """What a program makes of sources, outputs and references."""

    argument = "PROGRAM"
    needs = Needs.SOURCES
    form = ".6g"
    program: ClassVar[str] = ""  # unless the name says it

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._line = name.partition(":")[2] or self.program

    def check(self) -> None:
        """Raises ProgramError if there is no such program."""
        self._words()

    def statistics(self, segments: Sequence[Segment]) -> Statistics:
        """Returns each segment's number and 1; one row if the program prints one number for all.

        Raises:
            ProgramError: the program is missing, failed, or did not print numbers.
        """
        words = self._words()
        columns = {
            "sources": [segment.source for segment in segments],
            "outputs": [segment.output for segment in segments],
            "references": [segment.reference for segment in segments],
        }
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder, name) for name in columns]
            for path, texts in zip(paths, columns.values(), strict=True):
                lines = (text.replace("\n", " ") + "\n" for text in texts)
                path.write_bytes("".join(lines).encode(errors="surrogateescape"))
            printed = self._run([*words, *map(str, paths)])
        return [(number, 1.0) for number in self._numbers(printed, len(segments))]

    def score(self, totals: Sequence[float]) -> float:
        """Returns the mean."""
        return totals[0] / totals[1]

    def _words(self) -> list[str]:
        """Returns the program's path and the arguments that the name gives it."""
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
        """Runs the program and returns what it prints; it does not outlive an interruption."""
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,  # so that its own children end with it
                )
            except OSError as error:  # such as a script without its #! line
                raise ProgramError(f"metric {self.name!r}: {words[0]}: {error.strerror}") from None
            try:
                printed, _ = process.communicate()
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            if process.returncode:
                errors.seek(0)
                said = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
                raise ProgramError(
                    f"metric {self.name!r}: {words[0]} ended with exit code {process.returncode}"
                    f"{': ' if said else ''}{said}"
                )
        return printed.decode(errors="replace")

    def _numbers(self, printed: str, count: int) -> list[float]:
        """Reads what the program printed about so many segments."""
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
