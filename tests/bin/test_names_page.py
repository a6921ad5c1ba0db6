"""docs/t2t-names.md lists the names that the code offers and refuses."""

import pathlib
import subprocess
import sys

import pytest


@pytest.mark.integration
def test_the_page_is_made_from_the_code():
    """In a process of its own: other tests register problems."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "t2t-names.md"
    command = [sys.executable, "-m", "t2t_lite.bin.names_page"]
    made = subprocess.check_output(command, text=True, encoding="utf-8")
    assert page.read_text(encoding="utf-8") == made, (
        "run: python -m t2t_lite.bin.names_page > docs/t2t-names.md"
    )
