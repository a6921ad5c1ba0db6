"""Runs the commands as a user does, in processes of their own."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest


def _environment() -> dict[str, str]:
    return {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}


def _command(name: str, *flags: str) -> list[str]:
    return [sys.executable, "-m", f"t2t_lite.bin.{name.replace('-', '_')}", *flags]


@pytest.fixture
def start() -> Callable[..., subprocess.Popen]:
    """Returns a function that starts a command and does not wait for it."""
    started = []

    def launch(name: str, *flags: str) -> subprocess.Popen:
        process = subprocess.Popen(
            _command(name, *flags),
            env=_environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.fixture
def command() -> Callable[..., str]:
    """Returns a function that runs a command to its end and returns its standard output."""

    def finish(name: str, *flags: str, fails: bool = False) -> str:
        done = subprocess.run(
            _command(name, *flags), env=_environment(), text=True, capture_output=True
        )
        assert (done.returncode != 0) == fails, f"{name} {flags}:\n{done.stdout}\n{done.stderr}"
        return done.stderr if fails else done.stdout

    return finish
