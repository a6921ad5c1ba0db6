"""Outputs that are decoded once: t2t-translate-all's, which a later run keeps or refuses."""

import dataclasses
import functools
import json
import os
import pathlib
import shutil
import threading

import pytest

from support.commands import Killed, exit_code
from support.copying import CopyModel
from support.imported_runs import write_vocabulary
from support.small_runs import make_run, save_weights
from t2t_lite.bin import t2t_translate_all
from t2t_lite.decoding import batch_journal, jobs
from t2t_lite.decoding.config import DecoderConfig
from t2t_lite.decoding.kept_output import run_once
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UserError
from t2t_lite.runs.run_folder import RunFolder

LINES = ["one two", "", "three"]


@pytest.fixture
def config(tmp_path) -> DecoderConfig:
    """Decodes with a model that copies its source."""
    names = {"problem": "decoder_test_bytes", "model": "decoder_test_copy"}
    run = make_run(tmp_path / "run", **names)
    model = run.build_model()
    assert isinstance(model, CopyModel)
    save_weights(run.folder, model)
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in LINES))
    return DecoderConfig(
        checkpoint_path=(f"{run.folder}/model.ckpt-7",),
        decode_from_file=str(tmp_path / "in"),
        decode_to_file=str(tmp_path / "new" / "out"),
        decode_hparams="beam_size=2",
        worker_gpu=0,
    )


decode = functools.partial(run_once, command="t2t-translate-all")


def output(config) -> str:
    return pathlib.Path(config.decode_to_file).read_text()


def no_decoding(monkeypatch):
    monkeypatch.setattr(jobs, "load_decoder", lambda *_: pytest.fail("decoded again"))


def other_text(config):
    path = pathlib.Path(config.decode_from_file)
    status = path.stat()
    path.write_text(path.read_text().replace("three", "seven"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return config


def other_checkpoint(config):
    index = pathlib.Path(f"{config.checkpoint_path[0]}.index")
    index.write_bytes(index.read_bytes() + b"x")
    return config


def other_search(config):
    return dataclasses.replace(config, decode_hparams="beam_size=3")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("change", "name"),
    [(other_text, "input"), (other_checkpoint, "checkpoint"), (other_search, "decode_hparams")],
)
def test_an_output_of_something_else_is_refused(config, monkeypatch, change, name):
    decode(config)
    assert output(config).splitlines() == LINES
    no_decoding(monkeypatch)
    with pytest.raises(UserError, match=rf"out was made from something .*\({name}\): remove it"):
        decode(change(config))
    assert output(config).splitlines() == LINES


@pytest.mark.integration
def test_an_output_of_the_same_is_kept_wherever_all_lies(config, tmp_path, monkeypatch, caplog):
    decode(config)
    no_decoding(monkeypatch)
    with caplog.at_level("INFO"):
        decode(config)
    assert "out exists, made from the same: it is kept" in caplog.text
    shutil.move(tmp_path / "run", tmp_path / "moved")
    shutil.copyfile(tmp_path / "in", tmp_path / "copy")
    (tmp_path / "link").symlink_to(tmp_path / "copy")
    moved = dataclasses.replace(
        config,
        checkpoint_path=(f"{tmp_path}/moved/../moved/model.ckpt-7",),
        decode_from_file=str(tmp_path / "link"),
        decode_hparams=" alpha=0.60, beam_size=2",
    )
    decode(moved)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["out", "out.origin.json"]


def test_an_output_of_unknown_origin_or_that_was_edited_is_refused(config):
    path = pathlib.Path(config.decode_to_file)
    path.parent.mkdir()
    path.write_text("by another program\n")
    with pytest.raises(UserError, match=r"out already exists, without out\.origin\.json"):
        decode(config)
    path.unlink()
    decode(config)
    path.write_text(path.read_text() + "edited\n")
    with pytest.raises(UserError, match="out has changed since it was made"):
        decode(config)


def test_a_source_that_is_missing_is_an_error_even_if_there_is_an_output(config):
    decode(config)
    os.remove(config.decode_from_file)
    with pytest.raises(UserError, match="in: no such file"):
        decode(config)


def test_a_kill_between_record_and_output_leaves_no_stale_output(config, monkeypatch):
    replace = pathlib.Path.replace

    def die(path, target):
        if pathlib.Path(target).name == "out":
            raise Killed
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(pathlib.Path, "replace", die)
        with pytest.raises(Killed):
            decode(config)
    assert not os.path.exists(config.decode_to_file)
    decode(other_text(config))
    assert output(config).splitlines() == [*LINES[:2], "seven"]


def test_lines_that_change_meanwhile_are_not_kept(config, monkeypatch):
    """Nor does the journal hold a line of the other file, which a resumed run would take."""
    window = jobs.InputLines.windows

    def replaced(self):
        for lines in window(self):
            other_text(config)
            yield lines

    with monkeypatch.context() as patch:
        patch.setattr(jobs.InputLines, "windows", replaced)
        with pytest.raises(UserError, match="in was replaced while this command read it"):
            decode(config)
    part = pathlib.Path(f"{config.decode_to_file}.part")
    assert len(part.read_text().splitlines()) == 1, "its origin alone"
    assert not os.path.exists(config.decode_to_file)


def test_lines_that_vanish_before_they_are_read_are_not_kept(config, monkeypatch):
    opened = batch_journal.BatchJournal.opened

    def emptied(self):
        pathlib.Path(config.decode_from_file).write_text("")
        return opened(self)

    monkeypatch.setattr(batch_journal.BatchJournal, "opened", emptied)
    with pytest.raises(UserError, match="in was replaced"):
        decode(config)


def test_terms_that_change_while_a_model_is_loaded_are_an_error(config, tmp_path, monkeypatch):
    terms = tmp_path / "forbidden"
    terms.write_text("four\n")
    config = dataclasses.replace(config, forbid=str(terms))
    load = jobs.load_decoder

    def replaced(*arguments):
        loaded = load(*arguments)
        terms.write_text("five\n")
        return loaded

    monkeypatch.setattr(jobs, "load_decoder", replaced)
    with pytest.raises(UserError, match="forbidden was replaced while this command read it"):
        jobs.run(config)


def test_a_checkpoint_that_changes_while_it_is_read_is_an_error(config, monkeypatch, own_searches):
    load = RunFolder.load_model

    def replaced(self, *arguments):
        loaded = load(self, *arguments)
        other_checkpoint(config)
        return loaded

    monkeypatch.setattr(RunFolder, "load_model", replaced)
    with pytest.raises(UserError, match=r"model\.ckpt-7\.index was replaced"):
        decode(config)
    assert not os.path.exists(config.decode_to_file)


def test_of_two_processes_at_once_the_second_keeps_what_the_first_made(config, monkeypatch):
    loads = []
    load = jobs.load_decoder

    def counted(*arguments):
        loads.append(1)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive(), "it waits"
        return load(*arguments)

    monkeypatch.setattr(jobs, "load_decoder", counted)
    waiting = threading.Thread(target=decode, args=[config])
    decode(config)
    waiting.join(60)
    assert len(loads) == 1
    assert output(config).splitlines() == LINES


def test_the_command_fails_for_another_file(config, tmp_path, capsys):
    flags = [f"--model_dir={tmp_path / 'run'}", f"--translations_dir={tmp_path / 'all'}"]
    command = functools.partial(exit_code, t2t_translate_all.main, *flags)
    assert command(f"--source={config.decode_from_file}") == 0
    out = tmp_path / "all" / "decoder_test_bytes-7"
    assert out.read_text().splitlines() == LINES
    record = json.loads((tmp_path / "all" / "decoder_test_bytes-7.origin.json").read_text())
    assert record["origin"]["decode_hparams"]["beam_size"] == 4
    assert command(f"--source={config.decode_from_file}") == 0
    other = tmp_path / "other"
    other.write_text("four\n")
    assert command(f"--source={other}") == 1
    assert "decoder_test_bytes-7 was made from something else" in capsys.readouterr().err
    assert command("--source=gone") == 1
    assert "gone: no such file" in capsys.readouterr().err


def test_a_vocabulary_that_is_missing_is_named_with_the_remedy(tmp_path):
    write_vocabulary(tmp_path / "run")
    run = make_run(tmp_path / "run", "translate_imported", hparams_set="transformer_tiny")
    (run.folder / "model.ckpt-7.index").touch()
    (run.folder / "vocab.imported.source.json").unlink()
    with pytest.raises(UserError, match=r"source\.json, the vocabulary .* is missing: copy it fro"):
        jobs.find_models(DecoderConfig(output_dir=str(run.folder)))


def test_a_vocabulary_that_changes_while_a_model_is_loaded_is_an_error(tmp_path, monkeypatch):
    write_vocabulary(tmp_path / "run")
    run = make_run(tmp_path / "run", "translate_imported", hparams_set="transformer_tiny")
    (run.folder / "model.ckpt-7.index").touch()
    trained = TrainedModel(run, f"{run.folder}/model.ckpt-7").fingerprinted()
    path = run.folder / "vocab.imported.target.json"
    path.write_bytes(path.read_bytes() + b"\n")
    with pytest.raises(UserError, match=r"target\.json was replaced while this command read it"):
        trained.require_same_vocabulary()
