"""What a user may choose is on the pages: commands, extras, search settings."""

import configparser
import dataclasses
import pathlib

from t2t_lite.search.decode_hparams import DecodeHParams

ROOT = pathlib.Path(__file__).parents[2]


def test_every_command(pages):
    text = "".join(page.text for name, page in pages.items() if name != "flags.md")
    scripts = (path for path in (ROOT / "bin").glob("t2t_*.py"))
    assert [path.stem for path in scripts if path.stem.replace("_", "-") not in text] == []


def test_every_extra(pages):
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    assert [name for name in extras if f"`{name}`" not in pages["installation.md"].text] == []


def test_every_search_setting(pages):
    names = [field.name for field in dataclasses.fields(DecodeHParams)]
    assert [name for name in names if f"`{name}" not in pages["decoding.md"].text] == []
