"""Decoding with matrices that are stored in 16 bits."""

import numpy as np
import pytest
from keras import ops

from support.model_kinds import LAYERS, kinds, model_of, possible
from support.rounding import assert_close
from support.terms import roundings_of
from t2t_lite.layers.attention import SelfAttention
from t2t_lite.layers.base import narrow_matrices
from t2t_lite.models.copies import copy_weights, empty_copy, in_dtype
from t2t_lite.models.hparams_model import _POLICIES
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble

pytestmark = pytest.mark.integration

IDS = np.array([[0, 0], [9, 4], [3, 12]], np.int32)


def steps_of(model, inputs, ids=IDS):
    """The logits [steps, B, K, V] of two decoding steps, in which the hypotheses become unequal."""
    logits, state = [], model.start_decoding(inputs, 2, 2)
    for step, last in enumerate((np.zeros_like(ids), ids)):
        found, state = model.decode_step(last, ops.convert_to_tensor(step), state)
        logits.append(possible(ops.cast(found, "float32")))
    return np.array(logits)


@pytest.mark.bfloat16
@pytest.mark.parametrize("kind", kinds(integration=LAYERS))
def test_every_model_decodes_in_bfloat16(kind, features):
    """As a copy and as trained; for one sentence as for three. Matrices are stored in the type."""
    inputs = features["inputs"][:, :4]
    narrow, mixed = in_dtype(model_of(kind), "bfloat16"), model_of(kind, dtype="bfloat16")
    exact, found = (steps_of(model, inputs) for model in (model_of(kind), narrow))
    roundings = roundings_of(narrow, inputs.shape[1])
    for others in (exact, steps_of(mixed, inputs)):
        assert_close(found, others, roundings, dtype="bfloat16")
    alone = steps_of(narrow, inputs[:1], IDS[:1])
    assert_close(found[:, :1], alone, roundings, dtype="bfloat16")

    for old, new in zip(model_of(kind).weights, narrow.weights, strict=True):
        assert old.dtype == "float32"
        if len(new.shape) == 1:
            assert new.dtype == "float32", new.path
    sizes = {"float32": 0, "bfloat16": 0}
    for weight in narrow.weights:
        sizes[weight.dtype] += np.prod(weight.shape)
    # ConvS2S's weight norm is in float32; a search computes the normed kernels once.
    assert sizes["bfloat16"] > (0 if kind == "conv_s2s" else 0.75) * sum(sizes.values())


@pytest.mark.float16
def test_a_search_finds_nearly_the_same_scores(features):
    inputs = features["inputs"]
    model = model_of("pre_norm")
    _, exact = BeamSearch(model, 3)(inputs, 6)
    search = BeamSearch(in_dtype(model, "float16"), 3)
    _, scores = search(inputs, 6)
    assert scores.dtype == np.float32
    roundings = roundings_of(model, inputs.shape[1])
    assert_close(scores, exact, roundings, dtype="float16")
    _, alone = search(inputs[1:2], 6)
    assert_close(alone, scores[1:2], roundings, dtype="float16")


@pytest.mark.bfloat16
def test_float32_of_a_model_trained_in_bfloat16(features):
    exact = model_of("pre_norm")
    copy = in_dtype(model_of("pre_norm", dtype="bfloat16"), "float32")
    assert {weight.dtype for weight in copy.weights} == {"float32"}
    inputs = features["inputs"]
    np.testing.assert_array_equal(steps_of(copy, inputs), steps_of(exact, inputs))


@pytest.mark.bfloat16
def test_copies_are_as_narrow_as_the_model(features):
    """Another device decodes with a copy; the outputs must not depend on the device."""
    inputs = features["inputs"]
    narrow = in_dtype(model_of("pre_norm"), "bfloat16")
    copy = empty_copy(narrow)
    copy_weights(narrow, copy)
    assert [w.dtype for w in copy.weights] == [w.dtype for w in narrow.weights]
    np.testing.assert_array_equal(steps_of(copy, inputs), steps_of(narrow, inputs))
    wide = empty_copy(model_of("pre_norm"))
    assert {weight.dtype for weight in wide.weights} == {"float32"}


def test_square_kernels_are_transposed():
    model = model_of("pre_norm")
    narrow = in_dtype(model, "bfloat16")
    old = model.decoder.stack[0].source_attention.query
    new = narrow.decoder.stack[0].source_attention.query
    assert old.kernel.shape == new.kernel.shape
    assert new.is_transposed
    assert not old.is_transposed
    np.testing.assert_array_equal(
        ops.cast(new.kernel, "float32"),
        ops.cast(ops.transpose(ops.cast(old.kernel, "bfloat16")), "float32"),
    )
    back = empty_copy(narrow, "float32")
    copy_weights(narrow, back)
    np.testing.assert_array_equal(
        back.decoder.stack[0].source_attention.query.kernel, ops.cast(new.matrix(), "float32")
    )


@pytest.mark.float16
def test_an_ensemble_of_unlike_dtypes(features):
    inputs = features["inputs"]
    parts = model_of("pre_norm"), model_of("luong")
    narrow = Ensemble([in_dtype(parts[0], "float16"), parts[1]])
    found, exact = (steps_of(model, inputs) for model in (narrow, Ensemble(parts)))
    assert_close(found, exact, roundings_of(parts[0], inputs.shape[1]), dtype="float16")


def test_layers_of_float32_are_never_narrow():
    with narrow_matrices():
        layer = SelfAttention(8, 2)
    assert layer.qkv.kernel.dtype == "float32"
    assert layer.qkv.kernel.shape == (8, 24)


def test_the_choices_are_those_of_models():
    for dtype in _POLICIES:
        assert DecodeHParams(dtype=dtype).dtype == dtype
