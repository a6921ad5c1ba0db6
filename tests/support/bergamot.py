"""Bergamot's engine in WebAssembly, run by Node.js: the code that translates in browsers."""

import json
import pathlib
import shutil
import subprocess
from collections.abc import Sequence

import pytest

_PACKAGE = "@browsermt/bergamot-translator@0.4.9"
_PATIENCE = 300.0  # seconds
_SCRIPT = pathlib.Path(__file__).with_name("bergamot.cjs")


def installed_engine(folder: pathlib.Path) -> pathlib.Path:
    """Installs the engine; skips the test if there is no npm, or no network."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("needs Node.js and npm")
    flags = ("--prefix", str(folder), "--ignore-scripts", "--no-audit", "--no-fund")
    done = subprocess.run(
        [npm, "install", *flags, _PACKAGE], capture_output=True, text=True, timeout=_PATIENCE
    )
    if done.returncode:
        pytest.skip(f"npm installs no {_PACKAGE}: {done.stderr[-300:]}")
    return folder / "node_modules" / _PACKAGE.rpartition("@")[0] / "worker"


def translations(
    engine: pathlib.Path, files: Sequence[pathlib.Path | str], lines: Sequence[str]
) -> list[str]:
    """Returns the engine's translations of lines, one after another.

    Args:
        engine: the folder of `installed_engine`.
        files: the model, the short list ("": none), and one or two vocabularies.
        lines: a sentence each.
    """
    command = ["node", str(_SCRIPT), str(engine), *map(str, files)]
    text = json.dumps(lines)
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_PATIENCE)
    assert not done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout)
