"""The page of hparams, and what --help_hparams prints."""

import pathlib
import re
import subprocess
import sys

import pytest

from support.commands import printed_by, refusal
from t2t_lite import registry
from t2t_lite.bin import hparams_page, t2t_trainer
from t2t_lite.settings import settings_of

_DOCS = pathlib.Path(__file__).parents[2] / "docs"


def printed(*words: str) -> list[str]:
    """The lines that t2t-trainer prints for --help_hparams and other words."""
    return printed_by(t2t_trainer.main, "--help_hparams", *words).splitlines()


@pytest.mark.integration
def test_the_page_is_that_of_the_code():
    command = [sys.executable, "-m", "t2t_lite.bin.hparams_page"]
    text = subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout
    assert (_DOCS / "hparams.md").read_text(encoding="utf-8") == text, (
        "run: python -m t2t_lite.bin.hparams_page > docs/hparams.md"
    )


@pytest.mark.integration
def test_the_page_has_every_field_and_set():
    text = hparams_page.markdown()
    for name in registry.list_hparams():
        assert f"\n| `{name}` |" in text
        for field in settings_of(type(registry.hparams(name))):
            assert f"\n| `{field}` |" in text


def test_a_set_is_printed_with_meanings_bounds_and_what_is_special():
    lines = printed("--hparams_set=transformer_big", "--hparams=dtype=bfloat16")
    assert lines[0].startswith("transformer_big: The big model for EN-DE")
    assert "differ from those of transformer_base," in lines[1]
    special = [line for line in lines[2:] if line.startswith("*")]
    assert special == [
        "* batch_size=2048 (4096)",
        "* hidden_size=1024 (512)",
        "* dtype=bfloat16 (float32)",
        "* num_heads=16 (8)",
        "* filter_size=4096 (2048)",
        "* layer_prepostprocess_dropout=0.3 (0.1)",
    ]
    heads = lines.index("* num_heads=16 (8)")
    assert lines[heads + 1] == " " * 8 + "H: attention heads (paper: h). At least 1."
    names = re.findall(r"(?m)^[* ] (\w+)=", "\n".join(lines))
    assert names == registry.hparams("transformer_big").names()
    assert max(map(len, lines)) <= 100


def test_a_set_that_changes_no_other_differs_from_the_defaults():
    lines = printed("--hparams_set=lstm_seq2seq")
    assert "differ from the defaults," in lines[1]
    assert "* max_length=0 (256)" in lines


def test_the_set_is_required():
    assert "--hparams_set is missing" in refusal(t2t_trainer.main, "--help_hparams")


@pytest.mark.integration
def test_it_needs_no_tensorflow():
    script = """
import sys
from t2t_lite.bin import t2t_trainer
try:
    t2t_trainer.main(["--hparams_set=transformer_base", "--help_hparams"])
except SystemExit:
    print(sorted({"tensorflow", "keras"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.endswith("\n[]\n"), done.stderr
