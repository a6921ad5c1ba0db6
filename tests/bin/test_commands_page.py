"""docs/commands.md says what `--help` says."""

import pathlib

from t2t_lite.bin import commands_page


def test_the_page_is_made_from_the_commands():
    page = pathlib.Path(__file__).parents[2] / "docs" / "commands.md"
    assert page.read_text(encoding="utf-8") == commands_page.markdown(), (
        "run: python -m t2t_lite.bin.commands_page > docs/commands.md"
    )


def test_every_command_is_there():
    scripts = (pathlib.Path(__file__).parents[2] / "setup.cfg").read_text(encoding="utf-8")
    names = [command.name for command in commands_page.all_commands()]
    assert len(names) == 19
    for name in names:
        assert f"{name} = t2t_lite.bin." in scripts
