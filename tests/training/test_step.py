import functools
import logging

import numpy as np
import pytest
import tensorflow as tf

from support import training_steps
from support.limits import strategy_over
from support.marks import HALVES
from support.rounding import assert_close
from support.terms import forward_terms, lstm_terms, step_terms
from support.training_steps import (
    DROPOUT,
    DRY,
    OPERATIONS,
    VOCAB,
    joined,
    ragged_batch,
    ragged_batches,
    values_of,
    weights_of,
)
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.base import Dropout
from t2t_lite.training.diagnosis import Diagnosis

pytestmark = pytest.mark.integration

PARTS = 8
# Not Adam, which makes as large a step of a gradient's rounding as of a gradient.
# Without clipping, which would hide a wrong size of the gradient, but where that is asked for.
SGD = "clip_grad_norm=0,optimizer=sgd,learning_rate_schedule=constant,learning_rate_constant=0.1"
CLIP = "clip_grad_norm=0.5"
# The gradients of an LSTM are smaller.
FAST = "learning_rate_constant=1"
LSTM = {"model": "lstm_seq2seq_attention", "hparams_set": "lstm_attention"}


def make_step(strategy, parts, overrides, model="transformer", hparams_set="transformer_base"):
    small = "num_hidden_layers=1,hidden_size=16"
    if model == "transformer":
        small += ",filter_size=32,num_heads=2"
    hparams = registry.hparams(hparams_set).override(f"{small},{SGD}").override(overrides)
    return training_steps.make_step(
        strategy, parts, lambda: registry.model(model)(hparams, VOCAB, VOCAB)
    )


def train(strategy, batches, overrides, **kwargs):
    """Trains on the batches; returns the step object, and how far it moved the weights."""
    step = make_step(strategy, batches[0]["inputs"].shape[0], overrides, **kwargs)
    before = weights_of(step.model)
    for number, features in enumerate(batches):
        step(features, number)
    return step, weights_of(step.model) - before


def assert_moved_alike(found, wanted, step, batches, forward=forward_terms) -> None:
    """Compares how far the weights moved, which themselves are rounded to their own size."""
    length = max(ids.shape[-1] for ids in batches[0].values())
    tokens = np.count_nonzero(batches[0]["targets"])
    terms = len(batches) * step_terms(forward(step.hparams, length, VOCAB), tokens)
    assert np.abs(wanted).max() > 0.01, "the steps must have moved the weights"
    assert_close(found, wanted, terms, scale=np.abs(weights_of(step.model)).max())


@pytest.fixture(scope="module")
def compiled_step():
    """A step on two devices that accumulate, its variables, and how far it moved the weights."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    step, moved = train(strategy, ragged_batches(2), f"{DROPOUT},{CLIP}")
    return step, [*step.variables, *step.optimizer.variables], moved


def test_eight_devices_equal_two(compiled_step, eagerly):
    """With dropout: each part has its own masks, whichever device computes it."""
    step, _, wanted = compiled_step
    batches = ragged_batches(2)
    on_eight, moved = train(strategy_over(8), batches, f"{DROPOUT},{CLIP}")
    assert_moved_alike(moved, wanted, step, batches)
    assert on_eight.window.take().gradient_norm / 2 > 0.5, "clipping must have been at work"


def test_chunks_and_recomputation_change_nothing_but_memory(compiled_step):
    """On one device, with dropout and one matrix for everything."""
    step, _, wanted = compiled_step
    batches = ragged_batches(2)
    spared = f"{DROPOUT},{CLIP},loss_chunk_tokens=4,recompute_activations=true"
    _, moved = train(strategy_over(1), batches, spared)
    assert_moved_alike(moved, wanted, step, batches)


def test_parts_are_the_whole(eagerly):
    """Without dropout, eight parts and the same sentences as one part."""
    batches = ragged_batches(1)
    _, moved = train(strategy_over(1), batches, DRY)
    step, wanted = train(strategy_over(1), [joined(batch) for batch in batches], DRY)
    assert_moved_alike(moved, wanted, step, batches)


@pytest.fixture
def on_two(compiled_step):
    """The same step, with its variables restored after each test."""
    step, variables, _ = compiled_step
    values = values_of(variables)
    step.window.take()
    yield step
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def test_a_token_weighs_the_same_in_every_part(on_two):
    """A mean of the parts' means would differ: the parts' losses are far from equal."""
    on_two(ragged_batch(PARTS), 0)
    totals = on_two.window.take()
    batch = ragged_batch(PARTS)
    assert totals.tokens == np.count_nonzero(batch["targets"])
    assert totals.source_tokens == np.count_nonzero(batch["inputs"])
    assert batch["inputs"].shape[-1] == 6, "padded to 7, the longest length of the bucket"
    assert totals.cells == 2 * batch["targets"].shape.num_elements()
    assert totals.sentences == PARTS * 3
    assert totals.steps == 1


def test_the_losses_of_sentences_add_up_to_the_loss_of_the_step(on_two):
    """With the same dropout masks; lengths are padded."""
    features = ragged_batch(PARTS)
    on_two(features, 0)
    on_two.window.take()
    diagnosis = Diagnosis(on_two)
    losses = diagnosis.sentence_losses(features, 1)
    on_two(features, 1)
    assert losses.shape == (PARTS, 3)
    terms = forward_terms(on_two.hparams, 7, VOCAB) + features["targets"].shape.num_elements()
    assert_close(tf.reduce_sum(losses), on_two.window.take().loss, terms)
    others = diagnosis.sentence_losses(features, 2)
    assert np.abs(losses - others).max() > 0.01, "other steps have other masks"


def test_masks_differ_between_replicas_and_steps_and_repeat_with_the_seed(on_two, monkeypatch):
    dropout, strategy = Dropout(0.5, on_two.model.seeds), on_two.strategy
    rows = tf.ones((4, 64))
    monkeypatch.setattr(
        on_two.model, "hidden", lambda _, training: dropout(rows, training=training)
    )

    @tf.function
    def masks(number):
        def one_replica():
            part = tf.distribute.get_replica_context().replica_id_in_sync_group
            return on_two.forward.of_part({}, number * 2 + tf.cast(part, tf.int64))[0]

        return strategy.experimental_local_results(strategy.run(one_replica))

    first, second = (mask.numpy() for mask in masks(tf.constant(5, tf.int64)))
    again = masks(tf.constant(5, tf.int64))[0].numpy()
    later = masks(tf.constant(6, tf.int64))[0].numpy()
    assert (first == again).all()
    for other in (second, later):
        assert 0.3 < (first != other).mean() < 0.7, "independent masks differ in half the cells"
    # Neighbouring numbers must not share a shifted stream of masks either.
    assert not any((np.roll(first, k, axis=0) == second).all() for k in range(4))


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(on_two):
    step = on_two
    before = values_of(variables := [*step.variables, *step.optimizer.variables])
    kernel = step.variables[-1]
    good = kernel.numpy()
    kernel.assign(np.full_like(good, np.nan))
    step(ragged_batch(PARTS), 1)
    kernel.assign(good)
    totals = step.window.take()
    assert (totals.skipped, totals.steps, totals.loss) == (1, 0, 0)
    assert all(map(np.array_equal, before, values_of(variables)))


def test_a_trial_step_changes_nothing(on_two):
    step = on_two
    before = values_of(variables := [*step.variables, *step.optimizer.variables])
    step(ragged_batch(PARTS), 2, learn=False)
    assert all(map(np.array_equal, before, values_of(variables)))
    assert step.window.take().tokens == 0


def test_one_trace_serves_all_lengths():
    step, _ = train(strategy_over(1), ragged_batches(1, parts=1), "")
    for length in (3, 4, 5, 9):
        ids = tf.ones((1, 2, length), tf.int32)
        step({"inputs": ids, "targets": ids[..., :-1]}, 1)
    assert step._compiled.experimental_get_tracing_count() == 1


def test_lstm_is_the_same_on_one_and_two_devices(eagerly):
    batches = ragged_batches(2, parts=2)
    step, on_one = train(strategy_over(1), batches, FAST, **LSTM)
    _, on_two = train(strategy_over(2), batches, FAST, **LSTM)
    assert_moved_alike(on_two, on_one, step, batches, lstm_terms)


@functools.cache
def moved_and_loss(devices, dtype):
    """Returns how far a step moved the weights, and its loss."""
    overrides = f"{DROPOUT},dtype={dtype},batch_size=32"
    step, moved = train(strategy_over(devices), ragged_batches(1, parts=2), overrides)
    return moved, step.window.take().loss


@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_moves_as_float32_does(dtype, eagerly):
    """On two devices, with the same masks; the weights stay float32."""
    (wanted, wanted_loss), (moved, loss) = moved_and_loss(1, "float32"), moved_and_loss(2, dtype)
    assert moved.dtype == np.float32
    assert_close(moved, wanted, 2 * OPERATIONS, dtype=dtype)  # there and back
    assert_close(loss, wanted_loss, OPERATIONS, dtype=dtype)


@pytest.mark.float16
def test_float16_overflow_skips_the_step_and_halves_the_scale(eagerly):
    step, _ = train(strategy_over(2), ragged_batches(1, parts=2), "dtype=float16")
    assert step.loss_scale.value.numpy() == 2.0**15 / 4096
    step.loss_scale.value.assign(1e30)
    step.window.take()
    before = values_of(step.variables)
    assert not step(ragged_batch(2), 1)
    assert step.loss_scale.value.numpy() == np.float32(1e30) / 2
    assert step.window.take().skipped == 1
    assert all(map(np.array_equal, before, values_of(step.variables)))
    assert step.state["loss_scale"] is step.loss_scale, "or a resumed run would reset it"


@pytest.mark.parametrize(
    ("settings", "terms", "kind"),
    [
        (f"{DRY},loss_chunk_tokens=8", forward_terms, {}),
        (f"{DRY},decoder_self=ssru", forward_terms, {}),
        (f"{FAST},dropout=0", lstm_terms, {"model": "lstm_seq2seq", "hparams_set": "lstm_seq2seq"}),
    ],
)
def test_xla_computes_the_same(settings, terms, kind, caplog, request):
    batches = ragged_batches(2, parts=2)
    with caplog.at_level(logging.INFO, logger="t2t_lite"):
        _, compiled = train(strategy_over(1), batches, f"{settings},xla_compile=true", **kind)
    assert caplog.text.count("XLA compiles the step for batches of 2 × 3 × 7 subwords (1 of") == 1
    request.getfixturevalue("eagerly")
    step, plain = train(strategy_over(1), batches, settings, **kind)
    assert_moved_alike(compiled, plain, step, batches, terms)


def test_what_xla_cannot_do_is_refused():
    xla = "xla_compile=true"
    with pytest.raises(UsageError, match="several logical CPU devices"):
        make_step(strategy_over(2), 2, xla)
    with pytest.raises(UsageError, match="cannot compile a LSTMSeq2SeqAttention"):
        make_step(strategy_over(1), 1, xla, **LSTM)
