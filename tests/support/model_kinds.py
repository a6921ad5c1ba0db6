"""Small models of every kind, with weights that are the same on every machine."""

import functools
from collections.abc import Callable, Container
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.layers.base import without_initial_values
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.models.seq2seq import Seq2Seq

_TRANSFORMER = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "filter_size": 24,
    "num_heads": 2,
    "layer_prepostprocess_dropout": 0.3,
    "max_length": 32,
}
# For kinds that differ from post_norm in what a layer computes, not in how layers are stacked.
_ONE_LAYER = {**_TRANSFORMER, "num_hidden_layers": 1}
# As t2t-import makes them: Marian's and Hugging Face's, and M2M100.
_MARIAN = {
    **_ONE_LAYER,
    "attention_bias": True,
    "ffn_activation": "swish",
    "softmax_bias": True,
    "softmax_padding": False,
    "suppressed_ids": "2",
}
_HUGGING_FACE_MARIAN = {**_MARIAN, "pos": "timing_paper", "norm_epsilon": 1e-5}
_M2M100 = {
    **_ONE_LAYER,
    "attention_bias": True,
    "position_offset": 2,
    "start_id": 1,
    "norm_epsilon": 1e-5,
}
_DEEP = {**_ONE_LAYER, "num_encoder_layers": 0, "num_decoder_layers": 0}
_EXPERTS = {**_ONE_LAYER, "moe_num_experts": 4, "moe_hidden_sizes": "12"}
_UNIVERSAL = {**_TRANSFORMER, "num_rec_steps": 2, "act_max_steps": 3}
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
    "marian": ("transformer", "transformer_base_v1", _MARIAN),
    "hugging_face_marian": ("transformer", "transformer_base_v1", _HUGGING_FACE_MARIAN),
    "m2m100": ("transformer", "transformer_base_v3", _M2M100),
    "classifier": ("transformer_encoder", "transformer_base_v3", _ONE_LAYER),
    "regressor": ("transformer_regressor", "transformer_base_v3", _ONE_LAYER),
    "ssru": ("transformer", "transformer_student_tiny_ssru", _DEEP),
    "experts": ("transformer", "transformer_moe_base", _EXPERTS),
    "universal": ("universal_transformer", "universal_transformer_base", _UNIVERSAL),
    "adaptive": ("universal_transformer", "adaptive_universal_transformer_base", _UNIVERSAL),
    "evolved": ("evolved_transformer", "evolved_transformer_base", _DEEP),
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
# One kind for each set of layers, for what takes seconds: tracing, compiling, fitting.
TRACED = (
    *("post_norm", "hugging_face_marian", "m2m100", "classifier", "regressor", "ssru", "experts"),
    *("adaptive", "evolved", "extended_neural_gpu", "luong", "byte_net", "conv_s2s", "moe_lstm"),
    *("gnmt", "deep_att"),
)
# Without those that have the layers of post_norm with other options, for what no option changes:
# how weights are drawn, saved and typed, and how layers drop out.
LAYERS = tuple(kind for kind in TRACED if kind not in ("hugging_face_marian", "m2m100"))
# One layer is traced in half the time; what follows from several is for the kinds not here.
SHALLOW = {
    **{
        kind: {"num_hidden_layers": 1}
        for kind in ("post_norm", "pre_norm", "luong", "neural_gpu", "extended_neural_gpu")
    },
    "adaptive": {"act_max_steps": 2},
    "gnmt": {"num_hidden_layers": 2},  # which it needs
    "deep_att": {"num_encoder_layers": 1},
}
# Sources and targets of unlike lengths, as they leave the pipeline: EOS (1), then padding.
BATCH = {
    "inputs": np.array(
        [[5, 9, 2, 12, 7, 3, 1], [8, 8, 1, 0, 0, 0, 0], [4, 11, 6, 2, 1, 0, 0]], np.int32
    ),
    "targets": np.array([[3, 10, 1, 0, 0, 0], [6, 2, 9, 12, 4, 1], [7, 1, 0, 0, 0, 0]], np.int32),
}
# Attention, and recurrence: for what every change is held to.
QUICK = ("post_norm", "luong")
VOCAB_SIZE = 13


def kinds(quick: Container[str] = QUICK, integration: Container[str] = TRACED) -> list[Any]:
    """Returns all kinds as parameters of tests: quick ones, some for CI, the others by name."""
    marks = pytest.mark
    return [
        kind
        if kind in quick
        else pytest.param(kind, marks=marks.integration if kind in integration else marks.slow)
        for kind in KINDS
    ]


def make_model(
    kind: str,
    inputs_vocab_size: int = VOCAB_SIZE,
    targets_vocab_size: int = VOCAB_SIZE,
    **changes: Any,
) -> Seq2Seq:
    """Returns a model of a kind, with changed hparams."""
    model_name, hparams_set, small = KINDS[kind]
    hparams = registry.hparams(hparams_set).copy(**{**small, **changes})
    with without_initial_values():
        model = registry.model(model_name)(hparams, inputs_vocab_size, targets_vocab_size)
    return with_noise(model)


def with_noise(model: Seq2Seq, scale: float = 2.0) -> Seq2Seq:
    """Gives a model weights that are the same on every machine; returns the model.

    By default they are larger than a fresh model's, so that no part is without effect.
    """
    for i, variable in enumerate(model.trainable_variables):
        noise = np.random.RandomState(i).normal(size=variable.shape)
        noise *= scale / variable.shape[0] ** 0.5
        variable.assign(noise + (variable.name == "gamma"))
    return model


def without_values(name: str, hparams_set: str, *vocab_sizes: int, **changes: Any) -> Seq2Seq:
    """Returns a registered model whose variables have shapes but no values, to be counted."""
    # A graph's variables have no values before a session runs.
    with tf.Graph().as_default(), without_initial_values():
        return registry.model(name)(hparams_set, *vocab_sizes, **changes)


@functools.cache
def model_of(kind: str, **changes: Any) -> Seq2Seq:
    """Returns `make_model`'s, made once for all tests: they must leave its weights alone."""
    return make_model(kind, **changes)


@functools.cache
def logits_of_kind(kind: str) -> np.ndarray:
    """Returns the logits of `model_of(kind)` for `BATCH`, computed once for all tests."""
    return possible(model_of(kind)(BATCH))


def make_untrained(kind: str, targets_vocab_size: int = VOCAB_SIZE, **changes: Any) -> Seq2Seq:
    """Returns a model of a kind with the initial weights of a training."""
    name, hparams_set, small = KINDS[kind]
    keras.utils.set_random_seed(1)
    settings = {**small, **changes}
    return registry.model(name)(hparams_set, VOCAB_SIZE, targets_vocab_size, **settings)


def assert_beams_are_the_whole(model: Seq2Seq, inputs: np.ndarray, terms: int) -> None:
    """Compares the logits of steps with those of whole targets, for the beams of `inputs` [B, S].

    Beams have prefixes of their own; room is grown; beams are exchanged on the way.
    """
    batch, beams, length = len(inputs), 3, 6
    targets = np.random.RandomState(0).randint(2, 13, (batch, beams, length)).astype(np.int32)
    order = np.arange(beams)[::-1]
    flat = {"inputs": np.repeat(inputs, beams, axis=0), "targets": targets.reshape(-1, length)}
    whole = possible(model(flat)).reshape(batch, beams, length, -1)
    state = model.start_decoding(inputs, beams, 2)
    for step in range(length):
        if step == 2:
            state = model.grow(state, 5)
        if step == 4:
            hypothesis = keras.tree.map_structure(
                lambda part: ops.take(part, order, axis=1), state.hypothesis
            )
            state = model.grow(state._replace(hypothesis=hypothesis), 8)
            targets, whole = targets[:, order], whole[:, order]
        ids = targets[:, :, step - 1]  # at step 0 the last ones, which must be ignored
        logits, state = model.decode_step(ids, ops.convert_to_tensor(step), state)
        assert_close(possible(logits), whole[:, :, step], terms, scale=np.abs(whole).max())


def assert_reads_earlier_targets_alone(
    logits: Callable[[np.ndarray], np.ndarray], targets: np.ndarray, reads: bool = True
) -> None:
    """Changes some of `targets` [B, T]: no earlier logit may change, and the next one must.

    Args:
        logits: returns the logits of targets.
        targets: ids.
        reads: False: the model does not read its targets at all.
    """
    before = logits(targets)
    for position in (0, 2, 4):
        changed = targets.copy()
        changed[:, position] = 8
        after = logits(changed)
        np.testing.assert_array_equal(before[:, : position + 1], after[:, : position + 1])
        if reads:
            assert np.abs(before - after)[:, position + 1].max() > 1e-3
        else:
            np.testing.assert_array_equal(before, after)


def possible(logits: Any) -> np.ndarray:
    """Returns logits of which those of ids that cannot occur are 0: they would widen all bounds."""
    values = ops.convert_to_numpy(logits)
    return np.where(values == EXCLUDED, values.dtype.type(0), values)


def assert_steps_are_the_whole(model: Seq2Seq, features: dict[str, np.ndarray]) -> None:
    """Compares the logits of steps with those of the whole targets [B, T]."""
    whole = possible(model(features))
    batch, length = features["targets"].shape
    state = model.start_decoding(features["inputs"], 1, length)
    ids = np.zeros((batch, 1), np.int32)
    for step in range(length):
        logits, state = model.decode_step(ids, ops.convert_to_tensor(step), state)
        terms = terms_of(model, features["inputs"].shape[1])
        assert_close(possible(logits[:, 0]), whole[:, step], terms, scale=np.abs(whole).max())
        ids = features["targets"][:, step : step + 1]
