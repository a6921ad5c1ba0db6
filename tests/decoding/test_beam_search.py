import functools
import importlib.util
import itertools
import json
import pathlib
import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite import registry
from t2t_lite.decoding.beam_search import DEAD, BeamSearch, greedy_search
from t2t_lite.models.seq2seq import DecodeState
from t2t_lite.models.transformer import Transformer

EOS = 1
CONFIGS = (
    "base_v1",
    "base_v3",
    "pos_none",
    "pos_emb",
    "unshared",
    "two_vocabs",
    "channels",
    "plain",
)


@pytest.fixture(scope="module")
def golden_transformer():
    """The builder of T2T's recorded models, from the models' tests."""
    path = pathlib.Path(__file__).parents[1] / "models/t2t_weights.py"
    spec = importlib.util.spec_from_file_location("t2t_weights", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.golden_transformer


class TableModel:
    """Next-token logits looked up in a table, by one of golden's kinds.

    The state of a hypothesis is its token before last (markov2 needs it); `inputs` hold the number
    of each sentence, so that a table can depend on it however the batch is cut.
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
        before = state.hypothesis["before"]
        if self.kind == "position":
            steps = tf.gather(self.table, step)
            # [K, V] for all sentences, or [B, K, V]
            logits = steps[None] if len(steps.shape) == 2 else tf.gather(steps, state.sentence)
            logits = tf.broadcast_to(logits, [batch, beams, self.table.shape[-1]])
        elif self.kind == "markov":
            logits = tf.gather(self.table, ids)
        elif self.kind == "markov2":
            logits = tf.gather_nd(self.table, tf.stack([before, ids], axis=-1))
        else:
            sentence = tf.broadcast_to(state.sentence[:, None], tf.shape(ids))
            logits = tf.gather_nd(self.table, tf.stack([sentence, ids], axis=-1))
        return logits, DecodeState(state.sentence, {"before": ids})


def numbered(batch_size):
    return np.arange(batch_size)[:, None]


def test_searches_as_t2t_on_tables(golden):
    cases = json.loads((golden / "beam_search.json").read_text())["cases"]
    assert cases
    for case in cases:
        kind, table = case["kind"], case["table"]
        batch, limit = case["batch_size"], case["decode_length"]
        search = BeamSearch(
            TableModel(kind, table), case["beam_size"], case["alpha"], case["stop_early"]
        )
        ids, scores = search(numbered(batch), [limit] * batch)
        expected = np.array(case["ids"])[:, :, 1:]  # without the start symbol
        expected_scores = np.array(case["scores"])
        # T2T ends all sentences at once; with stop_early only the best is settled by then.
        alone = batch == 1 or not case["stop_early"]
        count = case["beam_size"] if alone else 1
        length = expected.shape[2]
        np.testing.assert_array_equal(
            ids[:, :count, :length], expected[:, :count], err_msg=case["name"]
        )
        np.testing.assert_allclose(
            scores[:, :count], expected_scores[:, :count], rtol=1e-5, err_msg=case["name"]
        )
        assert not ids[:, :count, length:].any()


def up_to_eos(ids):
    ids = list(ids)
    return ids[: ids.index(EOS) + 1] if EOS in ids else ids


@pytest.mark.parametrize("config", CONFIGS)
def test_decodes_as_t2t(golden, golden_transformer, config):
    model, settings = golden_transformer(golden / "transformer" / config)
    recorded = np.load(golden / "transformer" / config / "decode.npz")

    @functools.cache
    def search(beam_size, alpha, stop_early):
        return (
            greedy_search(model)
            if beam_size == 1
            else BeamSearch(model, beam_size, alpha, stop_early)
        )

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
            np.testing.assert_allclose(
                scores[:, :top][stable], recorded_scores[stable], rtol=1e-5, atol=1e-4
            )
    assert compared > 50
