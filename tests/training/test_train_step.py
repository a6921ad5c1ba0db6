import itertools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.train_step import TrainStep

pytestmark = pytest.mark.integration

PARTS, VOCAB = 8, 30
SMALL = (
    "num_hidden_layers=1,hidden_size=16,filter_size=32,num_heads=2,learning_rate_constant=0.01,"
    "learning_rate_warmup_steps=5,learning_rate_schedule=constant*linear_warmup"
)


def train(strategy, batches, overrides="", model="transformer", hparams_set="transformer_base"):
    """Trains on the batches; returns the step object and the weights as one vector."""
    small = SMALL if model == "transformer" else "hidden_size=12,num_hidden_layers=1"
    hparams = registry.hparams(hparams_set).override(",".join(filter(None, (small, overrides))))
    keras.utils.set_random_seed(3)
    with strategy.scope():
        network = registry.model(model)(hparams, VOCAB, VOCAB)
        optimizer = make_optimizer(hparams)
        optimizer.build(network.trainable_variables)
    parts = batches[0]["inputs"].shape[0]
    step = TrainStep(strategy, network, optimizer, parts, seed=11)
    for number, features in enumerate(batches):
        step(features, number)
    weights = [np.asarray(v.numpy()).reshape(-1) for v in network.trainable_variables]
    return step, np.concatenate(weights)


def test_eight_devices_equal_two_equal_one_equal_accumulation(strategy_over, ragged_batches):
    """20 steps: eight parts on 8, 2 or 1 devices, and the same sentences as one part."""
    settings = (
        "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,clip_grad_norm=0.5"
    )
    batches = ragged_batches(20)
    joined = [
        {name: tf.reshape(ids, [1, -1, ids.shape[-1]]) for name, ids in batch.items()}
        for batch in batches
    ]
    _, one_part = train(strategy_over(1), joined, settings)
    for devices in (8, 2, 1):
        step, weights = train(strategy_over(devices), batches, settings)
        np.testing.assert_allclose(weights, one_part, rtol=1e-5, atol=1e-5)
    assert step.totals().gradient_norm / 20 > 0.5, "clipping must have been at work"
    _, fewer = train(strategy_over(1), joined[:10], settings)
    assert np.abs(one_part - fewer).max() > 0.01, "the steps must have moved the weights"


@pytest.fixture(scope="module")
def compiled_step(ragged_batches):
    """A step on two devices, and its variables after some training."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    step, _ = train(strategy, ragged_batches(1))
    return step, [*step.variables, *step.optimizer.variables]


@pytest.fixture
def on_two(compiled_step):
    """The same step, with its variables restored after each test."""
    step, variables = compiled_step
    values = [variable.numpy() for variable in variables]
    step.totals()
    yield step
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def test_a_token_weighs_the_same_in_every_part(on_two, ragged_batches):
    """A mean of the parts' means would differ: the parts' losses are far from equal."""
    on_two(ragged_batches(1)[0], 0)
    totals = on_two.totals()
    batch = ragged_batches(1)[0]
    assert totals.tokens == np.count_nonzero(batch["targets"])
    assert totals.source_tokens == np.count_nonzero(batch["inputs"])
    assert batch["inputs"].shape[-1] == 6, "padded to 7, the longest length of the bucket"
    assert totals.cells == 2 * batch["targets"].shape.num_elements()
    assert totals.sentences == PARTS * 3
    assert totals.steps == 1


def test_the_losses_of_sentences_add_up_to_the_loss_of_the_step(on_two, ragged_batches):
    """With the same dropout masks; lengths are padded."""
    features = ragged_batches(1)[0]
    on_two(features, 0)
    on_two.totals()
    losses = on_two.sentence_losses(features, 1)
    on_two(features, 1)
    assert losses.shape == (PARTS, 3)
    assert float(tf.reduce_sum(losses)) == pytest.approx(on_two.totals().loss, rel=1e-5)
    others = on_two.sentence_losses(features, 2)
    assert np.abs(losses - others).max() > 0.01, "other steps have other masks"


DROPOUT = "layer_prepostprocess_dropout=0.3,attention_dropout=0.2,relu_dropout=0.1"


@pytest.fixture(scope="module")
def with_dropout(ragged_batches):
    """Three batches of four parts, and the weights after training on one device, with dropout."""
    batches = ragged_batches(3, parts=4)
    _, weights = train(tf.distribute.MirroredStrategy(["CPU:0"]), batches, DROPOUT)
    return batches, weights


def test_with_dropout_masks_follow_the_part_not_the_device(with_dropout, strategy_over):
    """Each part has its own masks, whichever device computes it."""
    batches, on_one = with_dropout
    _, on_two = train(strategy_over(2), batches, DROPOUT)
    np.testing.assert_allclose(on_two, on_one, rtol=1e-5, atol=1e-5)


def test_masks_differ_between_replicas_and_steps_and_repeat_with_the_seed(on_two, monkeypatch):
    dropout, strategy = on_two.model.dropout, on_two.strategy
    monkeypatch.setattr(dropout, "rate", 0.5)
    rows = tf.ones((4, 64))
    monkeypatch.setattr(
        on_two.model, "hidden", lambda _, training: dropout(rows, training=training)
    )

    @tf.function
    def masks(number):
        def one_replica():
            part = tf.distribute.get_replica_context().replica_id_in_sync_group
            return on_two._hidden({}, number * 2 + tf.cast(part, tf.int64))

        return strategy.experimental_local_results(strategy.run(one_replica))

    first, second = (mask.numpy() for mask in masks(tf.constant(5, tf.int64)))
    again = masks(tf.constant(5, tf.int64))[0].numpy()
    later = masks(tf.constant(6, tf.int64))[0].numpy()
    assert (first == again).all()
    for other in (second, later):
        assert 0.3 < (first != other).mean() < 0.7, "independent masks differ in half the cells"
    # Neighbouring numbers must not share a shifted stream of masks either.
    assert not any((np.roll(first, k, axis=0) == second).all() for k in range(4))


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(on_two, ragged_batches):
    step = on_two
    before = [v.numpy() for v in step.variables]
    slots = [v.numpy() for v in step.optimizer.variables]
    kernel = step.variables[-1]
    good = kernel.numpy()
    kernel.assign(np.full_like(good, np.nan))
    step(ragged_batches(1)[0], 1)
    kernel.assign(good)
    totals = step.totals()
    assert (totals.skipped, totals.steps, totals.loss) == (1, 0, 0)
    assert all((a == v.numpy()).all() for a, v in zip(before, step.variables, strict=True))
    after = [v.numpy() for v in step.optimizer.variables]
    assert all(np.array_equal(a, b) for a, b in zip(slots, after, strict=True))


def test_a_trial_step_changes_nothing(on_two, ragged_batches):
    step = on_two
    before = [v.numpy() for v in (*step.variables, *step.optimizer.variables)]
    step(ragged_batches(1)[0], 2, learn=False)
    after = [v.numpy() for v in (*step.variables, *step.optimizer.variables)]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert step.totals().tokens == 0


def test_one_trace_serves_all_lengths(strategy_over, ragged_batches):
    step, _ = train(strategy_over(1), ragged_batches(1, parts=1))
    for length in (3, 4, 5, 9):
        ids = tf.ones((1, 2, length), tf.int32)
        step({"inputs": ids, "targets": ids[..., :-1]}, 1)
    assert step._compiled.experimental_get_tracing_count() == 1


def test_lstm_is_the_same_on_one_and_two_devices(strategy_over, ragged_batches):
    batches = ragged_batches(2, parts=2)
    lstm = {"model": "lstm_seq2seq_attention", "hparams_set": "lstm_attention"}
    _, on_one = train(strategy_over(1), batches, **lstm)
    _, on_two = train(strategy_over(2), batches, **lstm)
    np.testing.assert_allclose(on_one, on_two, rtol=1e-5, atol=1e-5)


def test_chunks_and_recomputation_change_nothing_but_memory(with_dropout, strategy_over):
    """With dropout, on two devices that accumulate, and one matrix for everything."""
    batches, kept = with_dropout
    spared = f"{DROPOUT},loss_chunk_tokens=4,recompute_activations=true"
    _, again = train(strategy_over(2), batches, spared)
    np.testing.assert_allclose(again, kept, rtol=1e-6, atol=1e-6)


def test_half_precision_learns_as_float32_does(strategy_over, ragged_batches):
    """With the same masks; the weights stay float32, and two devices equal one to rounding."""
    batches = ragged_batches(1, parts=2) * 8
    losses, weights = {}, {}
    halves = ("bfloat16", "float16")
    for kind, devices in (("float32", 1), *itertools.product(halves, (1, 2))):
        step, _ = train(strategy_over(devices), batches[:1], f"dtype={kind},batch_size=32")
        first = step.totals()
        for number, batch in enumerate(batches):
            step(batch, 1 + number)
        last = step.totals()
        assert first.skipped == last.skipped == 0
        losses[kind, devices] = np.array([first.loss, last.loss / 8]) / first.tokens
        weights[kind, devices] = np.concatenate([v.numpy().ravel() for v in step.variables])
        assert weights[kind, devices].dtype == np.float32
        assert losses[kind, devices][1] < losses[kind, devices][0] - 0.1
    for half in halves:
        np.testing.assert_allclose(losses[half, 1], losses["float32", 1], rtol=0.02)
        np.testing.assert_allclose(losses[half, 2], losses[half, 1], rtol=1e-3)
        assert np.abs(weights[half, 2] - weights[half, 1]).mean() < 0.01


def test_float16_overflow_skips_the_step_and_halves_the_scale(strategy_over, ragged_batches):
    step, _ = train(strategy_over(2), ragged_batches(1, parts=2), "dtype=float16")
    assert step.loss_scale.value.numpy() == 2.0**15 / 4096
    step.loss_scale.value.assign(1e30)
    step.totals()
    before = [v.numpy() for v in step.variables]
    assert not step(ragged_batches(1, parts=2)[0], 1)
    assert step.loss_scale.value.numpy() == pytest.approx(5e29)
    assert step.totals().skipped == 1
    assert all((a == v.numpy()).all() for a, v in zip(before, step.variables, strict=True))
    assert step.state["loss_scale"] is step.loss_scale, "or a resumed run would reset it"


def test_xla_computes_the_same(strategy_over, caplog, ragged_batches):
    batches = ragged_batches(2, parts=2)
    settings = (
        "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0,loss_chunk_tokens=8"
    )
    _, plain = train(strategy_over(1), batches, settings)
    with caplog.at_level(logging.INFO, logger="t2t_lite"):
        _, compiled = train(strategy_over(1), batches, f"{settings},xla_compile=true")
    np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5)
    assert caplog.text.count("XLA compiles the step for batches of 2 × 3 × 7 subwords (1 of") == 1


def test_xla_compiles_an_lstm(strategy_over, ragged_batches):
    lstm = {"model": "lstm_seq2seq", "hparams_set": "lstm_seq2seq"}
    batches = ragged_batches(2, parts=2)
    _, plain = train(strategy_over(1), batches, "dropout=0", **lstm)
    _, compiled = train(strategy_over(1), batches, "dropout=0,xla_compile=true", **lstm)
    np.testing.assert_allclose(compiled, plain, rtol=1e-5, atol=1e-5)


def test_what_xla_cannot_do_is_refused(strategy_over, ragged_batches):
    xla = "xla_compile=true"
    with pytest.raises(UsageError, match="several logical CPU devices"):
        train(strategy_over(2), ragged_batches(1), xla)
    lstm = {"model": "lstm_seq2seq_attention", "hparams_set": "lstm_attention"}
    with pytest.raises(UsageError, match="cannot compile a LSTMSeq2SeqAttention"):
        train(strategy_over(1), ragged_batches(1), xla, **lstm)
