"""What every model must do in a search, in an exported search, and on several devices."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite.export.saved_model import IdsModule
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.search_loop import DEAD
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.train_step import TrainStep

EOS = 1
VOCABULARY, LIMIT, ALPHA = 4, 3, 0.6
PARTS, STEPS = 4, 2


@pytest.mark.integration
def test_a_beam_of_all_hypotheses_is_exhaustive_search(kind, make_model, features):
    """Against the probabilities of whole sequences, of all outputs that there are."""
    model = make_model(kind, targets_vocab_size=VOCABULARY)
    others = [token for token in range(VOCABULARY) if token != EOS]
    outputs = [
        (*body, EOS) for length in range(LIMIT) for body in itertools.product(others, repeat=length)
    ]
    search = BeamSearch(model, VOCABULARY**LIMIT, Penalty(ALPHA), stop_early=False)
    ids, scores = search(features["inputs"], [LIMIT] * 3)

    # After the search's own token 0, which the model must take for a token, not for padding.
    targets = np.array([[*output, *[EOS] * (LIMIT - len(output))] for output in outputs], np.int32)
    for sentence, source in enumerate(features["inputs"]):
        inputs = np.tile(source, (len(outputs), 1))
        logits = ops.cast(model({"inputs": inputs, "targets": targets}), "float64")
        log_probs = ops.convert_to_numpy(ops.log_softmax(logits))
        expected = []
        for row, output in zip(log_probs, outputs, strict=True):
            log_prob = sum(row[place] for place in enumerate(output))
            expected.append((log_prob / ((5 + len(output)) / 6) ** ALPHA, output))
        expected = sorted((pair for pair in expected if pair[0] > DEAD), reverse=True)
        likeliest = ids[sentence, : min(3, len(expected))]
        found = {tuple(row[: row.tolist().index(EOS) + 1]) for row in likeliest}
        assert found == {output for _, output in expected[:3]}
        best = [score for score, _ in expected]
        np.testing.assert_allclose(scores[sentence, : len(best)], best, rtol=1e-4, atol=1e-5)


@pytest.mark.integration
def test_an_exported_search_outputs_the_same(model, features, tmp_path):
    extra = 3
    inputs = features["inputs"]
    search = BeamSearch(model, 2, Penalty(ALPHA))
    hparams = DecodeHParams(beam_size=2, extra_length=extra, return_beams=True)
    tf.saved_model.save(IdsModule(model, search, hparams), str(tmp_path))
    found = tf.saved_model.load(str(tmp_path))(tf.constant(inputs))
    ids, scores = search(inputs, np.count_nonzero(inputs, axis=1) + extra)
    ids = np.where(ids == EOS, 0, ids)
    length = found["outputs"].shape[2]
    np.testing.assert_array_equal(found["outputs"], ids[:, :, :length])
    assert not ids[:, :, length:].any()
    np.testing.assert_allclose(found["scores"], scores, rtol=1e-5, atol=1e-5)


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
def test_two_devices_equal_one(dropouts, make_untrained, strategy_over):
    """Four parts on two devices, which accumulate, and the same sentences as one part."""

    def weights_after(steps: int, devices: int, parts: int) -> np.ndarray:
        strategy = strategy_over(devices)
        with strategy.scope():
            model = make_untrained(
                **dict.fromkeys(dropouts, 0.0),
                optimizer="sgd",
                learning_rate_schedule="constant",
                learning_rate_constant=0.1,
            )
            optimizer = make_optimizer(model.hparams)
            optimizer.build(model.trainable_variables)
        step = TrainStep(strategy, model, optimizer, parts, seed=11)
        for number in range(steps):
            assert step(_batch(parts), number)
        return np.concatenate([v.numpy().ravel() for v in model.trainable_variables])

    before, together = weights_after(0, 1, 1), weights_after(STEPS, 1, 1)
    assert np.abs(together - before).max() > 1e-3
    apart = weights_after(STEPS, 2, PARTS)
    np.testing.assert_allclose(apart, together, rtol=1e-5, atol=1e-5)
