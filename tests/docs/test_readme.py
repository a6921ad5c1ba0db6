"""README stays short, and its quick start does what it says; training is cut to a few steps."""

import datetime
import re
from decimal import Decimal

import pytest

from support.pages import run_here, shortened
from t2t_lite.problems import _locale_slots, locale
from t2t_lite.problems._locale_frames import FRAMES, Frame


def test_readme_fits_on_a_page(pages):
    assert len(pages["README.md"].text.splitlines()) <= 150


def test_the_first_two_commands_set_up_everything_themselves(pages):
    quick_start, tests, *_ = pages["README.md"].blocks("bash")
    for block in (quick_start, tests):
        commands = block.code.rstrip().split(" &&\n")
        assert commands[0] == "python3 -m venv .venv"
        assert commands[1].startswith(".venv/bin/pip install -q ")
        assert all(command.startswith(".venv/bin/") for command in commands[2:])


def shown_sentences(page) -> tuple[str, str, str]:
    """README's sentence, its translation there, and the sentence whose attention it shows."""
    (question,) = re.findall(r'^echo "(.*)" > /tmp/locale/question.txt', page.text, re.M)
    (answer,) = re.findall(r'^It prints "(.*)"$', page.text, re.M)
    (shown,) = re.findall(r'--text="(.*)"', page.text)
    return question, answer, shown


def test_the_sentences_are_of_the_kinds_that_the_model_learns(pages):
    """With values that the data set draws."""
    question, answer, shown = shown_sentences(pages["README.md"])
    values = {
        "date": datetime.date(2025, 3, 3),
        "price": (Decimal(1250), "EUR"),
        "period": 3 * 86400,
        "count": 12,
        "weekday": 0,
    }
    assert dict(_locale_slots.PERIODS)[86400] >= 3
    invoice, messages = frame_of("The invoice"), frame_of("You have received")
    english, german = locale._locale("en"), locale._locale("de")
    assert _locale_slots.fill(invoice.en, values, english) == question
    assert _locale_slots.fill(invoice.de, values, german).replace("\u00a0", " ") == answer
    assert _locale_slots.fill(messages.en, values, english) == shown


def frame_of(start: str) -> Frame:
    """The frame of the first edition that begins so."""
    (found,) = [frame for frame in FRAMES if frame.en.startswith(start)]
    return found


@pytest.mark.slow
def test_the_model_translates_the_sentence(pages, tmp_path):
    """The quick start as it stands: it takes minutes."""
    first, _, second, *_ = pages["README.md"].blocks("bash")
    for block in (first, second):
        code = block.code.replace(".venv/bin/", "").replace("/tmp/", f"{tmp_path}/")
        lines = code.replace("\\\n", "").splitlines()
        for line in lines:
            if not re.match("python3|pip", line):
                run_here(line.removesuffix("&&").strip())
    _, answer, _ = shown_sentences(pages["README.md"])
    found = (tmp_path / "locale" / "answer.txt").read_text("utf-8")
    assert found.replace("\u00a0", " ") == f"{answer}\n"


@pytest.mark.integration
def test_the_quick_start(pages, few_sentences, eagerly, tmp_path):
    blocks = pages["README.md"].blocks("bash")
    first, _, *rest = [block for block in blocks if block.heading == "Quick start"]
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
