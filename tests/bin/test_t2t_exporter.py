"""t2t-exporter's flags; what it writes is tested in tests/export."""

import pytest

from t2t_lite.bin.t2t_exporter import COMMAND, main
from t2t_lite.export import ctranslate2


def run(*argv: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(argv)
    return end.value.code


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--output_dir is missing: Run folder of t2t-trainer"),
        (["--output_dir=r", "--decode_hparams=alpa=1"], "did you mean 'alpha'?"),
        (["--output_dir=r", "--format=onnx"], "--format"),
        (
            ["--output_dir=r", "--format=keras", "--decode_hparams=alpha=1"],
            "--decode_hparams needs --format=savedmodel",
        ),
        (
            ["--output_dir=r", "--quantization=int8"],
            "--quantization needs --format=ctranslate2",
        ),
    ],
)
def test_mistakes(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert run(*argv) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_no_run_folder(tmp_path, capsys: pytest.CaptureFixture[str]):
    assert run(f"--output_dir={tmp_path}") == 1
    assert f"{tmp_path} is not a run folder" in capsys.readouterr().err


def test_every_quantization_can_be_asked_for():
    assert set(COMMAND.flags["quantization"].choices) == set(ctranslate2.QUANTIZATIONS)
