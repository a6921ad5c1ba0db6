"""Runs the commands as a user does, in processes of their own."""

import subprocess
from collections.abc import Callable

import pytest

from support.commands import command_line, environment


@pytest.fixture
def start() -> Callable[..., subprocess.Popen]:
    """Returns a function that starts a command and does not wait for it."""
    started = []

    def launch(name: str, *flags: str) -> subprocess.Popen:
        process = subprocess.Popen(
            command_line(name, *flags),
            env=environment(),
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
