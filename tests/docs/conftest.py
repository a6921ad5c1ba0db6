"""The pages, a smaller data set, and a shell to run their blocks in."""

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from support.pages import ROOT, Page, shortened
from t2t_lite.problems import locale


@pytest.fixture(scope="session")
def pages() -> dict[str, Page]:
    """README.md and the pages of docs/, by file name."""
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {path.name: Page(path, path.read_text("utf-8")) for path in paths}


@pytest.fixture
def few_sentences() -> Iterator[None]:
    """Cuts the embedded data set to what a few steps and short searches need."""
    before = dict(locale.SPLIT_SIZES)
    locale.corpus.cache_clear()
    locale.SPLIT_SIZES.update({split: 400 if split == "train" else 20 for split in before})
    yield
    locale.corpus.cache_clear()
    locale.SPLIT_SIZES.update(before)


@pytest.fixture
def shell(tmp_path: pathlib.Path) -> Callable[[str], str]:
    """Returns a function that runs a bash block in an empty folder and returns what it printed.

    Trainings are cut to a few steps, searches are short.
    """
    scripts = pathlib.Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }

    def run(code: str) -> str:
        code = shortened(code)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", code],
            cwd=tmp_path,
            env=environment,
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
