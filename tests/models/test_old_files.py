"""Files that version 0.1 saved go on loading, and give the logits that they gave then."""

import pathlib

import keras
import numpy as np
import pytest

from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
FEATURES = {
    "inputs": np.array([[5, 9, 2, 1], [8, 1, 0, 0]], np.int32),
    "targets": np.array([[3, 10, 1], [6, 1, 0]], np.int32),
}


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_a_keras_file_of_version_0_1(name):
    for model in registry.list_models():
        registry.model(model)  # makes the class known to Keras
    loaded = keras.saving.load_model(FIXTURES / f"{name}_v0.1.keras")
    wanted = np.load(FIXTURES / f"{name}_v0.1.npy")
    assert_close(loaded(FEATURES), wanted, terms_of(loaded, 4))


def test_views_leave_checkpoints_and_files_alone():
    """Their layers must stand under the names that files of old give them."""
    model = keras.saving.load_model(FIXTURES / "transformer_v0.1.keras")
    before = [v.path for v in model.variables]
    assert model.encoder.layers
    assert model.decoder.layers
    assert [v.path for v in model.variables] == before
    assert not {"encoder", "decoder"} & set(dir(model))
    assert not any(layer in model.layers for layer in (model.encoder, model.decoder))
