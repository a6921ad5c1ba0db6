"""The exports that a run folder keeps: made once, whole, locked, bounded in number."""

import dataclasses
import errno
import os
import pathlib
import shutil
import tempfile
import threading

import ctranslate2
import numpy as np
import pytest

from support.commands import Killed
from support.imported_runs import imported_run
from support.small_runs import save_weights
from t2t_lite.decoding import kept_export
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UserError
from t2t_lite.lock import locked
from t2t_lite.runs import run_folder
from t2t_lite.text.alignment.shortlist import Shortlist


@pytest.fixture
def run(tmp_path):
    return imported_run(tmp_path / "run")


def opened(run, checkpoint="", **form):
    with kept_export.kept_export(TrainedModel(run, checkpoint), **form) as (export, _):
        assert (export.folder / "model.bin").is_file()
        return export.folder


@pytest.mark.integration
def test_it_is_made_once(run, monkeypatch):
    folder = opened(run)
    monkeypatch.setattr(TrainedModel, "load", None)
    assert opened(run) == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.integration
def test_what_determines_it_has_one_of_its_own(run):
    """Another checkpoint of the same name, other settings."""
    first = opened(run)
    others = dataclasses.replace(run, hparams=run.hparams.copy(norm_epsilon=1e-3).freeze())
    second = opened(others)
    model = run.build_model()
    for weight in model.trainable_variables:
        weight.assign(weight + 0.5)
    save_weights(run.folder, model)
    assert len({first, second, opened(run)}) == 3


@pytest.mark.integration
def test_types_to_compute_in_have_one_of_their_own_which_needs_no_conversion(run):
    """An int8 export has the scores of a float32 one that CTranslate2 quantises itself."""
    float32, int8 = opened(run), opened(run, compute_type="int8")
    assert opened(run, compute_type="int8_float32") == int8
    sizes = [(folder / "model.bin").stat().st_size for folder in (float32, int8)]
    # Of each product's weights, three bytes of four; a scale for each row takes a few.
    matrices = [w for w in run.build_model().trainable_variables if len(w.shape) == 2]
    assert sizes[0] - sizes[1] > 2.5 * sum(weight.numpy().size for weight in matrices)
    sources, targets = [["5", "6", "7"], ["9"]], [["8", "4"], ["11", "12", "3"]]
    scores = [
        ctranslate2.Translator(str(folder), compute_type="int8").score_batch(sources, targets)
        for folder in (float32, int8)
    ]
    for one, other in zip(*scores, strict=True):
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-3)


@pytest.mark.integration
def test_a_short_list_is_part_of_it(run):
    lists = [Shortlist([4], np.full([36, 1], id_), 36) for id_ in (5, 6)]
    folders = [opened(run), *(opened(run, shortlist=one) for one in lists)]
    assert len(set(folders)) == 3
    assert opened(run, shortlist=lists[0]) == folders[1]
    assert not (folders[0] / "vmap.txt").exists()
    assert "7\t5" in (folders[1] / "vmap.txt").read_text().splitlines()


@pytest.mark.integration
def test_those_used_last_are_kept(run):
    made = []
    for number in range(5):
        changed = run.hparams.copy(norm_epsilon=10.0 ** -(3 + number)).freeze()
        made.append(opened(dataclasses.replace(run, hparams=changed)))
        os.utime(made[-1], (number, number))
        if number == 3:  # the first one is used again, and so the second goes
            os.utime(made[1], (9, 9))
    assert [path.exists() for path in made] == [False, True, False, True, True]


@pytest.mark.integration
def test_a_failure_leaves_nothing(run, monkeypatch):
    def fail(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("ctranslate2.specs.TransformerSpec.save", fail)
    with pytest.raises(KeyboardInterrupt):
        opened(run)
    assert list((run.folder / kept_export.FOLDER).iterdir()) == []


@pytest.mark.integration
def test_a_second_process_waits_for_the_first(run):
    folder = run.folder / kept_export.FOLDER
    folder.mkdir()
    found = []
    waiting = threading.Thread(target=lambda: found.append(opened(run)))
    with locked(folder / ".lock", "t2t-decoder", "is exporting"):
        waiting.start()
        waiting.join(0.3)
        assert not found
    waiting.join(60)
    assert found


@pytest.mark.integration
def test_a_model_that_ctranslate2_lacks_is_refused_with_the_remedy(run):
    recurrent = dataclasses.replace(
        run, hparams=run.hparams.copy(attention_neighborhood=3).freeze()
    )
    with pytest.raises(
        UserError, match=r"--engine=ctranslate2: .*attention_neighborhood.*--engine=tensorflow"
    ):
        with kept_export.kept_export(TrainedModel(recurrent, "")):
            pass


@pytest.fixture
def cache(tmp_path, monkeypatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def make_read_only(monkeypatch, *folders: pathlib.Path) -> None:
    """Stands for file systems that are mounted to be read: nothing can be made in them."""

    def refused(path) -> bool:
        inside = pathlib.Path(path)
        return any(folder == inside or folder in inside.parents for folder in folders)

    def refusing(function):
        def call(path, *args, **kwargs):
            if refused(kwargs.get("dir", path)):
                raise OSError(errno.EROFS, "Read-only file system")
            return function(path, *args, **kwargs)

        return call

    temporary = tempfile.TemporaryFile
    for module, name in ((pathlib.Path, "mkdir"), (os, "utime"), (shutil, "rmtree")):
        monkeypatch.setattr(module, name, refusing(getattr(module, name)))
    monkeypatch.setattr(
        tempfile,
        "TemporaryFile",
        lambda **kwargs: refusing(lambda _, **k: temporary(**k))("", **kwargs),
    )


@pytest.mark.integration
def test_the_export_of_a_run_that_cannot_be_written_is_in_the_users_cache(
    run, cache, tmp_path, monkeypatch
):
    with monkeypatch.context() as patch:
        make_read_only(patch, run.folder)
        made = opened(run)
        assert made.parent == cache / "t2t_lite" / "engines"
        with monkeypatch.context() as inner:
            inner.setattr(TrainedModel, "load", None)
            assert opened(run) == made
        assert not (run.folder / kept_export.FOLDER).exists()
        moved = shutil.copytree(run.folder, tmp_path / "moved")
        make_read_only(patch, moved)
        with monkeypatch.context() as inner:
            inner.setattr(TrainedModel, "load", None)
            assert opened(dataclasses.replace(run, folder=moved)) == made
        replace_weights(run)
        assert opened(run) != made, "of another checkpoint of the same name"
    own = opened(run)
    assert own.parent == run.folder / kept_export.FOLDER
    make_read_only(monkeypatch, run.folder, cache)
    monkeypatch.setattr(TrainedModel, "load", None)
    shutil.move(cache, tmp_path / "gone")
    assert opened(run) == own, "made while the folder could be written"


def test_two_folders_that_cannot_be_written_are_named(run, cache, monkeypatch):
    make_read_only(monkeypatch, run.folder, cache)
    with pytest.raises(
        UserError, match=r"neither .*run/engines nor .*cache/.*engines can .*use --engine=tensorfl"
    ):
        opened(run)


def replace_weights(run) -> None:
    """Writes another checkpoint of the same name."""
    model = run.build_model()
    for weight in model.trainable_variables:
        weight.assign(weight + 0.25)
    save_weights(run.folder, model)


@pytest.mark.integration
@pytest.mark.parametrize("named", [False, True])
def test_a_checkpoint_that_is_replaced_meanwhile_has_no_export(
    run, monkeypatch, named, own_searches
):
    """Neither the old weights under the new name nor the new ones under the old."""
    checkpoint = str(run.folder / "model.ckpt-7") if named else ""
    load_model = run_folder.RunFolder.load_model

    def load(self, *args):
        loaded = load_model(self, *args)
        replace_weights(run)
        return loaded

    with monkeypatch.context() as patch:
        patch.setattr(run_folder.RunFolder, "load_model", load)
        with pytest.raises(UserError, match=r"ckpt-7\.index was replaced while this command read"):
            opened(run, checkpoint)
    assert list((run.folder / kept_export.FOLDER).iterdir()) == []
    opened(run, checkpoint)


@pytest.mark.integration
def test_what_a_killed_process_left_is_no_export(run, monkeypatch):
    """Half of one that is being deleted is not taken for a whole one."""
    first = opened(run)
    replace_weights(run)

    def die(path, **kwargs):
        if path.exists():
            (path / "model.bin").unlink()
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(kept_export, "_MOST", 1)
        patch.setattr(shutil, "rmtree", die)
        with pytest.raises(Killed):
            opened(run)
    second = opened(run)
    assert [path.name for path in second.parent.iterdir()] == [second.name]
    assert not first.exists()
