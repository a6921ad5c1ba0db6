import functools
import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from support import t2t_weights
from support.rounding import assert_close
from support.searches import searches, up_to_eos
from support.small_models import set_logits
from support.terms import forward_terms
from t2t_lite import registry
from t2t_lite.decoding.scoring import total_score
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.beam_search import BeamSearch, best_of, greedy_search
from t2t_lite.search.parts import DEAD
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.stopping import T2TStopping

EOS = 1


class TableModel:
    """Next-token logits looked up in a table, by one of golden's kinds.

    The state of a hypothesis is its token before last; `inputs` hold the number of each sentence,
    so that a table can depend on it however the batch is cut.
    """

    def __init__(self, kind, table):
        self.kind = kind
        table = np.array(table, np.float32)
        self.table = tf.constant(np.log(table) if kind == "position" else table)

    def start_decoding(self, inputs, beams, length):
        batch = tf.shape(inputs)[0]
        return DecodeState(inputs[:, 0], {"before": tf.zeros([batch, beams], tf.int32)})

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        batch, beams = tf.shape(ids)[0], ids.shape[1]
        if self.kind == "position":
            steps = tf.gather(self.table, step)
            # [K, V] for all sentences, or [B, K, V]
            logits = steps[None] if len(steps.shape) == 2 else tf.gather(steps, state.sentence)
            logits = tf.broadcast_to(logits, [batch, beams, self.table.shape[-1]])
        elif self.kind == "markov":
            logits = tf.gather(self.table, ids)
        else:
            sentence = tf.broadcast_to(state.sentence[:, None], tf.shape(ids))
            logits = tf.gather_nd(self.table, tf.stack([sentence, ids], axis=-1))
        return logits, DecodeState(state.sentence, {"before": ids})


def numbered(batch_size):
    return np.arange(batch_size)[:, None]


class AnyTable(TableModel):
    """One model for the tables of all kinds but "position", so that a search is traced once.

    A table is looked up by sentence, last id and the one before it, and filled up with ids that
    are never chosen.
    """

    VOCABULARY = 16

    def __init__(self):
        size = self.VOCABULARY
        self.table = tf.Variable(tf.zeros([1, 1, 1, size]), shape=[None, None, None, size])

    def set(self, kind, table):
        table = np.array(table, np.float32)
        axes = {"markov": (0, 1), "markov2": (0,), "batch_markov": (1,)}[kind]
        table = np.expand_dims(table, axes)  # [sentence, before last, last, next]
        unused = [(0, 0)] * 3 + [(0, self.VOCABULARY - table.shape[-1])]
        self.table.assign(np.pad(table, unused, constant_values=-1e9))

    def decode_step(self, ids, step, state):
        sentence = tf.broadcast_to(state.sentence[:, None], tf.shape(ids))
        place = tf.stack([sentence, state.hypothesis["before"], ids], axis=-1)
        place = tf.minimum(place, tf.shape(self.table)[:3] - 1)
        return tf.gather_nd(self.table, place), DecodeState(state.sentence, {"before": ids})


@pytest.mark.integration
@pytest.mark.usefixtures("eager_searches")
def test_searches_as_t2t_on_tables(golden):
    cases = json.loads((golden / "beam_search.json").read_text())["cases"]
    assert cases
    shared = AnyTable()
    search_of = functools.cache(BeamSearch)
    for case in cases:
        kind, table = case["kind"], case["table"]
        batch, limit = case["batch_size"], case["decode_length"]
        if kind == "position":
            model = TableModel(kind, table)
        else:
            model = shared
            model.set(kind, table)
        stopping = T2TStopping(case["stop_early"])
        search = search_of(model, case["beam_size"], Penalty(case["alpha"]), stopping)
        ids, scores = search(numbered(batch), [limit] * batch)
        expected = np.array(case["ids"])[:, :, 1:]  # without the start symbol
        expected_scores = np.array(case["scores"])
        # T2T ends all sentences at once; with stop_early only the best is final by then.
        alone = batch == 1 or not case["stop_early"]
        count = case["beam_size"] if alone else 1
        length = expected.shape[2]
        np.testing.assert_array_equal(
            ids[:, :count, :length], expected[:, :count], err_msg=case["name"]
        )
        found, wanted = scores[:, :count], expected_scores[:, :count]
        # Dead hypotheses have no probability that could be rounded.
        found, wanted = (np.where(each > DEAD / 2, each, DEAD) for each in (found, wanted))
        dead = wanted == DEAD
        np.testing.assert_array_equal(found == DEAD, dead, err_msg=case["name"])
        terms = limit * np.shape(table)[-1]  # a softmax in each step
        scale = max(np.abs(table).max(), np.abs(wanted[~dead]).max())
        assert_close(found[~dead], wanted[~dead], terms, scale=scale, err_msg=case["name"])
        assert not ids[:, :count, length:].any()


def test_best_of_is_that_of_t2t(golden):
    case = json.loads((golden / "beam_topk.json").read_text())
    entries = (tf.constant(case["sequences"]), tf.constant(case["flags"]))
    scores, (sequences, flags) = best_of(tf.constant(case["scores"]), case["beam_size"], entries)
    np.testing.assert_array_equal(scores, np.float32(case["expected_scores"]))
    np.testing.assert_array_equal(sequences, case["expected_sequences"])
    np.testing.assert_array_equal(flags, case["expected_flags"])


@pytest.mark.parametrize("count", [1, 3, 6])
def test_best_of_sorts_each_sentence_by_itself(count):
    draw = np.random.default_rng(count)
    values, ids = draw.normal(size=(4, 6)), draw.integers(0, 9, (4, 6, 2))
    scores, found = best_of(tf.constant(values), count, tf.constant(ids))
    for b in range(4):
        order = sorted(range(6), key=lambda n: -values[b, n])[:count]
        np.testing.assert_array_equal(scores[b], values[b, order])
        np.testing.assert_array_equal(found[b], ids[b, order])


@pytest.mark.integration
@pytest.mark.parametrize(
    "t2t_folder",
    [
        "base_v3",
        # All logits of these are compared with T2T's, too, and so are the steps with the whole.
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (
                *("base_v1", "relative", "two_vocabs", "pos_none", "pos_emb", "unshared"),
                *("channels", "plain"),
            )
        ),
    ],
    indirect=True,
)
def test_decodes_as_t2t(t2t_folder):
    model, settings = t2t_weights.golden_transformer(t2t_folder)
    recorded = np.load(t2t_folder / "decode.npz")

    search = searches(model)
    compared = 0
    for variant, how in settings["decode"]["variants"].items():
        top = how["top_beams"]
        inputs = recorded["inputs"]
        # T2T bounds all outputs by the longest source; `_single` are those it decoded alone.
        limits = (inputs != 0).sum(axis=1) + how["extra_length"]
        if not variant.endswith("_single"):
            limits[:] = how["decode_length"]
        ids, scores = search(how["beam_size"], how["alpha"], top == 1)(inputs, limits)
        expected = recorded[f"{variant}/outputs"].reshape(len(inputs), top, -1)
        shape = (len(inputs), top)
        stable = np.ones(shape, bool)
        if f"{variant}/stable" in recorded:
            stable = recorded[f"{variant}/stable"].reshape(shape)
        for b, k in zip(*np.nonzero(stable), strict=True):
            limit = limits[b]
            assert up_to_eos(ids[b, k, :limit]) == up_to_eos(expected[b, k, :limit]), (variant, b)
            compared += 1
        if f"{variant}/scores" in recorded:
            recorded_scores = recorded[f"{variant}/scores"].reshape(len(inputs), -1)[:, :top]
            forward = forward_terms(model.hparams, limits.max(), model.targets_vocab_size)
            terms = limits.max() * forward
            assert_close(scores[:, :top][stable], recorded_scores[stable], terms)
    assert compared > 50


def normalised(table):
    """Log-probabilities [last, next] of a table of logits, by NumPy alone."""
    table = np.array(table, np.float64)
    return table - np.log(np.exp(table).sum(axis=-1, keepdims=True))


def test_a_sentence_without_an_end_keeps_its_raw_log_probability():
    table = np.full([4, 4], -1.0)
    table[:, EOS] = -50.0
    table[:, 3] = 1.0
    ids, scores = BeamSearch(TableModel("markov", table), 1, Penalty(0.6))(numbered(1), [3])
    assert ids[0, 0].tolist() == [3, 3, 3]
    # Differences of logits of a size of 50.
    assert_close(scores[0, 0], 3 * normalised(table)[0, 3], 3 * 4, scale=50.0)


@pytest.mark.integration
def test_greedy_search_takes_the_argmax_of_the_full_model():
    """Of a small Transformer whose outputs are certain enough to end sometimes."""
    keras.utils.set_random_seed(3)
    transformer = Transformer(registry.hparams("transformer_test"), 20, 12)
    transformer.softmax_embedding.matrix.assign(transformer.softmax_embedding.matrix * 3.0)
    random = np.random.default_rng(4)
    lengths = random.permutation(np.arange(1, 9))
    inputs = np.zeros([8, 8], np.int32)
    for row, length in zip(inputs, lengths, strict=True):
        row[:length] = [*random.integers(2, 20, length - 1), EOS]
    limits = lengths + 12
    ids, scores = greedy_search(transformer)(inputs, limits)
    forward = tf.function(transformer, reduce_retracing=True)
    rows = (inputs, limits, ids[:, 0], scores[:, 0])
    for source, limit, found, score in zip(*rows, strict=True):
        output, total = np.zeros([1, limit], np.int32), 0.0
        for step in range(limit):
            logits = forward({"inputs": source[None], "targets": output})[0, step]
            log_probs = tf.nn.log_softmax(logits).numpy()
            output[0, step] = log_probs.argmax()
            total += log_probs.max()
            if output[0, step] == EOS:
                break
        np.testing.assert_array_equal(found[:limit], output[0])
        assert_close(score, total, limit * forward_terms(transformer.hparams, limit, 12))


def test_is_compiled_once_for_batches_of_all_shapes():
    class Counting(TableModel):
        traces = 0

        def decode_step(self, ids, step, state):
            self.traces += 1
            return super().decode_step(ids, step, state)

    model = Counting("markov", np.random.default_rng(5).normal(size=(6, 6)))
    search = BeamSearch(model, 2, Penalty(0.6))
    search(numbered(1), [3])
    traces = model.traces
    for batch, limit in ((1, 40), (2, 5), (3, 17), (7, 90), (20, 33)):
        assert search(np.zeros([batch, limit]), [limit] * batch).ids.shape == (batch, 2, limit)
    assert model.traces == traces


@pytest.mark.integration
@pytest.mark.parametrize(
    ("layers", "before", "after"),
    [(1, "none", "dan"), pytest.param(3, "n", "da", marks=pytest.mark.integration)],
)
@pytest.mark.usefixtures("eager_searches")
def test_scores_are_the_log_probabilities_of_the_full_model(layers, before, after):
    """For stacks of every height: some make TensorFlow's optimizer build different graphs."""
    hparams = registry.hparams("transformer_test").copy(
        num_hidden_layers=layers, layer_preprocess_sequence=before, layer_postprocess_sequence=after
    )
    keras.utils.set_random_seed(layers)
    model = Transformer(hparams, 9, 9)
    # A fresh model may choose 0, which the scorer takes for padding: make it impossible.
    no_padding = tf.constant([-1e9, *[0.0] * 8])
    projection = model.output_projection
    set_logits(model, lambda hidden: projection(hidden) + no_padding)
    inputs = np.random.RandomState(layers).randint(2, 9, (12, 5)).astype(np.int32)
    found = BeamSearch(model, beam_size=3, penalty=Penalty(), stopping=T2TStopping(early=False))(
        inputs, [6] * 12
    )
    assert (found.scores[:, 0] > DEAD).all()
    compared = 0
    for beam in range(3):
        targets = found.ids[:, beam]  # [B, L]
        scores = total_score(model, {"inputs": inputs, "targets": targets}).numpy()
        exists = found.scores[:, beam] > DEAD
        terms = 6 * forward_terms(hparams, 6, 9)
        assert_close(scores[exists], found.scores[exists, beam], terms)
        compared += exists.sum()
    assert compared > 12, "not the best beams alone"
