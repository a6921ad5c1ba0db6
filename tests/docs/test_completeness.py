"""What a user may choose is on the pages: commands, extras and forms of problems."""

import fnmatch
import pathlib
import re

from support.setup_file import setup_cfg
from t2t_lite import registry
from t2t_lite.errors import UsageError

ROOT = pathlib.Path(__file__).parents[2]


def test_every_command(pages):
    text = "".join(page.text for name, page in pages.items() if name != "flags.md")
    scripts = (path for path in (ROOT / "bin").glob("t2t_*.py"))
    assert [path.stem for path in scripts if path.stem.replace("_", "-") not in text] == []


def test_every_extra(pages):
    extras = setup_cfg()["options.extras_require"]
    assert [name for name in extras if f"`{name}`" not in pages["installation.md"].text] == []


def test_every_problem_that_has_no_reversed_form(pages):
    (text,) = re.findall(
        r"^Every problem can be reversed.*?\n\n", pages["data.md"].text, re.M | re.S
    )
    patterns = re.findall(r"`([^`]*)`", text.partition("Exceptions")[2])
    problems = {name: type(registry.problem(name)) for name in registry.list_problems()}
    names = [name for name, kind in problems.items() if kind.__module__.startswith("t2t_lite.")]
    assert {name for name in names if not _can_be_reversed(name)} == {
        name for name in names for pattern in patterns if fnmatch.fnmatch(name, pattern)
    }


def _can_be_reversed(name: str) -> bool:
    try:
        registry.problem(f"{name}_rev")
    except UsageError:
        return False
    return True
