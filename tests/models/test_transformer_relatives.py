"""T2T's models that are built of the Transformer's parts, against numbers recorded from T2T."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support import t2t_weights
from support.rounding import assert_close
from support.searches import searches, up_to_eos
from support.terms import terms_of
from t2t_lite.interop.imports import t2t_variables

FOLDERS = ("evolved_transformer", "universal_transformer", "universal_transformer_act")


@pytest.fixture(scope="module", params=FOLDERS)
def folder(request, golden):
    return golden / "compared" / request.param


@pytest.fixture(scope="module")
def restored(folder):
    """The recorded model and its settings."""
    return t2t_weights.golden_transformer(folder)


@pytest.mark.integration
def test_computes_what_t2t_computes(folder, restored):
    model, _ = restored
    recorded = np.load(folder / "forward.npz")
    for batch in ("a", "b/1"):  # all sentences, and one of them alone without padding
        inputs, targets = recorded[f"{batch}/inputs"], recorded[f"{batch}/targets"]
        terms = terms_of(model, max(inputs.shape[1], targets.shape[1]))
        encoder_output, padding = model.encode(inputs)
        hidden = ops.convert_to_numpy(model.decoder(targets, (encoder_output, padding)))
        logits = ops.convert_to_numpy(model({"inputs": inputs, "targets": targets}))
        for found, name, real in (
            (ops.convert_to_numpy(encoder_output), "encoder_output", inputs != 0),
            (hidden, "decoder_output", targets != 0),
            (logits, "logits", targets != 0),
        ):
            wanted = recorded[f"{batch}/{name}"][real]
            assert_close(found[real], wanted, terms, err_msg=name)


@pytest.mark.integration
def test_gradients_are_those_of_t2t(folder, restored):
    model, settings = restored
    forward, recorded = np.load(folder / "forward.npz"), np.load(folder / "gradients.npz")
    features = {name: forward[f"a/{name}"] for name in ("inputs", "targets")}
    real = features["targets"] != 0
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["targets"][real], tf.boolean_mask(model(features), real)
        )
        loss = tf.reduce_mean(losses)
    length = max(ids.shape[1] for ids in features.values())
    terms = 2 * terms_of(model, length) + features["targets"].size  # there, back, and all tokens
    assert_close(loss, recorded["loss"], terms)
    theirs = {n.removeprefix("grad/"): recorded[n] for n in recorded if n.startswith("grad/")}
    pairs = t2t_variables.matched(model, theirs, settings["target_space_id"])
    gradients = tape.gradient(loss, [variable.value for variable, _ in pairs])
    assert len(pairs) == len(model.trainable_variables)
    for (variable, wanted), found in zip(pairs, gradients, strict=True):
        assert_close(tf.convert_to_tensor(found), wanted, terms, err_msg=variable.path)


@pytest.mark.integration
@pytest.mark.parametrize("folder", ["universal_transformer_act"], indirect=True)
def test_decodes_as_t2t(folder, restored):
    """T2T's Universal Transformer recomputes all positions at every step; ours has a cache."""
    model, settings = restored
    recorded = np.load(folder / "decode.npz")
    inputs = recorded["inputs"]

    search = searches(model)
    compared = 0
    for variant, how in settings["decode"].items():
        top = how["top_beams"]
        find = search(how["beam_size"], how["alpha"], top == 1)
        limits = np.full(len(inputs), how["decode_length"])
        ids, scores = find(inputs, limits)
        expected = recorded[f"{variant}/outputs"].reshape(len(inputs), top, -1)
        stable = recorded[f"{variant}/stable"].reshape(len(inputs), top)
        for b, k in zip(*np.nonzero(stable), strict=True):
            assert up_to_eos(ids[b, k]) == up_to_eos(expected[b, k]), (variant, b, k)
            compared += 1
        if f"{variant}/scores" in recorded:
            wanted = recorded[f"{variant}/scores"].reshape(len(inputs), -1)[:, :top]
            length = max(inputs.shape[1], how["decode_length"])
            terms = terms_of(model, length) + length * model.targets_vocab_size
            assert_close(scores[:, :top], wanted, terms)
        if top == 1:  # and those that T2T decoded alone
            limits = (inputs != 0).sum(axis=1) + how["extra_length"]
            ids, _ = find(inputs, limits)
            alone = recorded[f"{variant}_single/outputs"]
            for b in range(len(inputs)):
                wanted = up_to_eos(alone[b, : limits[b]])
                assert up_to_eos(ids[b, 0, : limits[b]]) == wanted, (variant, b)
    assert compared == len(inputs) * 6
