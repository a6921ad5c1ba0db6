"""t2t-serve: what a user can mend is one line, said before TensorFlow is loaded."""

import pytest

from t2t_lite.bin import t2t_serve


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "--output_dir is missing"),
        (
            ("--output_dir=x", "--port=65536"),
            "--port=65536: expected a whole number, at least 0 and at most 65535",
        ),
        (("--output_dir=x", "--queue_size=0"), "queue_size"),
        (
            ("--output_dir=x", "--timeout=inf"),
            "--timeout=inf: expected a number, at least 0 and at most 86400",
        ),
        (("--output_dir=x", "--decode_hparams=beam=3"), "did you mean 'beam_size'?"),
    ],
)
def test_a_wrong_command_line_is_refused(capsys, flags, message):
    with pytest.raises(SystemExit) as end:
        t2t_serve.main(flags)
    (line,) = capsys.readouterr().err.splitlines()
    assert end.value.code == 2
    assert line.startswith("t2t-serve: error: ")
    assert message in line
