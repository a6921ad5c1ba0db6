"""ByteNet against T2T's recorded numbers, and what its state and its unfolding are."""

import math

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.model_kinds import make_model
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.models.seq2seq import shift_right
from t2t_lite.systems.byte_net import ByteNet

UNIT = "bytenet_internal"


def assign_chain(chain, units, prefix):
    """Sets a `ConvolutionChain` to the recorded weights of T2T's `conv_block`."""
    for i, (convolution, norm) in enumerate(zip(chain.convolutions, chain.norms, strict=True)):
        kernel = units[f"{prefix}/conv_block_{i}_single/kernel"]
        convolution.kernel.assign(kernel.reshape(convolution.kernel.shape))
        assign_norm(norm, units, f"{prefix}/conv_block_norm_{i}")


def assign_norm(norm, units, prefix):
    norm.gamma.assign(units[f"{prefix}/layer_norm_scale"])
    norm.beta.assign(units[f"{prefix}/layer_norm_bias"])


def test_layers_compute_what_those_of_t2t_do(golden):
    """T2T pads both sides to 50 positions, all of which its encoder sees."""
    units = np.load(golden / "compared/units/units_conv.npz")
    model = ByteNet("bytenet_base", 3, 3, hidden_size=9, num_hidden_layers=2, num_block_repeat=1)
    weights = f"{UNIT}/weights/bytenet"
    for side in ("encoder", "decoder"):
        (block,) = getattr(model, side).blocks
        assign_norm(block.norm, units, f"{weights}/{side}/repeat_0/lnorm")
        assign_chain(block.chain, units, f"{weights}/{side}/repeat_0/residual_conv")
    assign_chain(model.decoder.first, units, f"{weights}/conv_block")

    x, targets = (units[f"{UNIT}/{name}"][:, :, 0] for name in ("x", "targets"))
    x, targets = (np.pad(a, [(0, 0), (0, 50 - a.shape[1]), (0, 0)]) for a in (x, targets))
    encoded = model.encoder.blocks[0](x)
    y = model.decoder.first(ops.concatenate([encoded, shift_right(targets)], axis=-1))
    y = model.decoder.blocks[0](y)
    wanted = units[f"{UNIT}/out"][:, :, 0]
    assert_close(y, wanted, terms_of(model, 50))


@pytest.mark.parametrize("kind", ["byte_net", "byte_net_t2t"])
def test_a_sentence_is_unfolded_by_its_own_length(kind):
    """Not by the batch's longest; its positions beyond the source are in use."""
    model = make_model(kind, unfolding=1.5)
    inputs = np.array([[5, 9, 2, 12, 7, 1], [8, 4, 3, 1, 0, 0]], np.int32)
    encoded = ops.convert_to_numpy(model.encoder.encode(inputs))
    assert encoded.shape == (2, 9, 16)
    used = np.abs(encoded).max(axis=2) > 1e-3
    assert used.sum(axis=1).tolist() == [9, 6]
    alone = model.encoder.encode(inputs[1:, :4])
    assert_close(encoded[1, :6], alone[0], terms_of(model, 9))
    np.testing.assert_array_equal(model.encoder(inputs), encoded[:, :6])


def test_targets_beyond_the_unfolding_see_zeros():
    model = make_model("byte_net")
    features = {"inputs": np.array([[5, 1]]), "targets": np.array([[3, 4, 5, 6, 7, 1]])}
    logits = ops.convert_to_numpy(model(features))
    encoded = np.zeros((1, 6, 16), np.float32)
    encoded[:, :2] = model.encoder.encode(features["inputs"])
    x = shift_right(model.targets_embedding(features["targets"])) + encoded
    for block in model.decoder.blocks:
        x = block(x)
    wanted = model.output_projection(ops.relu(model.decoder.head(x)))
    assert_close(logits, wanted, terms_of(model, 6))


@pytest.mark.integration
def test_the_sizes_of_the_paper_set():
    """No count is published; 30 blocks in each stack have 269 million parameters.

    A hypothesis has 372 d numbers: (k - 1) times the dilations, which sum up to 186.
    """
    d, repeats = 800, 6
    norms = 2 * (2 * d + d + d)
    block = norms + (2 * d * d + d) + (3 * d * d + d) + (d * 2 * d + 2 * d)
    head = 2 * d * 2 * d + 2 * d
    embeddings = (323 + 2 * 296) * 2 * d
    assert registry.hparams("bytenet_paper").num_block_repeat == repeats
    with tf.Graph().as_default():  # variables without values
        model = ByteNet("bytenet_paper", 323, 296, num_block_repeat=1)
        state = model.start_decoding(ops.ones((2, 10), "int32"), 3, 100)
    count = sum(math.prod(variable.shape) for variable in model.trainable_variables)
    assert count == 10 * block + head + embeddings
    assert round(repeats * 10 * block / 1e6) == 269
    numbers = sum(math.prod(window[0].shape[2:]) for window in state.hypothesis)
    assert repeats * numbers == 372 * d
    assert state.sentence.shape == (2, 13, 2 * d)
