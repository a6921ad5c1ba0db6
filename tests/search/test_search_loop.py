"""Properties of every search over both kinds of models, and over ensembles of them."""

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.small_models import make_decided
from support.terms import forward_terms, lstm_terms
from t2t_lite.decoding.scoring import score, score_with_attention, total_score
from t2t_lite.errors import UsageError
from t2t_lite.search import search_loop
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search
from t2t_lite.search.parts import DEAD

pytestmark = pytest.mark.integration

EOS = 1
# Logits, of hidden states and rows of norms of 4 each (see `make_decided`). An exponential turns
# their absolute error into a relative one.
LOGITS = 16.0
SETTINGS = {
    "beam": "beam_size=3,alpha=0.8,coverage_penalty=0.4,return_beams=true,min_length=2,"
    "no_repeat_ngram_size=2",
    "sampling": "beam_size=3,sampling_method=random,sampling_temp=0.8,sampling_keep_top_k=9,"
    "sampling_keep_top_p=0.9,seed=5,min_length=2",
}


@pytest.fixture(scope="module")
def models():
    return {
        "transformer": make_decided("transformer", 1),
        "lstm_seq2seq_attention": make_decided("lstm_seq2seq_attention", 2),
    }


@pytest.fixture(scope="module")
def forward(models):
    """Roundings from the ids to a log-probability, in the longer of the two models."""
    transformer, lstm = models.values()
    return max(forward_terms(transformer.hparams, 12, 12), lstm_terms(lstm.hparams, 12, 12))


@pytest.fixture
def model(request, models):
    return models.get(request.param) or Ensemble([*models.values()])


@pytest.fixture(scope="module")
def batch():
    """Sources of lengths 1 to 8 unsorted; for each a limit, a prefix or none, and a number."""
    draw = np.random.default_rng(4)
    lengths = draw.permutation(np.arange(1, 9))
    inputs, prefixes = np.zeros([8, 8], np.int32), np.zeros([8, 3], np.int32)
    for b, length in enumerate(lengths):
        inputs[b, :length] = [*draw.integers(2, 20, length - 1), EOS]
        prefixes[b, : b % 4] = draw.integers(2, 12, b % 4)
    return inputs, lengths + 4, prefixes, draw.permutation(100)[:8]


@pytest.mark.parametrize(
    ("model", "settings"),
    [("ensemble", "beam"), ("transformer", "sampling")],  # an ensemble has the states of both
    indirect=["model"],
)
def test_no_output_depends_on_its_batch_and_scoring_agrees(
    model, batch, settings, forward, monkeypatch
):
    terms = 12 * forward  # of up to 12 tokens
    hparams = DecodeHParams().override(SETTINGS[settings])
    search = make_search(model, {}, hparams)
    expected = search(*batch)
    exists = expected.scores > DEAD
    for chunk in (2, 100):  # sentences leave after every second step, or never
        monkeypatch.setattr(search_loop, "CHUNK", chunk)
        found = search(*batch)
        np.testing.assert_array_equal(found.ids, expected.ids)
        np.testing.assert_array_equal(found.scores > DEAD, exists)
        assert_close(found.scores[exists], expected.scores[exists], terms)
    inputs, limits, prefixes, numbers = batch
    for b, limit in list(enumerate(limits))[:4]:
        source = inputs[b : b + 1, : limit - 4]
        alone = search(source, [limit], prefixes[b : b + 1, : b % 4], [numbers[b]])
        np.testing.assert_array_equal(alone.ids[0], expected.ids[b, :, :limit])
        assert_close(alone.scores[0][exists[b]], expected.scores[b, exists[b]], terms)
        assert not expected.ids[b, :, limit:].any()
    for k in range(hparams.beam_size):
        features = {"inputs": inputs, "targets": expected.ids[:, k]}
        scores = total_score(model, features, search.penalty).numpy()
        assert_close(scores[exists[:, k]], expected.scores[exists[:, k], k], terms)
        begin = expected.ids[:, k, :3]
        kept = np.where(prefixes != 0, begin, 0)
        np.testing.assert_array_equal(kept[exists[:, k]], prefixes[exists[:, k]])
    ended = (expected.ids == EOS).any(axis=2)
    assert exists[:, 0].all()
    assert ended.any()


def test_an_ensemble_of_one_model_twice_is_the_model(models, batch, forward):
    features = {"inputs": batch[0], "targets": batch[2]}
    for model in models.values():
        once, twice = (score_with_attention(m, features) for m in (model, Ensemble([model] * 2)))
        for expected, found in zip(once, twice, strict=True):
            assert_close(found, expected, forward)
        once, twice = (steps(m, batch[0], batch[2]) for m in (model, Ensemble([model] * 2)))
        for found, expected in zip(twice, once, strict=True):
            assert_close(np.exp(found), np.exp(expected), forward, scale=LOGITS)


def steps(model, inputs, targets):
    """Returns the log-probabilities [T, B, 1, V] of each decoding step through the targets."""
    state = model.start_decoding(tf.constant(inputs), 1, 2)
    state = model.grow(state, targets.shape[1])
    found = []
    for step in range(targets.shape[1]):
        last = tf.constant(targets[:, max(step - 1, 0), None])
        logits, state = model.decode_step(last, tf.constant(step), state)
        found.append(tf.nn.log_softmax(logits).numpy())
    return found


def test_an_ensemble_says_the_mean_probability(models, batch, forward):
    features = {"inputs": batch[0], "targets": batch[2]}
    parts = [np.exp(score(model, features)) for model in models.values()]
    ensemble = Ensemble([*models.values()])
    (log_probs, attention) = score_with_attention(ensemble, features)
    assert_close(np.exp(log_probs), np.mean(parts, axis=0), forward, scale=LOGITS)
    totals = np.exp(ensemble(features)).sum(axis=-1)
    assert_close(totals, np.ones_like(totals), 2 * 12)  # a softmax over 12 ids, and their sum
    parts = [score_with_attention(model, features)[1] for model in models.values()]
    assert_close(attention, np.mean(parts, axis=0), forward)


def test_an_ensemble_must_agree_on_the_vocabularies(models):
    with pytest.raises(UsageError, match="model 2 of the ensemble has vocabularies of 20 and 9"):
        Ensemble([models["transformer"], make_decided("lstm_seq2seq_attention", 3, targets=9)])


@pytest.mark.parametrize(
    "model", ["transformer", "lstm_seq2seq_attention", "ensemble"], indirect=True
)
def test_attention_of_steps_is_that_of_the_whole_target(model, batch, forward):
    inputs, targets = batch[0], np.random.default_rng(0).integers(2, 12, (8, 5)).astype(np.int32)
    targets[3, 2:] = 0
    _, attention = score_with_attention(model, {"inputs": inputs, "targets": targets})
    expected = (targets != 0)[..., None] & (inputs != 0)[:, None]  # [B, T, S]
    np.testing.assert_array_equal(attention.numpy() > 0, expected)
    assert_close(np.sum(attention, axis=2), targets != 0, 2 * 8)  # a softmax over 8, a mean, a sum

    state = model.start_decoding(tf.constant(inputs), 1, 5)
    for step in range(5):
        seen = []
        with model.hook_attention(seen.append):
            last = tf.constant(targets[:, max(step - 1, 0), None])
            _, state = model.decode_step(last, tf.constant(step), state)
        rows = targets[:, step] != 0
        assert_close(np.mean(seen, axis=0)[rows, 0], attention.numpy()[rows, step], forward)
