"""Small models of every kind, with weights that are the same on every machine."""

import functools

import keras
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
_EXPERTS = {**_TRANSFORMER, "moe_num_experts": 4, "moe_hidden_sizes": "12"}
_UNIVERSAL = {**_TRANSFORMER, "num_rec_steps": 2, "act_max_steps": 3}
_EVOLVED = {**_TRANSFORMER, "num_encoder_layers": 0, "num_decoder_layers": 0}
_LSTM = {"num_hidden_layers": 2, "hidden_size": 16, "dropout": 0.3}
_NEURAL_GPU = {"num_hidden_layers": 2, "hidden_size": 16, "dropout": 0.3, "tape_extra": 5}
# Layers of unlike width and kernel, one without attention, one residual from further below.
_CONV_S2S = {
    "hidden_size": 16,
    "encoder_layers": "12x3*2+16x4x2",
    "decoder_layers": "12x3+16x2x2+16x1",
    "decoder_attention": "1+0+1",
    "dropout": 0.3,
    "max_length": 32,
}
_BYTE_NET = {"hidden_size": 16, "num_hidden_layers": 2, "num_block_repeat": 1, "dropout": 0.3}
_MOE_LSTM = {
    "hidden_size": 16,
    "lstm_cells": 24,
    "moe_num_experts": 4,
    "moe_hidden_sizes": "12",
    "dropout": 0.3,
}
# By any name: a registered model, a set of its hparams, and what makes it small.
KINDS = {
    "post_norm": ("transformer", "transformer_base_v1", _TRANSFORMER),
    "pre_norm": ("transformer", "transformer_base_v3", {**_TRANSFORMER, "pos": "emb"}),
    "classifier": ("transformer_encoder", "transformer_base_v3", _TRANSFORMER),
    "experts": ("transformer", "transformer_moe_base", _EXPERTS),
    "universal": ("universal_transformer", "universal_transformer_base", _UNIVERSAL),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_base", _UNIVERSAL),
    "evolved": ("evolved_transformer", "evolved_transformer_base", _EVOLVED),
    "neural_gpu": ("neural_gpu", "neural_gpu", _NEURAL_GPU),
    "extended_neural_gpu": (
        "extended_neural_gpu",
        "extended_neural_gpu",
        {**_NEURAL_GPU, "tape_width": 2},
    ),
    "bahdanau": ("lstm_seq2seq_attention", "lstm_bahdanau_attention", _LSTM),
    "luong": ("lstm_seq2seq_attention", "lstm_luong_attention", _LSTM),
    "byte_net": ("byte_net", "bytenet_multi30k", _BYTE_NET),
    "byte_net_t2t": ("byte_net", "bytenet_base", _BYTE_NET),
    "conv_s2s": ("conv_s2s", "conv_s2s_iwslt_de_en", _CONV_S2S),
    "local_gru": (
        "lstm_seq2seq_attention",
        "lstm_luong_attention",
        {**_LSTM, "cell": "gru", "attention_mechanism": "luong_dot", "attention_window": 2},
    ),
    "normed_bahdanau": (
        "lstm_seq2seq_attention_bidirectional_encoder",
        "lstm_bahdanau_attention",
        {**_LSTM, "hidden_size": 8, "attention_mechanism": "normed_bahdanau"},
    ),
    "moe_lstm": ("moe_lstm", "moe_lstm_multi30k", _MOE_LSTM),
    "gnmt": ("gnmt", "gnmt_wu2016", {**_LSTM, "num_hidden_layers": 3}),
    "gnmt_v2": ("gnmt", "gnmt_multi30k", {**_LSTM, "num_hidden_layers": 3}),
    "deep_att": (
        "deep_att",
        "deep_att_multi30k",
        {
            "hidden_size": 16,
            "multiply_embedding_mode": "none",
            "lstm_size": 8,
            "fast_forward_size": 12,
            "attention_size": 16,
            "num_encoder_layers": 2,
            "dropout": 0.3,
        },
    ),
    "lstm": ("lstm_seq2seq", "lstm_seq2seq", _LSTM),
    "bidirectional_lstm": (
        "lstm_seq2seq_bidirectional_encoder",
        "lstm_seq2seq",
        {**_LSTM, "hidden_size": 8},
    ),
}
# Kinds held to the contract by the plain test command; CI holds all of them.
_QUICK = ("post_norm", "luong")
VOCAB_SIZE = 13


@pytest.fixture(
    params=[
        kind if kind in _QUICK else pytest.param(kind, marks=pytest.mark.integration)
        for kind in KINDS
    ]
)
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


@pytest.fixture
def make_untrained(kind):
    """Builds the model with the initial weights of a training: `make_untrained(hparam=value)`."""

    def make(**changes):
        name, hparams_set, small = KINDS[kind]
        keras.utils.set_random_seed(1)
        settings = {**small, **changes}
        return registry.model(name)(hparams_set, VOCAB_SIZE, VOCAB_SIZE, **settings)

    return make


@pytest.fixture(scope="session")
def models(make_model):
    """Returns the model of a kind, made once for all tests: they must leave its weights alone."""
    return functools.cache(make_model)


@pytest.fixture
def model(kind, models):
    return models(kind)


@pytest.fixture
def dropouts(kind):
    """Names of the hparams of a kind that draw at random in training, and do not if they are 0."""
    names = [name for name in registry.hparams(KINDS[kind][1]).names() if name.endswith("dropout")]
    names += ["moe_gating_noise"] if kind in ("experts", "moe_lstm") else []
    names.remove("bpe_dropout")  # which draws while the data is read
    # As in T2T, the Evolved Transformer's feed-forward layers have the layers' dropout inside, too.
    return [name for name in names if (kind, name) != ("evolved", "relu_dropout")]


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
