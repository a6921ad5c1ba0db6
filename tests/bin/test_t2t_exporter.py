"""t2t-exporter's flags; what it writes is tested in tests/interop/export."""

import pytest

from support.commands import refusal
from t2t_lite.bin.t2t_exporter import COMMAND, main
from t2t_lite.decoding.ctranslate2_model import QUANTIZATIONS


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "--output_dir is missing: Run folder of t2t-trainer"),
        (["--decode_hparams=alpa=1"], "did you mean 'alpha'?"),
        (["--format=onnx"], "--format"),
        (
            ["--format=keras", "--decode_hparams=alpha=1"],
            "--decode_hparams has no effect on --format=keras, only on savedmodel, ctranslate2,",
        ),
        (
            ["--quantization=int8"],
            "--quantization has no effect on --format=savedmodel, only on ctranslate2, argos",
        ),
        (
            ["--to_code=de"],
            "--to_code has no effect on --format=savedmodel, only on argos, firefox",
        ),
        (["--format=marian", "--dev_file=x"], "--dev_file has no effect on --format=marian"),
    ],
)
def test_usage_errors_are_one_line(argv, message):
    folder = ["--output_dir=r"] if argv else []
    assert message in refusal(main, *folder, *argv)


def test_no_run_folder(tmp_path):
    error = refusal(main, f"--output_dir={tmp_path}", code=1)
    assert f"{tmp_path} is not a run folder" in error


def test_every_quantization_can_be_asked_for():
    assert set(COMMAND.flags["quantization"].choices) == set(QUANTIZATIONS)
