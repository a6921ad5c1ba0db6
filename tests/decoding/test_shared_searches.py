"""Tests share the traces of equal models, and of no others."""

import numpy as np
import pytest

from support import shared_searches
from support.shared_searches import SharedSearches
from support.small_runs import noisy_run, save_weights
from t2t_lite.decoding.trained_model import TrainedModel
from t2t_lite.errors import UsageError, UserError
from t2t_lite.search.decode_hparams import DecodeHParams

SIZES = {"hidden_size": 8, "num_hidden_layers": 1}


@pytest.fixture
def shared(own_searches):
    """Shares among its own loads alone, not with the other tests of the process."""
    return SharedSearches()


def worker_of(shared, run, models, **settings):
    return shared.worker(models, run.encoders, DecodeHParams(**settings))


def test_equal_runs_share_a_model_and_its_workers(shared, tmp_path):
    runs = [noisy_run(tmp_path / name, **SIZES) for name in ("one", "other")]
    (one, found), (other, _) = (shared.load(TrainedModel(run, "")) for run in runs)
    assert one is other
    assert found.checkpoint.startswith(str(tmp_path / "one")), "messages name the test's own"
    worker = worker_of(shared, runs[0], [one], beam_size=2, extra_length=3)
    assert worker_of(shared, runs[1], [one], beam_size=2, extra_length=9, batch_size=4) is worker
    assert worker_of(shared, runs[0], [one], beam_size=3) is not worker
    assert worker_of(shared, runs[0], [one, one], beam_size=2, extra_length=3) is not worker
    with pytest.raises(UsageError, match="search part"):  # a test's own parts are not shared
        shared.worker([one], runs[0].encoders, DecodeHParams(), (object(),))


@pytest.mark.integration
def test_other_weights_settings_and_types_are_other_models(shared, tmp_path):
    run = noisy_run(tmp_path / "one", **SIZES)
    model, _ = shared.load(TrainedModel(run, ""))
    assert shared.load(TrainedModel(run, ""), "bfloat16")[0] is not model
    wider = noisy_run(tmp_path / "wider", hidden_size=16, num_hidden_layers=1)
    assert shared.load(TrainedModel(wider, ""))[0] is not model
    changed = run.build_model()
    changed.set_weights([weight + 1 for weight in model.get_weights()])
    save_weights(run.folder, changed, step=8)
    other, found = shared.load(TrainedModel(run, ""))
    assert found.checkpoint.endswith("-8")
    assert other is not model
    assert np.array_equal(other.get_weights()[0], changed.get_weights()[0])


def test_a_checkpoint_that_was_damaged_since_is_not_taken_for_the_one_that_was_loaded(
    shared, tmp_path
):
    run = noisy_run(tmp_path / "one", **SIZES)
    shared.load(TrainedModel(run, ""))
    (data,) = run.folder.glob("model.ckpt-7.data-*")
    data.write_bytes(b"")
    with pytest.raises(UserError, match=r"ckpt-7"):
        shared.load(TrainedModel(run, ""))


def test_a_model_that_a_test_has_changed_is_loaded_anew(shared, tmp_path):
    run = noisy_run(tmp_path / "one", **SIZES)
    model, _ = shared.load(TrainedModel(run, ""))
    worker = worker_of(shared, run, [model])
    model.weights[0].assign(model.weights[0] * float("nan"))
    other, _ = shared.load(TrainedModel(run, ""))
    assert other is not model
    assert np.isfinite(other.get_weights()[0]).all()
    assert worker_of(shared, run, [other]) is not worker


@pytest.mark.integration
def test_the_models_used_longest_ago_are_forgotten(shared, tmp_path, monkeypatch):
    monkeypatch.setattr(shared_searches, "MOST_MODELS", 2)
    sizes = [{**SIZES, "filter_size": 8 * (number + 1)} for number in range(3)]
    runs = [noisy_run(tmp_path / str(number), **size) for number, size in enumerate(sizes)]
    models = [shared.load(TrainedModel(run, ""))[0] for run in runs]
    assert shared.load(TrainedModel(runs[-1], ""))[0] is models[-1]
    assert shared.load(TrainedModel(runs[1], ""))[0] is models[1]
    assert shared.load(TrainedModel(runs[0], ""))[0] is not models[0]
