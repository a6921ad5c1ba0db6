"""README stays short, and its quick start does what it says; training is cut to a few steps."""

import re

import pytest

from support.pages import run_here, shortened


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
def test_the_quick_start(pages, few_sentences, tmp_path):
    first, _, *rest = pages["README.md"].blocks("bash")
    printed = []
    for block in (first, *rest):
        code = shortened(block.code).replace(".venv/bin/", "").replace("/tmp/", f"{tmp_path}/")
        code = code.replace(
            "--train_steps", "--hparams=num_encoder_layers=1,num_decoder_layers=1 --train_steps"
        )
        lines = [line.removesuffix("&&").strip() for line in code.splitlines()]
        printed.append([run_here(line) for line in lines if not re.match("python3|pip", line)])
    assert re.search(r"^BLEU_cased = +\d+\.\d\d$", printed[0][-1], re.M)
    answer = (tmp_path / "locale" / "answer.txt").read_text("utf-8")
    assert len(answer.splitlines()) == 1
    assert printed[1][-1] == answer
    assert "<html" in (tmp_path / "locale" / "attention.html").read_text("utf-8")
