"""t2t-serve: what a user can mend is one line, said before TensorFlow is loaded."""

import pytest

from support.commands import refusal
from t2t_lite.bin import t2t_serve


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("", "--output_dir is missing"),
        ("--port=65536", "--port=65536: expected a whole number, at least 0 and at most 65535"),
        ("--queue_size=0", "queue_size"),
        ("--timeout=inf", "--timeout=inf: expected a number, at least 0 and at most 86400"),
        ("--decode_hparams=beam=3", "did you mean 'beam_size'?"),
    ],
)
def test_usage_errors_are_one_line(flag, message):
    line = refusal(t2t_serve.main, *(["--output_dir=x", flag] if flag else []))
    assert line.startswith("t2t-serve: error: ")
    assert message in line
