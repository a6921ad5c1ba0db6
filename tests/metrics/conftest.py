"""Programs for command: metrics."""

import pathlib
from collections.abc import Callable

import pytest


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Callable[[str], str]:
    """Returns a function that writes a shell script and returns the metric that it is."""

    def write(body: str, arguments: str = "") -> str:
        path = tmp_path / "program.sh"
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return f"command:{path}{arguments}"

    return write
