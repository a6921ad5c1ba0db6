"""Runs the commands as a user does, in processes of their own, or in this one."""

import os
import subprocess
import sys


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
