"""What decodes, exports or serves a run, where it is broken or nothing can be written: one line."""

import json
import os
import pathlib
import shutil

import pytest

from support.commands import exit_code
from support.small_runs import make_run, save_weights
from t2t_lite.bin import t2t_decoder, t2t_exporter, t2t_query_server, t2t_serve

PROBLEM = "text2text_tmpdir_tokens"
VOCABULARY = f"vocab.{PROBLEM}.tokens"


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> pathlib.Path:
    """A run folder in which nothing is wrong."""
    data = tmp_path_factory.mktemp("data")
    (data / VOCABULARY).write_text("".join(f"{word}\n" for word in ("<UNK>", *"abc")))
    run = make_run(data / "run", PROBLEM, data_dir=data, num_hidden_layers=1)
    save_weights(run.folder, run.build_model())
    return run.folder


@pytest.fixture
def run(sound, tmp_path) -> pathlib.Path:
    """A copy of it, to break."""
    return pathlib.Path(shutil.copytree(sound, tmp_path / "run"))


@pytest.fixture
def refused(tmp_path, capsys):
    """Returns a function that runs a command, which must fail, and returns what it says."""
    (tmp_path / "in").write_text("a b\n")

    def fail(main, *flags: str) -> str:
        before = sorted(tmp_path.rglob("*"))
        assert exit_code(main, *flags) == 1
        assert sorted(tmp_path.rglob("*")) == before, "something is left behind"
        log = capsys.readouterr().err.splitlines()
        *_, error = log
        assert ": error: " in error
        assert sum(line[:5] not in ("INFO ", "WARNI") for line in log) == 1, log
        return error

    return fail


def decoder(run, tmp_path, *flags):
    """Returns the command with flags that are right."""
    files = f"--decode_from_file={tmp_path}/in", f"--decode_to_file={tmp_path}/new/out"
    return t2t_decoder.main, f"--output_dir={run}", *files, *flags


def exporter(kind):
    def command(run, tmp_path, *flags):
        exports = f"--export_dir={tmp_path}/new/exports", f"--format={kind}"
        return t2t_exporter.main, f"--output_dir={run}", *exports, *flags

    return command


def serve(run, tmp_path, *flags):
    return t2t_serve.main, f"--output_dir={run}", "--port=0", *flags


COMMANDS = [
    pytest.param(decoder, id="decoder"),
    *(pytest.param(exporter(kind), id=kind) for kind in ("savedmodel", "keras", "ctranslate2")),
    pytest.param(serve, id="serve"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_missing_vocabulary(refused, run, tmp_path, command):
    (run / VOCABULARY).unlink()
    error = refused(*command(run, tmp_path))
    assert f"{run}/{VOCABULARY}, the vocabulary that this run was trained with, is missing" in error
    assert "copy it from --data_dir=" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_checkpoint_of_another_architecture(refused, run, tmp_path, command):
    hparams = json.loads((run / "hparams.json").read_text())
    (run / "hparams.json").write_text(json.dumps(hparams | {"hidden_size": 8}))
    error = refused(*command(run, tmp_path))
    assert f"checkpoint {run}/model.ckpt-7 does not fit the model" in error
    assert "choose another checkpoint, or restore the files" in error


def test_a_checkpoint_that_is_not_there(refused, run, tmp_path):
    error = refused(*serve(run, tmp_path, "--checkpoint_path=8"))
    assert f"{run} has no checkpoint '8' ({run}/model.ckpt-8.index is missing)" in error


@pytest.mark.parametrize(
    ("kind", "folder"), [("savedmodel", "/proc"), ("keras", "in"), ("ctranslate2", "/proc")]
)
def test_an_export_that_cannot_be_written(refused, run, tmp_path, kind, folder):
    folder = tmp_path / folder
    assert str(folder) in refused(*exporter(kind)(run, tmp_path, f"--export_dir={folder}"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/proc/out", "--decode_to_file=/proc/out cannot be written: /proc: "),
        ("in/out", "in/out cannot be written: "),
        ("pipe", "pipe is not a regular file: name another"),  # as /dev/null is none
    ],
)
def test_outputs_that_cannot_be_written(refused, run, tmp_path, target, message):
    os.mkfifo(tmp_path / "pipe")
    assert message in refused(*decoder(run, tmp_path, f"--decode_to_file={tmp_path / target}"))


def test_a_server_asked_with_a_missing_vocabulary(refused, tmp_path):
    flags = "--server=x:1", "--servable_name=m", f"--problem={PROBLEM}", f"--data_dir={tmp_path}"
    assert f"{tmp_path}/{VOCABULARY}" in refused(t2t_query_server.main, *flags)
