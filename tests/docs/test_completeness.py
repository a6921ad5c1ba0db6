"""What a user may choose is on the pages: commands and extras."""

import pathlib

from support.setup_file import setup_cfg

ROOT = pathlib.Path(__file__).parents[2]


def test_every_command(pages):
    text = "".join(page.text for name, page in pages.items() if name != "flags.md")
    scripts = (path for path in (ROOT / "bin").glob("t2t_*.py"))
    assert [path.stem for path in scripts if path.stem.replace("_", "-") not in text] == []


def test_every_extra(pages):
    extras = setup_cfg()["options.extras_require"]
    assert [name for name in extras if f"`{name}`" not in pages["installation.md"].text] == []
