"""The exports that a run folder keeps: made once, whole, locked, bounded in number."""

import dataclasses
import os
import threading

import ctranslate2
import numpy as np
import pytest

from support.imported_runs import imported_run
from support.small_runs import save_weights
from t2t_lite.alignment.shortlist import Shortlist
from t2t_lite.decoding import kept_export
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UserError
from t2t_lite.lock import locked


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


def test_a_run_folder_that_cannot_be_written_is_named(run, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.mkdir", refuse)
    with pytest.raises(UserError, match=r"cannot create .*engines.*use --engine=tensorflow"):
        opened(run)
