"""A run of a model with layers of a user's own gives all its weights to whatever opens it."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from support import small_runs
from support.own_layers import DRY, SMALL, InASet, WithOwnLayers
from support.registries import restored
from t2t_lite import registry
from t2t_lite.decoding.ctranslate2_model import convert
from t2t_lite.errors import UsageError, UserError
from t2t_lite.runs import averaging
from t2t_lite.runs.checkpoints import Checkpoints, TrainingFiles
from t2t_lite.runs.warm_start import warm_start

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def registered():
    with restored():
        registry.register_model(WithOwnLayers)
        yield


def make_run(folder):
    sizes = {"num_hidden_layers": 1, "hidden_size": 8, "ema_decay": 0.9}
    return small_runs.make_run(folder, model="with_own_layers", **DRY, **sizes)


def test_decoding_averages_and_warm_starts_have_every_weight(tmp_path, caplog):
    run = make_run(tmp_path / "run")
    model = run.build_model()
    for step, value in ((10, 1.0), (20, 5.0)):
        small_runs.save_weights(run.folder, small_runs.fill(model, value), step)
    trained = run.load_model().model
    averaged = run.load_model(averaging.average(run, averaging.newest_checkpoints(run.folder, 2)))
    fresh = make_run(tmp_path / "new").build_model()
    caplog.set_level(logging.INFO)
    warm_start(fresh, str(run.folder))
    assert f"copied {len(model.weights)} of {len(model.weights)} weights" in caplog.text
    for wanted, found in ((5.0, trained), (3.0, averaged.model), (5.0, fresh)):
        assert len(found.trainable_weights) == len(model.weights)
        for weight in found.weights:
            assert np.all(weight.numpy() == wanted), weight.path


def test_a_run_that_lacks_the_weights_of_a_list_is_refused(tmp_path):
    """Such as one that was saved when TensorFlow left them out."""
    run = make_run(tmp_path / "run")
    plain = small_runs.make_run(tmp_path / "plain", overrides="num_hidden_layers=1,hidden_size=8")
    small_runs.save_weights(run.folder, plain.build_model())
    with pytest.raises(UserError, match="does not fit the model"):
        run.load_model()


def test_a_weight_that_a_checkpoint_cannot_name_is_refused_before_training(tmp_path):
    model = InASet("transformer_base", 13, 13, **SMALL)
    batches = iter(tf.data.Dataset.range(2))
    with pytest.raises(UsageError, match=r"InASet: .*kernel.*keep the layer in an attribute"):
        Checkpoints(tmp_path, model, keras.optimizers.SGD(), batches, TrainingFiles({}), {}, 1)


def test_ctranslate2_refuses_what_it_cannot_hold(tmp_path):
    pytest.importorskip("ctranslate2")

    class OnTop(WithOwnLayers):
        encoder_class = WithOwnLayers.__base__.encoder_class

    with pytest.raises(UserError, match=r"WithOwnLayers: CTranslate2 runs only"):
        convert(make_run(tmp_path).build_model())
    with pytest.raises(UserError, match=r"OnTop: CTranslate2 has no kernel of the layer 'alone'"):
        convert(OnTop("transformer_test", 13, 13, hidden_size=8))
