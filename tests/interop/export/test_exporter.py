"""Which module t2t-exporter calls, and with which arguments."""

import numpy as np
import pytest

from support.commands import exit_code
from t2t_lite.bin.t2t_exporter import main
from t2t_lite.errors import UserError
from t2t_lite.interop.export import ctranslate2, keras_archive, saved_model
from t2t_lite.search.decode_hparams import DecodeHParams


@pytest.mark.parametrize(
    ("flags", "module", "arguments"),
    [
        ([], saved_model, ("exports",)),
        (["--format=keras"], keras_archive, ("exports",)),
        (
            ["--format=ctranslate2", "--quantization=int8"],
            ctranslate2,
            ("exports/ctranslate2/1", "int8"),
        ),
    ],
)
def test_each_format_is_written_of_the_named_checkpoint(
    monkeypatch, tmp_path, make_run, flags, module, arguments
):
    calls = []
    monkeypatch.setattr(module, "export", lambda *given: calls.append(given))
    monkeypatch.chdir(tmp_path)
    opened = make_run("transformer", "text2text_tmpdir_bpe")
    run = [f"--output_dir={opened.folder}", "--checkpoint_path=7"]
    assert exit_code(main, *run, "--export_dir=exports", *flags) == 0
    ((given_run, checkpoint, *others),) = calls
    assert given_run.folder == opened.folder
    assert checkpoint == f"{opened.folder}/model.ckpt-7"
    assert tuple(others[: len(arguments)]) == arguments


@pytest.mark.parametrize(
    ("module", "arguments"),
    [(saved_model, (DecodeHParams(),)), (keras_archive, ()), (ctranslate2, ("float32",))],
)
def test_a_model_that_diverged_is_not_exported(monkeypatch, tmp_path, make_run, module, arguments):
    run = make_run("transformer", "text2text_tmpdir_bpe")
    model, step, checkpoint = run.load_model(None)
    weight = model.trainable_weights[-1]
    weight.assign(np.full(weight.shape, np.nan))
    monkeypatch.setattr(type(run), "load_model", lambda *_: (model, step, checkpoint))
    with pytest.raises(UserError, match=f"{checkpoint}: the weight {weight.path} is not finite"):
        module.export(run, None, str(tmp_path / "exports"), *arguments)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
