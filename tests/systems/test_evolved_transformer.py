"""The Evolved Transformer: its layers, sizes and sets."""

import numpy as np
import pytest
from keras import ops

from support.model_kinds import assert_steps_are_the_whole, make_model, model_of, without_values


@pytest.mark.integration
@pytest.mark.parametrize(
    ("hparams_set", "published"),
    [
        ("evolved_transformer_base", 64e6),
        pytest.param("evolved_transformer_big", 222e6, marks=pytest.mark.integration),
    ],
)
def test_published_sets_have_the_published_parameters(hparams_set, published):
    """So et al. 2019, with T2T's vocabulary of WMT EN-DE."""
    vocab = 33_288
    model = without_values("evolved_transformer", hparams_set, vocab, vocab)
    d = model.hparams.hidden_size
    attention, ffn, norm = 4 * d * d, 8 * d * d + 5 * d, 2 * d
    wide_norm = 4 * norm  # over 4D features
    glu = 2 * (d * d + d)
    branches = (4 * d * d + 4 * d) + (3 * d * d // 2 + d // 2)  # dense, convolution 3
    branches += wide_norm + (9 * 4 * d + 2 * d * d + d // 2)  # separable 9
    encoder = glu + branches + attention + ffn + 4 * norm
    branches = (11 * d + 2 * d * d + 2 * d) + (7 * d + d * d // 2 + d // 2)  # separable 11 and 7
    branches += 2 * norm + (7 * 2 * d + 2 * d * d + d)
    decoder = 4 * attention + branches + ffn + wide_norm + 5 * norm
    assert model.count_params() == vocab * d + 3 * encoder + 4 * decoder + 2 * norm
    assert model.count_params() == pytest.approx(published, rel=0.01)


@pytest.mark.integration
def test_the_first_self_attention_has_up_to_16_heads():
    for heads, wide in ((2, 4), (8, 16), (16, 16)):
        layer = make_model("evolved", num_heads=heads, num_hidden_layers=1).decoder.stack[0]
        assert [attention.heads for attention in layer.self_attentions] == [wide, heads]
        assert [attention.heads for attention in layer.source_attentions] == [heads, heads]


def test_an_encoder_layer_sees_as_far_as_its_convolutions():
    """9 + 3 inputs: 5 positions to each side, before any self-attention."""
    layer = model_of("evolved").encoder.stack[0]
    x = np.random.RandomState(0).normal(size=(1, 15, 16)).astype(np.float32)
    changed = x.copy()
    changed[:, 7] += 1.0
    one, other = (
        ops.convert_to_numpy(layer._branches(layer.gated(y)[..., :16], None, False))
        for y in (x, changed)
    )
    assert np.flatnonzero(np.abs(one - other).max(axis=(0, 2))).tolist() == [*range(2, 13)]


@pytest.mark.integration
def test_post_norm_works_too(features):
    """T2T's layers take the Transformer's sequences of steps."""
    post_norm = {"layer_preprocess_sequence": "none", "layer_postprocess_sequence": "dan"}
    model = make_model("evolved", num_hidden_layers=1, **post_norm)
    assert_steps_are_the_whole(model, features)
