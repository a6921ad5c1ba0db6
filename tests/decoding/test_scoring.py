import keras
import numpy as np
import pytest
import tensorflow as tf

from support import t2t_weights
from support.rounding import assert_close
from support.small_models import set_logits
from support.terms import log_prob_terms
from t2t_lite import registry
from t2t_lite.decoding.scoring import total_score


@pytest.mark.integration
@pytest.mark.parametrize("batch", ["a", "b"])
def test_scores_are_those_of_t2t_without_the_padding(golden, batch):
    folder = golden / "transformer" / "two_vocabs"
    model, _ = t2t_weights.golden_transformer(folder)
    recorded = np.load(folder / "forward.npz")
    features = {name: recorded[f"{batch}/{name}"] for name in ("inputs", "targets")}
    scores = total_score(model, features).numpy()
    per_token = recorded[f"{batch}/xent_per_token"].reshape(features["targets"].shape)
    terms = features["targets"].shape[1] * log_prob_terms(model, max(features["inputs"].shape))
    scale = abs(recorded[f"{batch}/logits"]).max()  # a score adds up differences of logits
    assert_close(scores, -per_token.sum(axis=1), terms, scale=scale)
    # T2T's scorer includes the padding.
    padding = tf.nn.log_softmax(model(features)).numpy()[..., 0] * (features["targets"] == 0)
    theirs = recorded[f"{batch}/scorer_scores"]
    assert_close(scores + padding.sum(axis=1), theirs, terms, scale=scale)


@pytest.mark.parametrize(
    ("name", "hparams_set"),
    [("transformer", "transformer_test"), ("lstm_seq2seq_attention", "lstm_attention")],
)
def test_probabilities_of_all_targets_add_up_to_one(name, hparams_set):
    """All targets of up to two subwords that end, and all of two that do not."""
    keras.utils.set_random_seed(8)
    hparams = registry.hparams(hparams_set).copy(hidden_size=16, num_hidden_layers=1)
    model = registry.model(name)(hparams, 7, 4)
    # The model may also choose 0, but no target has 0 inside: make it impossible.
    matrix = np.array(model.softmax_embedding.matrix)
    set_logits(model, lambda hidden: hidden @ matrix.T + [-1e9, 0.0, 0.0, 0.0])
    targets = np.array([[1, 0], *([a, b] for a in (2, 3) for b in (1, 2, 3))], np.int32)
    inputs = np.tile(np.array([[5, 3, 1]], np.int32), (len(targets), 1))
    scores = total_score(model, {"inputs": inputs, "targets": targets})
    terms = targets.shape[1] * log_prob_terms(model, inputs.shape[1]) + len(targets)
    assert_close(tf.reduce_sum(tf.exp(scores)), 1.0, terms)
