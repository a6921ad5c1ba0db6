"""t2t-insights: what a user can mend is one line, said before TensorFlow is loaded."""

import importlib.util

import pytest

from support.commands import refusal
from t2t_lite.bin import t2t_insights


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--output_dir=x",), "--text is missing"),
        (("--text=x",), "--output_dir is missing"),
        (("--text=x", "--checkpoint_path=best"), "--output_dir is missing"),
        (("--text=\udcff", "--output_dir=x"), "--text is not UTF-8"),
        (("--text=x", "--target=\udcff", "--output_dir=x"), "--target is not UTF-8"),
        (("--text=x", "--output_dir=x", "--layer=1"), "--layer needs --output_format=svg or png"),
        (("--text=x", "--output_dir=x", "--heads=1"), "--heads needs --output_format=svg or png"),
        (("--text=x", "--output_dir=x", "--layer=0", "--output_format=svg"), "layer"),
        (("--text=x", "--output_dir=x", "--attention=all"), "attention"),
        (("--text=x", "--output_dir=x", "--decode_hparams=beam=3"), "did you mean 'beam_size'?"),
    ],
)
def test_usage_errors_are_one_line(flags, message):
    line = refusal(t2t_insights.main, *flags)
    assert line.startswith("t2t-insights: error: ")
    assert message in line


@pytest.mark.parametrize("form", ["svg", "png"])
def test_a_picture_says_what_to_install(monkeypatch, form):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    flags = "--text=x", "--output_dir=x", f"--output_format={form}"
    assert "pip install '.[plots]'" in refusal(t2t_insights.main, *flags, code=1)
