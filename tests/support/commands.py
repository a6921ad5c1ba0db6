"""Runs the commands as a user does, in processes of their own, or in this one."""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from t2t_lite.bin import t2t_decoder


class Killed(BaseException):
    """Stands for SIGKILL: nothing happens after it."""


def environment() -> dict[str, str]:
    """Returns the variables of a process that says nothing about TensorFlow."""
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def command_line(name: str, *flags: str) -> list[str]:
    """Returns the words that start a command."""
    return [sys.executable, "-m", f"t2t_lite.bin.{name.replace('-', '_')}", *flags]


def run_command(name: str, *flags: str, fails: bool = False) -> str:
    """Runs a command to its end and returns its standard output, or its errors if it fails."""
    done = subprocess.run(
        command_line(name, *flags), env=environment(), text=True, capture_output=True
    )
    assert (done.returncode != 0) == fails, f"{name} {flags}:\n{done.stdout}\n{done.stderr}"
    return done.stderr if fails else done.stdout


def exit_code(main: Callable[[list[str]], None], *argv: object) -> int:
    """Runs the `main` of a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in argv])
    return end.value.code or 0


def printed_by(main: Callable[[list[str]], None], *argv: object) -> str:
    """Runs the `main` of a command, which must succeed; returns what it printed."""
    code, out, errors = _ended(main, argv)
    assert code == 0, f"{argv}:\n{errors}"
    return out


def decoded(folder: pathlib.Path, *flags: object, text: Sequence[str]) -> list[str]:
    """Decodes lines of text by the run in a folder; returns the lines that are written."""
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in text))
    files = f"--output_dir={folder}/run", f"--decode_to_file={folder}/out.txt"
    printed_by(t2t_decoder.main, *files, *flags)
    return (folder / "out.txt").read_text().splitlines()


def refusal(main: Callable[[list[str]], None], *argv: object, code: int = 2) -> str:
    """Runs the `main` of a command, which must print nothing and fail with one line: returns it."""
    found, out, errors = _ended(main, argv)
    *log, line = errors.splitlines()
    assert (found, out) == (code, ""), f"{argv}:\n{errors}"
    assert all(earlier.startswith(("INFO ", "WARNING ")) for earlier in log)
    assert ": error: " in line
    return line


def _ended(main: Callable[[list[str]], None], argv: Sequence[object]) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = exit_code(main, *argv)
    print(out.getvalue(), end="")  # for pytest's report, or a test's capsys
    print(errors.getvalue(), end="", file=sys.stderr)
    return code, out.getvalue(), errors.getvalue()
