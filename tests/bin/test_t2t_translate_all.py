"""t2t-translate-all: which checkpoints translate into which files."""

import functools
import itertools
import json

import pytest

from support.commands import exit_code, refusal
from t2t_lite import waiting
from t2t_lite.bin import t2t_translate_all
from t2t_lite.runs.checkpoint_files import whole_checkpoints
from t2t_lite.runs.followers import delete_old


@pytest.fixture
def run_dir(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    names = {"problem": "algorithmic_identity_decimal40", "model": "transformer"}
    (folder / "flags.json").write_text(json.dumps({**names, "hparams_set": "transformer_test"}))
    (folder / "hparams.json").write_text("{}")
    for step in (100, 20, 3):
        (folder / f"model.ckpt-{step}.index").touch()
    return folder


run = functools.partial(exit_code, t2t_translate_all.main)


def test_every_checkpoint_translates_once_in_order(tmp_path, run_dir, monkeypatch):
    configs = []
    monkeypatch.setattr(
        "t2t_lite.decoding.kept_output.run_once", lambda config, _: configs.append(config)
    )
    to = tmp_path / "a" / "b"
    flags = [f"--model_dir={run_dir}", "--source=in.txt", f"--translations_dir={to}"]
    assert run(*flags, "--alpha=1", "--beam_size=2") == 0
    stem = f"{to}/algorithmic_identity_decimal40"
    assert [config.decode_to_file for config in configs] == [f"{stem}-{n}" for n in (3, 20, 100)]
    assert configs[0].checkpoint_path == (f"{run_dir}/model.ckpt-3",)
    assert configs[0].decode_from_file == "in.txt"
    assert configs[0].output_dir == str(run_dir)
    assert configs[0].decode_hparams == "beam_size=2,alpha=1.0"
    configs.clear()
    assert run(*flags, "--min_steps=20") == 0
    assert [config.decode_to_file for config in configs] == [f"{stem}-{n}" for n in (20, 100)]
    assert {config.decode_hparams for config in configs} == {""}, "the run's own search"


def test_translations_of_checkpoints_that_come_later(tmp_path, run_dir, monkeypatch):
    """Until training ends; the trainer deletes none before."""
    settings = json.loads((run_dir / "flags.json").read_text()) | {"train_steps": 200}
    (run_dir / "flags.json").write_text(json.dumps(settings))
    monkeypatch.setattr(waiting, "_POLL", 0.001)
    found, later = [], iter([150, 200])

    def translate(config, command):
        found.append(int(config.decode_to_file.rpartition("-")[2]))
        for step in itertools.islice(later, 1):
            (run_dir / f"model.ckpt-{step}.index").touch()
        delete_old(run_dir, whole_checkpoints(run_dir), keep=1)

    monkeypatch.setattr("t2t_lite.decoding.kept_output.run_once", translate)
    flags = f"--model_dir={run_dir}", "--source=in.txt", f"--translations_dir={tmp_path}"
    assert run(*flags, "--wait_minutes=-1", "--min_steps=20") == 0
    assert found == [20, 100, 150, 200]


def test_a_run_without_such_checkpoints_is_an_error(run_dir):
    words = f"--model_dir={run_dir}", "--source=in.txt", "--min_steps=101"
    assert "no checkpoint from update 101 on" in refusal(t2t_translate_all.main, *words, code=1)


@pytest.mark.parametrize(
    "name",
    [
        *("page.html", "page.HTM", "a.xhtml", "app.po", "app.pot", "a.xlf", "a.xliff", "a.docx"),
        *("a.json", "a.srt", "page.html.gz", "app.po.zst", "a.docx.xz", "index.html.en"),
    ],
)
def test_a_document_is_not_translated_as_lines(tmp_path, run_dir, name, monkeypatch):
    monkeypatch.setattr("t2t_lite.runs.run_folder.RunFolder.open", lambda *_: pytest.fail("opened"))
    path = tmp_path / name
    path.write_text("<!DOCTYPE html><p>One sentence." if name.endswith(".en") else "One sentence.")
    message = refusal(t2t_translate_all.main, f"--model_dir={run_dir}", f"--source={path}")
    assert f"--source={path} is a document, whose lines are not sentences" in message


def test_standard_input_is_refused(run_dir, monkeypatch):
    monkeypatch.setattr("t2t_lite.runs.run_folder.RunFolder.open", lambda *_: pytest.fail("opened"))
    message = refusal(t2t_translate_all.main, f"--model_dir={run_dir}", "--source=-")
    assert "--source=- is standard input" in message
    assert "name a file" in message


@pytest.mark.parametrize("flag", ["model_dir", "source"])
def test_the_run_and_the_text_are_needed(flag, run_dir):
    given = {"model_dir": run_dir, "source": "in.txt"}
    words = (f"--{name}={value}" for name, value in given.items() if name != flag)
    assert f"--{flag} is missing" in refusal(t2t_translate_all.main, *words)
