"""README stays short, and its quick start does what it says; training is cut to a few steps."""

import re

import pytest


def test_readme_fits_on_a_page(pages):
    assert len(pages["README.md"].text.splitlines()) <= 150


def test_the_first_two_commands_set_up_everything_themselves(pages):
    quick_start, tests, *_ = pages["README.md"].blocks("bash")
    for block in (quick_start, tests):
        commands = block.code.rstrip().split(" &&\n")
        assert commands[0] == "python3 -m venv .venv"
        assert commands[1].startswith(".venv/bin/pip install -q ")
        assert all(command.startswith(".venv/bin/") for command in commands[2:])


@pytest.mark.integration
def test_the_quick_start(pages, shell, tmp_path):
    quick_start, _, *rest = pages["README.md"].blocks("bash")
    installed = quick_start.code.partition("pip install")[2].partition("\n")[2]
    output = ""
    for code in (installed, *(block.code for block in rest)):
        output = shell(code.replace(".venv/bin/", "").replace("/tmp/", f"{tmp_path}/"))
        if code is installed:
            assert re.search(r"^BLEU_cased = +\d+\.\d\d$", output, re.M)
    assert len((tmp_path / "locale" / "answer.txt").read_text("utf-8").splitlines()) == 1
    assert "<html" in (tmp_path / "locale" / "attention.html").read_text("utf-8")
