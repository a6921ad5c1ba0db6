"""Runs the commands as a user does, in processes of their own."""

import pathlib
import subprocess
from collections.abc import Callable

import pytest

from support.commands import command_line, environment
from support.usr_dirs import FEW_SHARDS, write_usr_dir


@pytest.fixture(scope="module")
def usr_few_shards(few_shards, tmp_path_factory) -> pathlib.Path:
    """A user directory with which a process that is started has few shards, too."""
    return write_usr_dir(tmp_path_factory.mktemp("few") / "usr_few_shards", FEW_SHARDS)


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
