"""The Transformer's encoder as a classifier."""

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.model_kinds import make_model, make_untrained, model_of
from support.rounding import assert_close
from support.terms import roundings_of, terms_of
from support.training_steps import make_step
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.dense import EXCLUDED
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.constraints import MinLength
from t2t_lite.search.penalties import NO_PENALTY
from t2t_lite.search.stopping import T2TStopping

KIND = "classifier"
CLASSES = 3


@pytest.fixture
def model():
    return model_of(KIND, targets_vocab_size=CLASSES + 2)


def log_softmax(x):
    x = np.float64(x)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def classes_of(model, inputs):
    """The definition: mean over real positions, a linear layer, log-probabilities [B, C]."""
    encoded = np.float64(model.encoder(inputs))
    means = [row[: np.count_nonzero(ids)].mean(0) for row, ids in zip(encoded, inputs, strict=True)]
    kernel, bias = (np.float64(weight) for weight in model.class_projection.trainable_variables)
    return log_softmax(np.stack(means) @ kernel + bias)


def test_first_the_classes_then_eos(model, features):
    logits = ops.convert_to_numpy(model(features))
    log_probs = log_softmax(logits)
    wanted = classes_of(model, features["inputs"])
    assert_close(log_probs[:, 0, 2:], wanted, terms_of(model, 7))
    assert (logits[:, 0, :2] == EXCLUDED).all()
    assert (log_probs[:, 1:, 1] == 0.0).all()
    assert (np.delete(logits[:, 1:], 1, axis=-1) == EXCLUDED).all()


@pytest.mark.integration
def test_outputs_are_the_classes_with_their_probabilities(model, features):
    """There are no more of them, however wide the beam; a limit of two symbols is enough."""
    search = BeamSearch(model, 8, NO_PENALTY, stopping=T2TStopping(early=False))
    ids, scores = search(features["inputs"], [2, 9, 5])
    for row, row_scores, wanted in zip(
        ids, scores, classes_of(model, features["inputs"]), strict=True
    ):
        labels = row[:CLASSES, 0]
        assert sorted(labels) == [2, 3, 4]
        assert_close(row_scores[:CLASSES], wanted[labels - 2], terms_of(model, 7))
        assert (row[:CLASSES, 1] == 1).all()
        assert (row_scores[CLASSES:] == -1e7).all()
        assert not row[CLASSES:].any()


@pytest.mark.integration
def test_impossible_demands_of_a_search_give_no_output_but_no_nan(model, features):
    ids, scores = BeamSearch(model, 2, NO_PENALTY, constraints=[MinLength(3)])(
        features["inputs"], [5, 5, 5]
    )
    assert np.isfinite(scores).all()
    assert (scores <= -1e7).all()
    assert not ids.any()


def test_a_row_of_padding_has_finite_logits(model):
    inputs = np.array([[5, 6, 1], [0, 0, 0]], np.int32)
    logits = ops.convert_to_numpy(model({"inputs": inputs, "targets": inputs[:, :2]}))
    assert np.isfinite(logits).all()


@pytest.mark.float16
def test_probabilities_in_16_bits(model, features):
    logits = make_model(KIND, targets_vocab_size=CLASSES + 2, dtype="float16")(features)
    found = log_softmax(ops.convert_to_numpy(logits))[:, 0, 2:]
    wanted = classes_of(model, features["inputs"])
    assert_close(found, wanted, roundings_of(model, 7), dtype="float16")


def test_what_it_attends_to_is_the_mean(model, features):
    seen = []
    with model.hook_attention(seen.append):
        model(features)
    (weights,) = map(ops.convert_to_numpy, seen)
    assert weights.shape == (3, 6, 7)
    for row, ids in zip(weights, features["inputs"], strict=True):
        length = np.count_nonzero(ids)
        assert_close(row, np.tile((ids != 0) / length, (6, 1)), terms=1)


@pytest.mark.integration
def test_labels_are_learned_with_label_smoothing(features):
    """EOS, which is certain, has no loss; nor have the labels once they are learned."""
    model = make_untrained(
        KIND,
        CLASSES + 2,
        label_smoothing=0.1,
        learning_rate_schedule="constant",
        learning_rate_constant=0.02,
        layer_prepostprocess_dropout=0.0,
        attention_dropout=0.0,
        relu_dropout=0.0,
    )
    targets = np.array([[2, 1], [3, 1], [4, 1]], np.int32)
    batch = {"inputs": features["inputs"], "targets": targets}
    batch = {name: tf.constant(ids[None]) for name, ids in batch.items()}
    step = make_step(tf.distribute.get_strategy(), 1, lambda: model)
    losses = []
    for number in range(40):
        assert step(batch, number)
        totals = step.window.take()
        losses.append(totals.loss / totals.tokens)
    assert losses[0] > 0.2
    assert 0.0 <= losses[-1] < 0.01
    right = np.exp(classes_of(model, features["inputs"])[range(3), range(3)])
    np.testing.assert_allclose(right, 0.9, atol=0.03)  # as far as 40 updates bring it


def test_what_it_does_not_take_is_refused():
    cls = registry.model("transformer_encoder")
    with pytest.raises(UsageError, match="targets_vocab_size=2: expected the number of classes"):
        cls("transformer_test", 13, 2)
    with pytest.raises(UsageError, match="needs a source"):
        cls("transformer_test", 0, 4)
    for mode in ("prepend_inputs_masked_attention", "prepend_inputs_full_attention"):
        with pytest.raises(UsageError, match=f"prepend_mode={mode}: classes are not text"):
            cls("transformer_test", 13, 4, prepend_mode=mode)
    assert make_untrained(KIND, CLASSES + 2).decoder is None
