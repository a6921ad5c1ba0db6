"""Options of the Transformer that the paper tried: whole sequences and steps agree."""

import numpy as np
import pytest
from keras import ops

from support.model_kinds import assert_steps_are_the_whole, make_model
from support.rounding import assert_close
from support.terms import terms_of

_OPTIONS = [
    {
        "attention_neighborhood": 3,
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 2,
    },
    {
        "ffn_layer": "parameter_attention",
        "parameter_attention_heads": 4,
        "parameter_attention_key_channels": 8,
        "parameter_attention_value_channels": 20,
    },
]


@pytest.mark.integration
@pytest.mark.parametrize("changes", _OPTIONS)
def test_steps_compute_what_the_whole_does(features, changes):
    model = make_model("pre_norm", **changes)
    whole = ops.convert_to_numpy(model(features))
    plain = make_model("pre_norm")(features)
    assert np.abs(whole - ops.convert_to_numpy(plain)).max() > 0.01, "without effect"
    assert_steps_are_the_whole(model, features)


@pytest.mark.integration
def test_two_layers_of_neighbourhood_3_see_two_positions_away():
    model = make_model("pre_norm", attention_neighborhood=3)
    inputs = np.array([[5, 9, 2, 12, 7, 3, 8, 1]], np.int32)
    changed = inputs.copy()
    changed[0, 0] = 4
    one, other = (ops.convert_to_numpy(model.encode(ids)[0])[0] for ids in (inputs, changed))
    differs = np.abs(one - other).max(axis=-1) > 0
    assert differs.tolist() == [True] * 3 + [False] * 5


@pytest.mark.integration
def test_padding_does_not_reach_real_positions():
    model = make_model("pre_norm", attention_neighborhood=3)
    inputs = np.array([[5, 9, 2, 1]], np.int32)
    padded = np.pad(inputs, [[0, 0], [0, 5]])
    alone, together = (ops.convert_to_numpy(model.encode(ids)[0])[0] for ids in (inputs, padded))
    assert_close(together[:4], alone, terms_of(model, 9))


@pytest.mark.integration
def test_experts_count_as_many_operations_as_a_feed_forward_layer():
    """A token's two experts have half of the filter's 24 features each; its gates are small."""
    dense = make_model("pre_norm", num_hidden_layers=2).forward_flops()
    experts = make_model("experts", num_hidden_layers=2).forward_flops()
    gates = 2 * 2 * 2 * 16 * 4  # of two layers, for logits and noise
    assert experts.source == dense.source + gates
    assert experts.target == dense.target + gates
