"""ConvS2S against the numbers of fairseq's `fconv`."""

import json
import math
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.conv_s2s import ConvS2SHParams, LayerSize
from t2t_lite.layers.conv_s2s import scale_gradient
from t2t_lite.models.conv_s2s import ConvS2S
from t2t_lite.models.seq2seq import with_attention
from t2t_lite.search.beam_search import greedy_search
from t2t_lite.training.train_step import summed_loss

# Our hparams for each of the recorded models; fairseq's sizes are in its config.json.
HPARAMS = {
    "fconv": {
        "encoder_layers": "16x3*2+24x3+32x1",
        "decoder_layers": "16x3*2+24x3+32x1",
        "decoder_out_embed_dim": 12,
    },
    "fconv_shared": {
        "encoder_layers": "18x5+18x4+22x3x2",
        "decoder_layers": "18x3+18x4x2+22x2",
        "decoder_attention": "1+0+1",
        "share_input_output_embed": True,
    },
}


class Recorded(NamedTuple):
    """A model with recorded weights, and what the original computed."""

    name: str
    model: ConvS2S
    forward: dict
    gradients: dict
    decode: dict


def dense_names(theirs, ours):
    """Names of a weight-normed linear map or convolution in fairseq, with our variables."""
    return {
        f"{theirs}.weight_v": ours.kernel,
        f"{theirs}.weight_g": ours.scale,
        f"{theirs}.bias": ours.bias,
    }


def variables(model):
    """Our variables by fairseq's names."""
    named = {
        "encoder.embed_tokens.weight": model.inputs_embedding.matrix,
        "encoder.embed_positions.weight": model.inputs_position.table,
        "decoder.embed_tokens.weight": model.targets_embedding.matrix,
        "decoder.embed_positions.weight": model.targets_position.table,
        "decoder.fc3.bias": model.softmax_bias,
    }
    for side in ("encoder", "decoder"):
        named |= dense_names(f"{side}.fc1", getattr(model, f"{side}_start"))
        named |= dense_names(f"{side}.fc2", getattr(model, f"{side}_end"))
        for i, layer in enumerate(getattr(model, f"{side}_layers")):
            named |= dense_names(f"{side}.convolutions.{i}", layer.convolution)
            if layer.shortcut is not None:
                named |= dense_names(f"{side}.projections.{i}", layer.shortcut)
            if layer.attention is not None:
                attention = f"{side}.attention.{i}"
                named |= dense_names(f"{attention}.in_projection", layer.attention.query)
                named |= dense_names(
                    f"{attention}.out_projection", layer.attention.output_projection
                )
    if model.softmax_embedding is not model.targets_embedding:
        named["decoder.fc3.weight_v"] = model.softmax_embedding.matrix
        named["decoder.fc3.weight_g"] = model.softmax_scale
    return named


def as_ours(name, array, shape):
    """fairseq's array in the layout of our variable: linear maps are [out, in] there."""
    if "embed_positions" in name:  # its first row is for padding
        return np.pad(array[1:], [(0, shape[0] - len(array) + 1), (0, 0)])
    linear = array.ndim == 2 and not name.startswith(("encoder.embed", "decoder.embed"))
    if linear and "fc3" not in name:
        array = array.T
    return array.reshape(shape)


@pytest.fixture(scope="module", params=HPARAMS)
def recorded(request, golden):
    folder = golden / f"compared/{request.param}"
    config = json.loads((folder / "config.json").read_text())
    arrays = {name: dict(np.load(folder / f"{name}.npz")) for name in ("weights", "decode")}
    arrays |= {name: dict(np.load(folder / f"{name}.npz")) for name in ("forward", "gradients")}
    hparams = registry.hparams("conv_s2s_iwslt_de_en").copy(
        hidden_size=config["embed_dim"],
        max_length=44,
        label_smoothing=0.0,
        **HPARAMS[request.param],
    )
    model = ConvS2S(hparams, config["source_vocab_size"], config["target_vocab_size"])
    named, weights = variables(model), arrays["weights"]
    aliases = {"decoder.version", "decoder.fc3.weight"} if hparams.share_input_output_embed else ()
    assert set(named) | {"decoder.version", *aliases} == set(weights)
    assert len({id(variable) for variable in named.values()}) == len(model.trainable_variables)
    for name, variable in named.items():
        variable.assign(as_ours(name, weights[name], variable.shape))
    # Our tables of positions have other numbers of rows: no row for padding, one length for both.
    unlike = 2 * 44 - config["max_source_positions"] - config["max_target_positions"]
    assert model.count_params() == config["parameters"] + unlike * config["embed_dim"]
    return Recorded(request.param, model, arrays["forward"], arrays["gradients"], arrays["decode"])


def test_logits_and_attention_are_those_of_fairseq(recorded):
    """In a batch and alone."""
    model, forward = recorded.model, recorded.forward
    attending = sum(model.hparams.attends()) / len(model.decoder_layers)
    for batch in ("a", *(f"b/{i}" for i in range(5))):
        features = {name: forward[f"{batch}/{name}"] for name in ("inputs", "targets")}
        logits, attention = with_attention(model, lambda f=features: model(f))
        real = features["targets"] != 0
        np.testing.assert_allclose(
            logits[real], forward[f"{batch}/logits"][real], rtol=1e-5, atol=1e-4
        )
        # fairseq divides by the layers without attention, too.
        wanted = forward[f"{batch}/attention"][real] / attending
        np.testing.assert_allclose(attention[real], wanted, atol=1e-5)
        assert np.abs(ops.sum(attention[real], axis=-1) - 1).max() < 1e-5
        memory, real = model.encoder.encode(features["inputs"]), features["inputs"] != 0
        np.testing.assert_allclose(
            memory.keys[real], forward[f"{batch}/encoder_out"][real], rtol=1e-5, atol=1e-4
        )
        np.testing.assert_allclose(
            memory.values[real], forward[f"{batch}/encoder_values"][real], rtol=1e-5, atol=1e-4
        )


def test_gradients_are_those_of_fairseq(recorded):
    model, wanted = recorded.model, recorded.gradients
    features = {name: recorded.forward[f"a/{name}"] for name in ("inputs", "targets")}
    with tf.GradientTape() as tape:
        loss = summed_loss(model, model.hidden(features), features["targets"])
        loss = loss / np.count_nonzero(features["targets"])
    named = variables(model)
    model_gradients = tape.gradient(loss, [variable.value for variable in named.values()])
    for (name, variable), gradient in zip(named.items(), model_gradients, strict=True):
        theirs = as_ours(name, wanted[f"grad/{name}"], variable.shape)
        ours = ops.convert_to_numpy(tf.convert_to_tensor(gradient))
        np.testing.assert_allclose(ours, theirs, atol=1e-4 * np.abs(theirs).max(), err_msg=name)
    np.testing.assert_allclose(loss, wanted["loss"], rtol=1e-5)


def test_greedy_search_finds_the_ids_of_fairseq(recorded):
    decode = recorded.decode
    wanted = decode["greedy/outputs"]
    assert decode["greedy/stable"].all()
    search = greedy_search(recorded.model)
    ids, scores = search(decode["inputs"], wanted.shape[1])
    np.testing.assert_array_equal(ids[:, 0], wanted)
    np.testing.assert_allclose(scores[:, 0], decode["greedy/scores"], atol=1e-3)
    alone, _ = search(decode["inputs"][3:4, :6], wanted.shape[1])
    np.testing.assert_array_equal(alone[0, 0], wanted[3][: alone.shape[2]])
