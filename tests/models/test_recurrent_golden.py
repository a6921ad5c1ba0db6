"""The recurrent models against numbers recorded from their original implementations."""

import contextlib
import functools
import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.searches import searches, up_to_eos
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.models.attention_maps import with_attention
from t2t_lite.search.beam_search import BeamSearch, Penalty, greedy_search
from t2t_lite.search.stopping import T2TStopping

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "compared"


def t2t_lstm(name, settings):
    """T2T's model of that name, and how each of its weights is made of recorded ones."""
    hparams = registry.hparams(settings["hparams_set"]).copy(**settings["overrides"])
    sizes = settings["source_vocab_size"], settings["target_vocab_size"]
    model = registry.model(name)(hparams, *sizes)
    one_way = name == "lstm_seq2seq"
    body = f"{name}/body/{name if one_way else 'lstm_seq2seq_bid_encoder'}"
    stacks = {f"{body}/decoder/rnn": model.decoder.cells}
    if one_way:
        stacks[f"{body}/encoder/rnn"] = [layer.cell for layer in model.encoder.stack]
    else:
        both = f"{body}/encoder/bidirectional_rnn"
        stacks[f"{both}/fw"] = [layer.cell for layer in model.encoder.stack]
        stacks[f"{both}/bw"] = [layer.cell for layer in model.encoder.backward_stack]

    def gates(variable):
        def build(recorded):  # TensorFlow's order of the gates
            write, new, forget, read = np.split(recorded(variable), 4, axis=-1)
            return np.concatenate([write, forget, new, read], axis=-1)

        return build

    made = []
    for embedding, size, part in (
        (model.inputs_embedding, sizes[0], "input_emb"),
        (model.targets_embedding, sizes[1], "target_emb"),
        (model.softmax_embedding, sizes[1], "softmax"),
    ):
        variable = f"{name}/symbol_modality_{size}_{hparams.hidden_size}/{part}/weights_0"
        made.append((embedding.matrix, lambda recorded, variable=variable: recorded(variable)))
    for stack, cells in stacks.items():
        for i, cell in enumerate(cells):
            variable = f"{stack}/multi_rnn_cell/cell_{i}/lstm_cell"
            made.append((cell.gates.kernel, gates(f"{variable}/kernel")))
            made.append((cell.gates.bias, gates(f"{variable}/bias")))
    return model, made


def nvidia_gnmt(name, settings):
    """NVIDIA's GNMT, and how each of its weights is made of recorded ones."""
    model = registry.model("gnmt")(
        "gnmt_mlperf",
        settings["vocab_size"],
        settings["vocab_size"],
        hidden_size=settings["hidden_size"],
        num_hidden_layers=settings["num_layers"],
        shared_embedding=settings["share_embedding"],
    )
    cells = {
        "encoder.rnn_layers.0.{}_l0_reverse": model.encoder.backward_layer.cell,
        "encoder.rnn_layers.0.{}_l0": model.encoder.forward_layer.cell,
        "decoder.att_rnn.rnn.{}_l0": model.decoder.cells[0],
    }
    for i, layer in enumerate(model.encoder.stack, start=1):
        cells[f"encoder.rnn_layers.{i}.{{}}_l0"] = layer.cell
    for i in range(1, len(model.decoder.cells)):
        cells[f"decoder.rnn_layers.{i - 1}.{{}}_l0"] = model.decoder.cells[i]
    attention = "decoder.att_rnn.attn."
    classifier = "decoder.classifier.classifier."
    made = [
        (model.inputs_embedding.matrix, lambda r: r("encoder.embedder.weight")),
        (model.softmax_embedding.matrix, lambda r: r(f"{classifier}weight")),
        (model.output_projection.bias, lambda r: r(f"{classifier}bias")),
        (model.decoder.attention.query.kernel, lambda r: r(f"{attention}linear_q.weight").T),
        (model.decoder.attention.key.kernel, lambda r: r(f"{attention}linear_k.weight").T),
        (model.decoder.attention.score.kernel, lambda r: r(f"{attention}linear_att")[:, None]),
        (model.decoder.attention.scale, lambda r: r(f"{attention}normalize_scalar")),
        (model.decoder.attention.bias, lambda r: r(f"{attention}normalize_bias")),
    ]
    if not settings["share_embedding"]:
        made.append((model.targets_embedding.matrix, lambda r: r("decoder.embedder.weight")))
    for form, cell in cells.items():
        made += [
            (
                cell.gates.kernel,
                lambda r, form=form: np.concatenate(
                    [r(form.format(part)).T for part in ("weight_ih", "weight_hh")]
                ),
            ),
            (cell.gates.bias, lambda r, form=form: r(form.format("bias_ih"))),
            (cell.output_bias, lambda r, form=form: r(form.format("bias_hh"))),
        ]
    return model, made


ORIGINALS = {
    "lstm_seq2seq": t2t_lstm,
    "lstm_seq2seq_bidirectional_encoder": t2t_lstm,
    "gnmt": nvidia_gnmt,
    "gnmt_unshared": nvidia_gnmt,
}


@functools.cache
def load(name):
    """The model with the recorded weights, how they were made, and the settings."""
    settings = json.loads((GOLDEN / name / "config.json").read_text())
    model, made = ORIGINALS[name](name, settings)
    recorded = np.load(GOLDEN / name / "weights.npz")
    assert {id(v) for v, _ in made} == {id(v) for v in model.trainable_variables}
    for variable, build in made:
        variable.assign(build(recorded.__getitem__))
    assert sum(v.numpy().size for v in model.trainable_variables) == settings["parameters"]
    return model, made, settings


@pytest.mark.integration
@pytest.mark.parametrize("name", ORIGINALS)
def test_logits_are_those_recorded(name):
    model, _, _ = load(name)
    recorded = np.load(GOLDEN / name / "forward.npz")
    for batch in ("a", *(f"b/{i}" for i in range(5))):
        features = {side: recorded[f"{batch}/{side}"] for side in ("inputs", "targets")}
        real = features["targets"] != 0
        length = max(ids.shape[1] for ids in features.values())
        found = []
        with model.hook_attention(found.append) if "gnmt" in name else contextlib.nullcontext():
            logits = keras.ops.convert_to_numpy(model(features))
        pairs = [(logits, recorded[f"{batch}/logits"])]
        if "gnmt" in name:
            pairs.append((keras.ops.convert_to_numpy(found[0]), recorded[f"{batch}/attention"]))
        for ours, theirs in pairs:
            assert_close(ours[real], theirs[real], terms_of(model, length))


@pytest.mark.integration
@pytest.mark.parametrize("name", ORIGINALS)
def test_gradients_are_those_recorded(name):
    """Of the mean token loss of batch a."""
    model, made, _ = load(name)
    forward = np.load(GOLDEN / name / "forward.npz")
    recorded = np.load(GOLDEN / name / "gradients.npz")
    features = {side: tf.constant(forward[f"a/{side}"]) for side in ("inputs", "targets")}
    weights = tf.cast(features["targets"] != 0, tf.float32)
    with tf.GradientTape() as tape:
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            features["targets"], model(features)
        )
        loss = tf.reduce_sum(losses * weights) / tf.reduce_sum(weights)
    length = max(ids.shape[1] for ids in features.values())
    terms = 2 * terms_of(model, length) + features["targets"].shape.num_elements()
    assert_close(loss, recorded["loss"], terms)
    gradients = tape.gradient(loss, [variable.value for variable, _ in made])
    for (variable, build), gradient in zip(made, gradients, strict=True):
        wanted = build(lambda of: recorded[f"grad/{of}"])
        found = tf.convert_to_tensor(gradient).numpy()
        assert_close(found, wanted, terms, err_msg=variable.path)


@pytest.mark.integration
@pytest.mark.parametrize("variant", ["greedy", "beam4_all"])
@pytest.mark.usefixtures("eager_searches")
def test_decodes_are_those_of_t2t(variant):
    name = "lstm_seq2seq"
    model, _, settings = load(name)
    recorded, how = np.load(GOLDEN / name / "decode.npz"), settings["decode"][variant]
    top, inputs = how["top_beams"], recorded["inputs"]
    search = searches(model)(how["beam_size"], how["alpha"], top == 1)
    ids, scores = search(inputs, np.full(len(inputs), how["decode_length"]))
    wanted = recorded[f"{variant}/outputs"].reshape(len(inputs), top, -1)
    stable = recorded[f"{variant}/stable"].reshape(len(inputs), top)
    assert stable.any()
    for b, k in zip(*np.nonzero(stable), strict=True):
        assert up_to_eos(ids[b, k]) == up_to_eos(wanted[b, k, : how["decode_length"]])
    if variant == "beam4_all":
        wanted = recorded["beam4_all/scores"]
        length = max(inputs.shape[1], how["decode_length"])
        assert_close(scores, wanted, terms_of(model, length) + length * model.targets_vocab_size)


def nvidia_search(model, source, how):
    """NVIDIA's beam search for one sentence: the sum of log-probabilities until all beams end.

    Then length and coverage choose among them. Two flaws are kept: sums of attention stay where
    they are when beams change places, and the length counts the start symbol.
    """
    beams = how["beam_size"]
    state = model.start_decoding(source[None], beams, how["max_seq_len"])
    ids = np.zeros((1, beams), np.int32)
    outputs, scores = [[]] * beams, np.array([0.0] + [-np.inf] * (beams - 1))
    ended, coverage = np.zeros(beams, bool), np.zeros((beams, len(source)))
    for step in range(how["max_seq_len"] - 1):
        (logits, state), attention = with_attention(
            model, functools.partial(model.decode_step, ids, np.int32(step), state)
        )
        coverage += np.where(ended[:, None], 0.0, keras.ops.convert_to_numpy(attention)[0])
        log_probs = keras.ops.convert_to_numpy(keras.ops.log_softmax(logits))[0]
        log_probs[ended] = np.where(np.arange(log_probs.shape[1]) == 1, 0.0, -np.inf)
        sums = (scores[:, None] + log_probs).ravel()
        best = np.argsort(-sums)[:beams]
        parents, ids[0] = np.divmod(best, log_probs.shape[1])
        outputs = [
            outputs[parent] + ([] if ended[parent] else [int(last)])
            for parent, last in zip(parents, ids[0], strict=True)
        ]
        scores, ended = sums[best], ids[0] == 1
        state = state._replace(
            hypothesis=keras.tree.map_structure(
                functools.partial(keras.ops.take, indices=parents, axis=1), state.hypothesis
            )
        )
        if ended.all():
            lengths = np.array([1 + len(output) for output in outputs])
            scores = scores / ((5 + lengths) / 6) ** how["len_norm_factor"]
            scores += how["cov_penalty_factor"] * np.log(np.minimum(coverage, 1.0)).sum(axis=1)
            break
    return outputs[np.argmax(scores)]


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_decodes_are_those_of_nvidia():
    """Outputs of our greedy search and of NVIDIA's beam search, and their log-probabilities."""
    name = "gnmt"
    model, _, settings = load(name)
    recorded, how = np.load(GOLDEN / name / "decode.npz"), settings["decode"]
    inputs = recorded["inputs"]
    ids, _ = greedy_search(model)(inputs, np.full(len(inputs), how["max_seq_len"] - 1))
    found = {
        "greedy": [up_to_eos(row) for row in ids[:, 0]],
        "beam4": [nvidia_search(model, np.array(up_to_eos(source)), how) for source in inputs],
    }
    for variant, outputs in found.items():
        assert outputs == [up_to_eos(row) for row in recorded[f"{variant}/outputs"]]
        targets = np.zeros((len(outputs), max(map(len, outputs))), np.int32)
        for row, output in zip(targets, outputs, strict=True):
            row[: len(output)] = output
        logits = model({"inputs": inputs, "targets": targets})
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        log_probs = -np.sum(losses * (targets != 0), axis=1)
        length = max(inputs.shape[1], targets.shape[1])
        terms = terms_of(model, length) + length * model.targets_vocab_size
        assert_close(log_probs, recorded[f"{variant}/logprob"], terms)


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_penalties_are_those_of_nvidia_where_its_flaws_change_nothing():
    model, _, settings = load("gnmt")
    recorded, how = np.load(GOLDEN / "gnmt" / "decode.npz"), settings["decode"]
    penalty = Penalty(how["len_norm_factor"], coverage_penalty=how["cov_penalty_factor"])
    search = BeamSearch(model, how["beam_size"], penalty, stopping=T2TStopping(early=False))
    inputs = recorded["inputs"]
    ids, _ = search(inputs, np.full(len(inputs), how["max_seq_len"] - 1))
    wanted = [up_to_eos(row) for row in recorded["beam4/outputs"]]
    assert [up_to_eos(row) for row in ids[:, 0]] == wanted
