"""Whatever reads a decoder's self-attention knows `decoder_self=ssru`, or refuses it by name."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.model_kinds import assert_steps_are_the_whole, make_model, model_of
from t2t_lite.decoding import ctranslate2_model
from t2t_lite.errors import UsageError, UserError
from t2t_lite.interop.imports import t2t_variables
from t2t_lite.layers.guided_attention import GuidedAttention
from t2t_lite.layers.ssru import SSRU
from t2t_lite.models.attention_maps import attention_maps

SSRU_SELF = {"decoder_self": "ssru"}


def test_maps_are_of_the_layers_that_attend():
    maps = attention_maps(model_of("ssru"), [5, 7, 1], [4, 1])
    assert {kind: [layer.shape for layer in layers] for kind, layers in maps.items()} == {
        "encoder": [(2, 3, 3)],
        "encoder_decoder": [(2, 2, 3)],
    }


def test_no_pair_of_targets_costs_anything():
    """Against the Transformer with the same sizes: four products of D x D become two."""
    ssru, plain = model_of("ssru").forward_flops(), model_of("post_norm", num_hidden_layers=1)
    attention, d = plain.forward_flops(), plain.hparams.hidden_size
    assert ssru.target_target == 0 < attention.target_target
    assert ssru.target == attention.target - 2 * (4 - 2) * d * d
    assert (ssru.source, ssru.target_source) == (attention.source, attention.target_source)


def test_alignments_guide_the_last_attention_to_the_source():
    model = make_model("ssru", guided_alignment_weight=0.5)
    assert isinstance(model.decoder.stack[-1].source_attention, GuidedAttention)
    seen = []
    with model.hook_attention(seen.append):
        model({"inputs": np.array([[4, 1]]), "targets": np.array([[5, 6, 1]])})
    assert seen[0].shape == (1, 3, 2)


@pytest.mark.integration
def test_recomputing_activations_leaves_gradients_alone(features):
    def gradients(**changes):
        model = make_model("ssru", layer_prepostprocess_dropout=0.0, **changes)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(features, training=True) ** 2)
        return tape.gradient(loss, [weight.value for weight in model.trainable_variables])

    for one, other in zip(gradients(), gradients(recompute_activations=True), strict=True):
        np.testing.assert_allclose(*(ops.convert_to_numpy(g) for g in (one, other)), rtol=1e-4)


@pytest.mark.integration
def test_a_universal_transformer_has_a_state_for_every_recurrent_step(features):
    assert_steps_are_the_whole(make_model("universal", **SSRU_SELF), features)


@pytest.mark.integration
def test_a_prepended_source_is_read_in_order(features):
    changes = {**SSRU_SELF, "prepend_mode": "prepend_inputs_masked_attention"}
    assert_steps_are_the_whole(make_model("post_norm", **changes), features)


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("evolved", {}, "decoder_self=ssru: the layers of an Evolved"),
        (
            "post_norm",
            {"prepend_mode": "prepend_inputs_full_attention"},
            "decoder_self=ssru reads only earlier .* prepend_mode=prepend_inputs_full_attention",
        ),
    ],
)
def test_models_that_cannot_have_it_say_so(kind, changes, message):
    with pytest.raises(UsageError, match=message):
        make_model(kind, **SSRU_SELF, **changes)


@pytest.mark.parametrize(
    "read", [ctranslate2_model.require_convertible, lambda model: [*t2t_variables.parts_of(model)]]
)
def test_other_toolkits_without_the_layer_refuse_it_by_name(read):
    assert isinstance(model_of("ssru").decoder.stack[0].attention, SSRU)
    with pytest.raises(UserError, match="hparam decoder_self=ssru"):
        read(model_of("ssru"))
