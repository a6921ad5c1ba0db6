"""What every model must do in a search, in an exported search, and on several devices."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.limits import strategy_over
from support.marks import by_name
from support.model_kinds import SHALLOW, make_model, make_untrained
from support.rounding import assert_close
from support.terms import terms_of
from support.training_steps import make_step, weights_of
from t2t_lite.interop.export.saved_model import IdsModule
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.parts import DEAD
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.stopping import T2TStopping
from t2t_lite.training.step import TrainStep

EOS = 1
VOCABULARY, LIMIT, ALPHA = 4, 3, 0.6
# One kind for each structure of the state: positions kept by layers, by steps, with windows of
# convolutions, states of cells, windows alone, with a place in the source, and nothing but a tape.
STRUCTURES = (
    "pre_norm",
    "universal",
    "evolved",
    "luong",
    "conv_s2s",
    "byte_net",
    "neural_gpu",
)
AS_IT_RUNS = ("pre_norm", "luong")
PARTS = 4


@pytest.mark.integration
@pytest.mark.parametrize("kind", STRUCTURES)
def test_an_exported_beam_of_all_hypotheses_is_exhaustive_search(kind, tmp_path):
    """Against the probabilities of whole sequences, of all outputs that there are.

    In one graph, where the state passes through loops; for some, as the search runs, too, which
    needs of a model that its steps compute what the whole does, with room that is grown.
    """
    model = make_model(kind, targets_vocab_size=VOCABULARY, **SHALLOW.get(kind, {}))
    inputs = np.array([[5, 9, 1], [8, 1, 0], [1, 0, 0]], np.int32)
    limits = np.count_nonzero(inputs, axis=1)
    search = BeamSearch(model, VOCABULARY**LIMIT, Penalty(ALPHA), stopping=T2TStopping(early=False))
    hparams = DecodeHParams(beam_size=VOCABULARY**LIMIT, extra_length=0, return_beams=True)
    tf.saved_model.save(IdsModule(model, search, hparams), str(tmp_path))
    exported = tf.saved_model.load(str(tmp_path))(tf.constant(inputs))
    results = [(exported["outputs"], exported["scores"])]
    if kind in AS_IT_RUNS:
        ids, scores = search(inputs, limits)
        results.append((np.where(ids == EOS, 0, ids), scores))
    outputs = [
        sorted(all_outputs(model, source[:limit]))
        for source, limit in zip(inputs, limits, strict=True)
    ]
    for found_ids, found_scores in results:
        rows = np.pad(found_ids, [(0, 0), (0, 0), (0, LIMIT)])[:, :, :LIMIT]
        for sentence, wanted in enumerate(outputs):
            pairs = zip(rows[sentence].tolist(), np.array(found_scores[sentence]), strict=True)
            found = sorted(pair for pair in pairs if pair[1] > DEAD)
            assert [output for output, _ in found] == [output for output, _ in wanted]
            terms = terms_of(model, LIMIT) + LIMIT * (VOCABULARY + 1)
            assert_close(*([score for _, score in side] for side in (found, wanted)), terms)


def all_outputs(model, source):
    """Returns all outputs that are no longer than the source, [LIMIT], and their scores."""
    others = [token for token in range(VOCABULARY) if token != EOS]
    bodies = [
        body for length in range(len(source)) for body in itertools.product(others, repeat=length)
    ]
    # After the search's own token 0, which the model must take for a token, not for padding.
    targets = np.array([[*body, *[EOS] * (LIMIT - len(body))] for body in bodies], np.int32)
    logits = model({"inputs": np.tile(source, (len(bodies), 1)), "targets": targets})
    log_probs = ops.convert_to_numpy(ops.log_softmax(ops.cast(logits, "float64")))
    outputs = []
    for row, body in zip(log_probs, bodies, strict=True):
        log_prob = sum(row[place] for place in enumerate((*body, EOS)))
        score = log_prob / ((5 + len(body) + 1) / 6) ** ALPHA
        outputs.append(([*body, *[0] * (LIMIT - len(body))], score))
    return outputs


def _batch(parts: int) -> dict[str, tf.Tensor]:
    """The same 12 sentence pairs in any number of parts, which hold unlike numbers of tokens."""
    rng = np.random.default_rng(7)
    features = {}
    for name, length in (("inputs", 6), ("targets", 7)):
        ids = rng.integers(2, 13, (PARTS * 3, length))
        ids = np.where(np.arange(length) < rng.integers(1, length, (PARTS * 3, 1)), ids, 0)
        features[name] = tf.constant(ids.reshape(parts, -1, length), tf.int32)
    return features


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
# Those of losses that are not sums over tokens, and that add a bias to every product.
@pytest.mark.parametrize("kind", ["experts", "m2m100", *by_name("adaptive", "hugging_face_marian")])
def test_two_and_four_devices_equal_one(dropouts, kind):
    """Four parts, on two devices that accumulate, and the same sentences as one part."""

    def step_on(devices: int, parts: int) -> TrainStep:
        settings = {"optimizer": "sgd", "learning_rate_schedule": "constant"}
        settings |= {"learning_rate_constant": 0.1, **dict.fromkeys(dropouts, 0.0)}
        return make_step(strategy_over(devices), parts, lambda: make_untrained(kind, **settings))

    one = step_on(1, 1)
    before = weights_of(one.model)
    assert one(_batch(1), 0)
    together = weights_of(one.model)
    assert np.abs(together - before).max() > 1e-3
    # There, back, and over all tokens.
    terms = 2 * terms_of(one.model, 7) + 7 * 3 * PARTS
    for devices in (2, 4):
        step = step_on(devices, PARTS)
        assert step(_batch(PARTS), 0)
        assert_close(weights_of(step.model), together, terms)
