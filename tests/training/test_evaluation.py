"""Evaluations: of moving averages of the weights, which return the memory that they freed."""

import contextlib
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from support.rounding import assert_close
from support.small_runs import make_run, save_weights
from support.training_steps import make_step, weights_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.metrics.base import TeacherForcedTotals
from t2t_lite.runs import averaging
from t2t_lite.text.text_encoder import ByteTextEncoder
from t2t_lite.training.evaluation import TeacherForced, averaged_weights

pytestmark = pytest.mark.integration

DECAY, PARTS, VOCAB = 0.75, 2, 12
SETTINGS = (
    "num_hidden_layers=1,hidden_size=8,filter_size=8,learning_rate_constant=0.05,"
    "learning_rate_schedule=constant,layer_prepostprocess_dropout=0,attention_dropout=0,"
    f"relu_dropout=0,ema_decay={DECAY}"
)


def make_model():
    hparams = registry.hparams("transformer_test").override(SETTINGS).freeze()
    return registry.model("transformer")(hparams, VOCAB, VOCAB)


def batch(step: int):
    ids = np.random.default_rng(step).integers(2, VOCAB, (PARTS, 3, 5))
    return {"inputs": tf.constant(ids, tf.int32), "targets": tf.constant(ids, tf.int32)}


def averages(train_step) -> np.ndarray:
    with averaged_weights(train_step.model, train_step.optimizer):
        return weights_of(train_step.model)


@pytest.fixture(scope="module")
def trained():
    """Three steps on two devices, with the weights after each and their averages."""
    train_step = make_step(
        tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]), PARTS, make_model, seed=1
    )
    history = []
    tf.config.run_functions_eagerly(True)  # the `eagerly` of a module's fixture
    for step in range(3):
        train_step(batch(step), step)
        history.append((weights_of(train_step.model), averages(train_step)))
    tf.config.run_functions_eagerly(False)
    return train_step, history


def test_three_steps_follow_the_recurrence(trained):
    _, history = trained
    expected, _ = history[0]  # the initial average is the weights after the first step
    for weights, average in history:
        expected = DECAY * expected + (1 - DECAY) * weights
        assert_close(average, expected, 3 * len(history))  # two products and a sum in each
    assert np.abs(expected - weights).max() > 0.01, "the steps must have moved the weights"


def test_the_weights_are_restored_bit_for_bit_after_any_error(trained):
    train_step, history = trained
    weights, average = history[-1]
    exchanged = contextlib.ExitStack()
    exchanged.enter_context(averaged_weights(train_step.model, train_step.optimizer))
    assert np.array_equal(weights_of(train_step.model), average)
    with contextlib.suppress(KeyboardInterrupt), exchanged:
        raise KeyboardInterrupt
    for variable in train_step.model.trainable_variables:
        first, second = (np.asarray(value) for value in variable.value.values)
        assert np.array_equal(first, second)
    assert np.array_equal(weights_of(train_step.model), weights)


def test_what_is_restored_for_decoding_is_the_average(trained, tmp_path):
    train_step, history = trained
    run = make_run(tmp_path, **train_step.hparams.to_dict())
    path = save_weights(tmp_path, train_step.model, 3, optimizer=train_step.optimizer)
    model = run.build_model()
    assert run.restore_weights(model, path) == 3
    assert np.array_equal(weights_of(model), history[-1][1])
    mean = averaging.average(run, [path])
    assert run.restore_weights(model, mean) == 3
    assert np.array_equal(weights_of(model), history[-1][1]), "a mean of averages, not of weights"


@pytest.mark.parametrize("decay", [-0.1, 1.0, 1.5])
def test_an_invalid_decay_is_refused(decay):
    with pytest.raises(UsageError, match=f"ema_decay={decay}: expected a number, at least 0 and"):
        registry.hparams("transformer_test").override(f"ema_decay={decay}")


def model_of(call: Callable[..., Any]) -> Any:
    """A model without weights."""
    call.only_numbers = False
    return call


def test_a_sentence_of_padding_counts_nowhere():
    """The last batch is filled up with them."""

    def copying(features, training):
        return 9.0 * tf.one_hot(features["inputs"], 5)  # [B, T, V]

    evaluate = TeacherForced(tf.distribute.get_strategy(), model_of(copying))
    inputs, targets = [[[2, 3], [2, 3], [0, 0]]], [[[2, 3], [2, 4], [0, 0]]]
    values = evaluate([{"inputs": tf.constant(inputs), "targets": tf.constant(targets)}])
    assert values["target_tokens"] == 4
    assert values["accuracy"] == 3 / 4
    assert values["accuracy_per_sequence"] == 1 / 2
    assert values["accuracy_top5"] == 1
    assert values["prefix_accuracy"] == (1 + 1 / 2) / 2
    assert not {"bits_per_char", "roc_auc"} & values.keys(), "they depend on a run"
    assert_close(values["loss"], np.log(np.exp(9) + 4) - 9 * 3 / 4, 2 * 5, scale=9.0)


def run_of(has_labels: bool, encoder=None) -> Any:
    """What TeacherForced reads of a run."""
    problem = types.SimpleNamespace(has_labels=has_labels, has_text_targets=not has_labels)
    return types.SimpleNamespace(problem=problem, encoders={"targets": encoder})


@pytest.mark.parametrize(
    ("odds", "labels", "area"),
    [
        ([30.0, 25.0, 22.0, 21.0], [1, 1, 0, 0], 1.0),
        ([-300.0, -200.0, -210.0, -100.0], [0, 1, 0, 1], 1.0),
        ([0.001, 0.002, 0.003, 0.004], [0, 0, 1, 1], 1.0),
        ([1e9, np.inf, -np.inf, 3.0], [1, 1, 0, 0], 1.0),
        ([0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0], 0.5),
    ],
)
def test_odds_of_any_size_are_told_apart(odds, labels, area):
    logits = tf.constant([[[0.0, 0.0, 0.0, value]] for value in odds])
    evaluate = TeacherForced(
        tf.distribute.get_strategy(),
        model_of(lambda features, training: logits),
        run_of(has_labels=True),
    )
    counts = evaluate._by_probability(logits, tf.constant(labels)[:, None] + 2)
    totals = TeacherForcedTotals(0, 0, 0, 0, 0, by_probability=counts.numpy().tolist())
    assert registry.metric("roc_auc").score(totals) == area


def test_numbers_of_the_targets_text_and_of_two_labels():
    """Whether a split is read in one batch or in several, on one device or on two."""

    def given_logits(features, training):
        return tf.cast(features["inputs"][..., None], tf.float32) * tf.constant([0, 0, 0, 0.5])

    strategy = tf.distribute.get_strategy()
    # Labels 2 and 3, whose second has the log odds inputs / 2; the text of padding is no text.
    inputs = np.array([[[3, 0], [-1, 0], [3, 0], [0, 0]]], np.int32)
    targets = np.array([[[3, 1], [2, 1], [2, 1], [0, 0]]], np.int32)
    batch = {"inputs": tf.constant(inputs), "targets": tf.constant(targets)}
    parts = [{name: ids[:, i : i + 2] for name, ids in batch.items()} for i in (0, 2)]
    evaluate = TeacherForced(strategy, model_of(given_logits), run_of(has_labels=True))
    whole = evaluate([batch])
    assert whole["roc_auc"] == (1 + 1 / 2) / 2
    assert "bits_per_char" not in whole
    two_devices = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    both = {name: tf.concat([part[name] for part in parts], 0) for name in batch}
    on_both = TeacherForced(two_devices, model_of(given_logits), run_of(has_labels=True))
    # The loss of a token has some eight roundings of float32, which batches of other shapes do in
    # another order.
    for found in (evaluate(parts), on_both([both])):
        assert found == pytest.approx(whole, rel=8 * 2**-24)

    bytes_ = ByteTextEncoder()
    text = np.array([[[*bytes_.encode("aß"), 1], [*bytes_.encode("b"), 1, 0, 0]]], np.int32)
    batch = {"inputs": tf.constant(0 * text), "targets": tf.constant(text)}

    def equal_logits(features, training):
        return 0.0 * tf.one_hot(features["targets"], bytes_.vocab_size)

    values = TeacherForced(strategy, model_of(equal_logits), run_of(False, bytes_))([batch])
    expected = 6 * np.log2(bytes_.vocab_size) / 3  # symbols, of two EOS, and three characters
    assert_close(values["bits_per_char"], expected, terms=20)
