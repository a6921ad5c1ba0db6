"""The recurrent models against numbers recorded from their original implementations."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.search.beam_search import BeamSearch, Penalty, greedy_search

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "compared"


def t2t_lstm(name):
    """T2T's model of that name, and where each of its weights comes from."""
    settings = json.loads((GOLDEN / name / "config.json").read_text())
    hparams = registry.hparams(settings["hparams_set"]).copy(**settings["overrides"])
    model = registry.model(name)(
        hparams, settings["source_vocab_size"], settings["target_vocab_size"]
    )
    d = hparams.hidden_size
    body = f"{name}/body/{'lstm_seq2seq' if name == 'lstm_seq2seq' else 'lstm_seq2seq_bid_encoder'}"
    sources = {
        f"{name}/symbol_modality_{settings['source_vocab_size']}_{d}/input_emb/weights_0": (
            model.inputs_embedding.matrix
        ),
        f"{name}/symbol_modality_{settings['target_vocab_size']}_{d}/target_emb/weights_0": (
            model.targets_embedding.matrix
        ),
        f"{name}/symbol_modality_{settings['target_vocab_size']}_{d}/softmax/weights_0": (
            model.softmax_embedding.matrix
        ),
    }
    stacks = {f"{body}/decoder/rnn": model.decoder_cells}
    if name == "lstm_seq2seq":
        stacks[f"{body}/encoder/rnn"] = [layer.cell for layer in model.encoder_layers]
    else:
        both = f"{body}/encoder/bidirectional_rnn"
        stacks[f"{both}/fw"] = [layer.cell for layer in model.encoder_layers]
        stacks[f"{both}/bw"] = [layer.cell for layer in model.backward_layers]
    for stack, cells in stacks.items():
        for i, cell in enumerate(cells):
            for part in ("kernel", "bias"):
                variable = f"{stack}/multi_rnn_cell/cell_{i}/lstm_cell/{part}"
                sources[variable] = getattr(cell.gates, part)

    def from_original(variable, array):
        if "lstm_cell" not in variable:
            return array
        write, new, forget, read = np.split(array, 4, axis=-1)  # TensorFlow's order of the gates
        return np.concatenate([write, forget, new, read], axis=-1)

    return model, sources, from_original, settings


@pytest.fixture(params=["lstm_seq2seq", "lstm_seq2seq_bidirectional_encoder"], scope="module")
def t2t(request):
    model, sources, from_original, settings = t2t_lstm(request.param)
    recorded = np.load(GOLDEN / request.param / "weights.npz")
    assert set(recorded) == set(sources)
    assert {id(v) for v in sources.values()} == {id(v) for v in model.trainable_variables}
    for name, variable in sources.items():
        variable.assign(from_original(name, recorded[name]))
    return model, sources, from_original, settings, GOLDEN / request.param


def test_logits_are_those_of_t2t(t2t):
    model, *_, folder = t2t
    recorded = np.load(folder / "forward.npz")
    for batch in ("a", *(f"b/{i}" for i in range(5))):
        features = {side: recorded[f"{batch}/{side}"] for side in ("inputs", "targets")}
        real = features["targets"] != 0
        logits = keras.ops.convert_to_numpy(model(features))
        np.testing.assert_allclose(
            logits[real], recorded[f"{batch}/logits"][real], rtol=0, atol=1e-4
        )


def check_gradients(model, sources, from_original, folder):
    """Compares the gradients of the mean token loss of batch a."""
    forward, recorded = np.load(folder / "forward.npz"), np.load(folder / "gradients.npz")
    features = {side: tf.constant(forward[f"a/{side}"]) for side in ("inputs", "targets")}
    weights = tf.cast(features["targets"] != 0, tf.float32)
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["targets"], model(features)
        )
        loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
    assert float(loss) == pytest.approx(float(recorded["loss"]), abs=1e-5)
    names = [name for name in sources if f"grad/{name}" in recorded]
    assert {id(sources[name]) for name in names} == {id(v) for v in model.trainable_variables}
    for name, gradient in zip(
        names, tape.gradient(loss, [sources[name].value for name in names]), strict=True
    ):
        wanted = from_original(name, recorded[f"grad/{name}"])
        found = tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max())


def test_gradients_are_those_of_t2t(t2t):
    model, sources, from_original, _, folder = t2t
    check_gradients(model, sources, from_original, folder)


def up_to_eos(ids):
    ids = list(ids)
    return ids[: ids.index(1) + 1] if 1 in ids else ids


@pytest.mark.parametrize("variant", ["greedy", "beam4", "beam4_all"])
def test_decodes_are_those_of_t2t(t2t, variant):
    model, _, _, settings, folder = t2t
    recorded, how = np.load(folder / "decode.npz"), settings["decode"][variant]
    top, inputs = how["top_beams"], recorded["inputs"]
    search = (
        greedy_search(model)
        if how["beam_size"] == 1
        else BeamSearch(model, how["beam_size"], Penalty(how["alpha"]), stop_early=top == 1)
    )
    ids, scores = search(inputs, np.full(len(inputs), how["decode_length"]))
    wanted = recorded[f"{variant}/outputs"].reshape(len(inputs), top, -1)
    stable = recorded[f"{variant}/stable"].reshape(len(inputs), top)
    assert stable.any()
    for b, k in zip(*np.nonzero(stable), strict=True):
        assert up_to_eos(ids[b, k]) == up_to_eos(wanted[b, k, : how["decode_length"]])
    if variant == "beam4_all":
        np.testing.assert_allclose(scores, recorded["beam4_all/scores"], rtol=1e-5, atol=1e-4)
