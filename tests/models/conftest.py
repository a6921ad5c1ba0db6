"""Small models of every kind, with weights that are the same on every machine."""

import functools

import numpy as np
import pytest

from t2t_lite import registry

_TRANSFORMER = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "filter_size": 24,
    "num_heads": 2,
    "layer_prepostprocess_dropout": 0.3,
    "max_length": 32,
}
_LSTM = {"num_hidden_layers": 2, "hidden_size": 16, "dropout": 0.3}
# By any name: a registered model, a set of its hparams, and what makes it small.
KINDS = {
    "post_norm": ("transformer", "transformer_base_v1", _TRANSFORMER),
    "pre_norm": ("transformer", "transformer_base_v3", {**_TRANSFORMER, "pos": "emb"}),
    "bahdanau": ("lstm_seq2seq_attention", "lstm_bahdanau_attention", _LSTM),
    "luong": ("lstm_seq2seq_attention", "lstm_luong_attention", _LSTM),
}
VOCAB_SIZE = 13


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="session")
def kinds():
    """All kinds of models."""
    return KINDS


@pytest.fixture(scope="session")
def make_model():
    """Builds a model: `make_model(kind, inputs_vocab_size, targets_vocab_size, hparam=value)`."""

    def make(kind, inputs_vocab_size=VOCAB_SIZE, targets_vocab_size=VOCAB_SIZE, **changes):
        model_name, hparams_set, small = KINDS[kind]
        hparams = registry.hparams(hparams_set).copy(**{**small, **changes})
        model = registry.model(model_name)(hparams, inputs_vocab_size, targets_vocab_size)
        for i, variable in enumerate(model.trainable_variables):
            noise = np.random.RandomState(i).normal(size=variable.shape)
            # Larger than a fresh model's, so that no part is without effect.
            noise *= 2.0 / variable.shape[0] ** 0.5
            variable.assign(noise + (variable.name == "gamma"))
        return model

    return make


@pytest.fixture(scope="session")
def models(make_model):
    """Returns the model of a kind, made once for all tests: they must leave its weights alone."""
    return functools.cache(make_model)


@pytest.fixture
def model(kind, models):
    return models(kind)


@pytest.fixture
def features():
    """Sources and targets of unlike lengths, as they leave the pipeline: EOS (1), then padding."""
    return {
        "inputs": np.array(
            [[5, 9, 2, 12, 7, 3, 1], [8, 8, 1, 0, 0, 0, 0], [4, 11, 6, 2, 1, 0, 0]], np.int32
        ),
        "targets": np.array(
            [[3, 10, 1, 0, 0, 0], [6, 2, 9, 12, 4, 1], [7, 1, 0, 0, 0, 0]], np.int32
        ),
    }
