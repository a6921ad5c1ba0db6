"""ConvS2S against the numbers of fairseq's `fconv`."""

import json
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.model_kinds import make_model, without_values
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.hparams.conv_s2s import ConvS2SHParams, LayerSize
from t2t_lite.models.attention_maps import with_attention
from t2t_lite.search.beam_search import greedy_search
from t2t_lite.systems.conv_s2s import ConvS2S
from t2t_lite.systems.conv_s2s_layers import scale_gradient
from t2t_lite.training.losses import summed_loss

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


# Positions that the recorded models take.
LENGTH = 44


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
        "encoder.embed_positions.weight": model.encoder.position.table,
        "decoder.embed_tokens.weight": model.targets_embedding.matrix,
        "decoder.embed_positions.weight": model.decoder.position.table,
        "decoder.fc3.bias": model.output_projection.bias,
    }
    for side in ("encoder", "decoder"):
        named |= dense_names(f"{side}.fc1", getattr(model, side).first)
        named |= dense_names(f"{side}.fc2", getattr(model, side).end)
        for i, layer in enumerate(getattr(model, side).stack):
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
        named["decoder.fc3.weight_g"] = model.output_projection.scale
    return named


def as_ours(name, array, shape):
    """Fairseq's array in the layout of our variable: linear maps are [out, in] there."""
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
    names = "weights", "decode", "forward", "gradients"
    arrays = {name: dict(np.load(folder / f"{name}.npz")) for name in names}
    hparams = registry.hparams("conv_s2s_iwslt_de_en").copy(
        hidden_size=config["embed_dim"],
        max_length=LENGTH,
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
    unlike = 2 * LENGTH - config["max_source_positions"] - config["max_target_positions"]
    assert model.count_params() == config["parameters"] + unlike * config["embed_dim"]
    return Recorded(request.param, model, arrays["forward"], arrays["gradients"], arrays["decode"])


@pytest.mark.integration
def test_logits_and_attention_are_those_of_fairseq(recorded):
    """In a batch and alone."""
    model, forward = recorded.model, recorded.forward
    attending = sum(model.hparams.attends()) / len(model.decoder.stack)
    for batch in ("a", *(f"b/{i}" for i in range(5))):
        features = {name: forward[f"{batch}/{name}"] for name in ("inputs", "targets")}
        logits, attention = with_attention(model, lambda f=features: model(f))
        real = features["targets"] != 0
        terms = terms_of(model, max(ids.shape[1] for ids in features.values()))
        assert_close(logits[real], forward[f"{batch}/logits"][real], terms)
        # fairseq divides by the layers without attention, too.
        wanted = forward[f"{batch}/attention"][real] / attending
        assert_close(attention[real], wanted, terms)
        sums = np.sum(attention[real], axis=-1)
        assert_close(sums, np.ones_like(sums), terms=2 * attention.shape[2])
        memory, real = model.encoder.encode(features["inputs"]), features["inputs"] != 0
        assert_close(memory.keys[real], forward[f"{batch}/encoder_out"][real], terms)
        assert_close(memory.values[real], forward[f"{batch}/encoder_values"][real], terms)


@pytest.mark.integration
def test_gradients_are_those_of_fairseq(recorded):
    model, wanted = recorded.model, recorded.gradients
    features = {name: recorded.forward[f"a/{name}"] for name in ("inputs", "targets")}
    with tf.GradientTape() as tape:
        loss = summed_loss(model, model.hidden(features), features["targets"])
        loss = loss / np.count_nonzero(features["targets"])
    named = variables(model)
    terms = 2 * terms_of(model, LENGTH) + features["targets"].size  # there, back, and all tokens
    model_gradients = tape.gradient(loss, [variable.value for variable in named.values()])
    for (name, variable), gradient in zip(named.items(), model_gradients, strict=True):
        theirs = as_ours(name, wanted[f"grad/{name}"], variable.shape)
        ours = ops.convert_to_numpy(tf.convert_to_tensor(gradient))
        assert_close(ours, theirs, terms, err_msg=name)
    assert_close(loss, wanted["loss"], terms)


@pytest.mark.integration
def test_greedy_search_finds_the_ids_of_fairseq(recorded):
    decode = recorded.decode
    wanted = decode["greedy/outputs"]
    assert decode["greedy/stable"].all()
    search = greedy_search(recorded.model)
    ids, scores = search(decode["inputs"], wanted.shape[1])
    np.testing.assert_array_equal(ids[:, 0], wanted)
    assert_close(scores[:, 0], decode["greedy/scores"], terms_of(recorded.model, LENGTH))
    alone, _ = search(decode["inputs"][3:4, :6], wanted.shape[1])
    np.testing.assert_array_equal(alone[0, 0], wanted[3][: alone.shape[2]])


# ---- sizes


def test_layers_are_written_as_groups():
    hparams = ConvS2SHParams(encoder_layers="512x3*2+ 1024x5 +8x1x0*1", num_hidden_layers=2)
    assert hparams.encoder_sizes() == [*[LayerSize(512, 3)] * 2, LayerSize(1024, 5), (8, 1, 0)]
    assert hparams.decoder_sizes() == [LayerSize(512, 3)] * 2  # of hidden_size
    assert hparams.attends() == [True, True]
    assert hparams.copy(decoder_attention="0+1").attends() == [False, True]


def weight_normed(inputs, outputs):
    """Parameters of a linear map: directions, lengths, biases."""
    return inputs * outputs + 2 * outputs


# Width and kernel of the layers of both stacks.
PUBLISHED = {
    "conv_s2s_wmt_en_de": [(512, 3)] * 9 + [(1024, 3)] * 4 + [(2048, 1)] * 2,
    "conv_s2s_wmt_en_fr": (
        [(512, 3)] * 6 + [(768, 3)] * 4 + [(1024, 3)] * 3 + [(2048, 1), (4096, 1)]
    ),
}


def test_published_sets_have_the_layers_of_the_paper():
    for name, sizes in PUBLISHED.items():
        hparams = registry.hparams(name)
        for layers in (hparams.encoder_sizes(), hparams.decoder_sizes()):
            assert layers == [LayerSize(*size) for size in sizes], name


@pytest.mark.integration
def test_a_published_set_has_the_parameters_of_its_layers():
    """EN-DE has the 216 million that Wu et al. (2019, "Pay Less Attention") give, table 1.

    40,000 joint merges leave some 42,000 subwords in each language: 214 million; 216 are 43,137.
    """
    vocabulary, size, softmax = 42_000, 768, 512
    sizes = PUBLISHED["conv_s2s_wmt_en_de"]
    layers = 0
    below = sizes[0][0]
    for width, kernel_size in sizes:
        layers += weight_normed(kernel_size * below, 2 * width)
        layers += weight_normed(below, width) if below != width else 0
        below = width
    start_and_end = 2 * weight_normed(size, sizes[0][0]) + sum(
        weight_normed(below, end) for end in (size, softmax)
    )
    attention = sum(weight_normed(width, size) + weight_normed(size, width) for width, _ in sizes)
    embeddings = 2 * (vocabulary + 1024) * size  # words and positions
    wanted = 2 * layers + start_and_end + attention + embeddings
    wanted += weight_normed(softmax, vocabulary)

    count = without_values("conv_s2s", "conv_s2s_wmt_en_de", vocabulary, vocabulary).count_params()
    assert count == wanted
    assert round(count / 1e6) == 214
    by_subword = 2 * size + softmax + 2
    assert round(vocabulary + (216e6 - count) / by_subword) == 43_137


def test_weights_start_with_the_variance_of_the_paper():
    model = ConvS2S("conv_s2s_iwslt_de_en", 1000, 1000, dropout=0.2)
    layer = model.decoder.stack[1]
    for kernel, stddev in (
        (model.inputs_embedding.matrix, 0.1),
        (model.decoder.position.table, 0.1),
        (model.decoder.first.kernel, (0.8 / 256) ** 0.5),
        (layer.convolution.kernel, (4 * 0.8 / (3 * 256)) ** 0.5),
        (layer.attention.query.kernel, (1 / 256) ** 0.5),
        (model.softmax_embedding.matrix, (0.8 / 256) ** 0.5),
    ):
        assert abs(np.std(kernel) / stddev - 1) < 0.02
    lengths = np.linalg.norm(model.softmax_embedding.matrix, axis=1)
    assert_close(
        model.output_projection.scale, lengths, terms=model.softmax_embedding.matrix.shape[1]
    )


def test_the_gradient_is_scaled_and_the_value_is_not():
    x = tf.constant([3e-8, 1.1, -7e20])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scale_gradient(x, 0.3)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(tape.gradient(y, x), np.full(3, np.float32(0.3)))


def test_the_state_of_a_search_is_what_convolutions_see(features):
    model = make_model("conv_s2s")
    state = model.start_decoding(features["inputs"], 4, 100)
    shapes = [window.shape for window in state.hypothesis]
    assert shapes == [(3, 4, 2, 12), (3, 4, 1, 12), (3, 4, 0, 16)]
    assert model.grow(state, 200) is state
