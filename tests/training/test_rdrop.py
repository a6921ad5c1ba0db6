"""R-Drop: its loss and gradient, and that they are the same for any division of a batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.embedding import Embedding
from t2t_lite.models.output_projection import OutputProjection
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_encoder import TransformerClassifier
from t2t_lite.training.losses import smoothed_cross_entropy
from t2t_lite.training.optimizers import make_optimizer
from t2t_lite.training.rdrop import summed_rdrop_loss
from t2t_lite.training.train_step import TrainStep

VOCAB, PARTS, ALPHA = 30, 4, 5.0
SMALL = (
    "num_hidden_layers=1,hidden_size=16,filter_size=32,num_heads=2,label_smoothing=0.1,"
    "learning_rate_schedule=constant,learning_rate_constant=0.01,clip_grad_norm=0.5"
)
DRY = "layer_prepostprocess_dropout=0,attention_dropout=0,relu_dropout=0"
WET = f"layer_prepostprocess_dropout=0.3,attention_dropout=0.2,relu_dropout=0.1,rdrop_alpha={ALPHA}"
EVERYTHING = f"{WET},symbol_dropout=0.2"


class TwoMinds(Transformer):
    """A model whose passes differ without any dropout, so that a batch may be divided."""

    def hidden(self, features, training=False):
        hidden = super().hidden(features, training)
        rows = ops.shape(hidden)[0]
        second = ops.arange(rows) >= rows // 2
        factor = ops.where(second & (self.hparams.rdrop_alpha > 0), 0.5, 1.0)
        return hidden * ops.cast(factor, hidden.dtype)[:, None, None]


def joined(batch):
    return {name: tf.reshape(ids, [1, -1, ids.shape[-1]]) for name, ids in batch.items()}


def make_step(strategy, overrides, parts=PARTS, model=Transformer, base="transformer_base"):
    hparams = registry.hparams(base).override(SMALL).override(overrides)
    keras.utils.set_random_seed(3)
    with strategy.scope():
        network = model(hparams, VOCAB, VOCAB)
        optimizer = make_optimizer(hparams)
        optimizer.build(network.trainable_variables)
    return TrainStep(strategy, network, optimizer, parts, seed=11)


def train(strategy, batch, overrides, steps=2, **kwargs):
    """Returns the weights after some steps as one vector, and the step object."""
    step = make_step(strategy, overrides, batch["inputs"].shape[0], **kwargs)
    for number in range(steps):
        assert step(batch, number)
    return np.concatenate([v.numpy().ravel() for v in step.variables]), step


def by_definition(logits1, logits2, targets, smoothing=0.1, alpha=ALPHA):
    """Mean cross entropy of two passes and the penalty, each summed over tokens, in NumPy."""
    terms = []
    log_p = []
    for logits in np.float64(logits1), np.float64(logits2):
        log_p.append(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))
        terms.append(smoothed_cross_entropy(tf.constant(logits, tf.float32), targets, smoothing))
    p, q = np.exp(log_p)
    kl = (p * (log_p[0] - log_p[1])).sum(-1) + (q * (log_p[1] - log_p[0])).sum(-1)
    return sum(np.float64(ce).sum() for ce in terms) / 2, alpha / 2 * kl.sum() / 2


# ---- the loss of given features


def naive(projection, hidden, targets, scale):
    """The loss, for automatic differentiation."""
    log_p, log_q = (tf.nn.log_softmax(projection(hidden[i])) for i in (0, 1))
    p, q = tf.exp(log_p), tf.exp(log_q)
    kl = tf.reduce_sum(p * (log_p - log_q) + q * (log_q - log_p), axis=1)
    ce = [smoothed_cross_entropy(projection(hidden[i]), targets, 0.1) for i in (0, 1)]
    losses = (ce[0] + ce[1]) / 2 + ALPHA / 4 * kl
    return scale * tf.reduce_sum(tf.where(targets != 0, losses, 0.0))


@pytest.mark.parametrize("tokens", [0, 1, 14])
def test_value_and_gradients_are_those_of_the_definition(tokens):
    """However the tokens are divided; some are padding."""
    embedding = Embedding(11, 6)
    projection = OutputProjection(embedding)
    rng = np.random.default_rng(0)
    embedding.matrix.assign(rng.normal(size=(11, 6)))
    hidden = tf.constant(rng.normal(size=(2, tokens, 6)), tf.float32)
    targets = tf.constant(np.where(np.arange(tokens) % 4 == 3, 0, 5), tf.int32)

    def with_gradients(loss):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            total = 2.0 * loss()
        gradients = tape.gradient(total, [hidden, embedding.matrix.value])
        return [np.asarray(tf.convert_to_tensor(part)) for part in (total, *gradients)]

    wanted = with_gradients(lambda: naive(projection, hidden, targets, 3.0))
    assert (np.abs(wanted[2]).max() > 0.1) == (tokens > 0)
    for chunk in (0, 1, 2, 5, 100):
        arguments = (projection, hidden, targets, 0.1, ALPHA, chunk, 3.0)
        found = with_gradients(lambda arguments=arguments: summed_rdrop_loss(*arguments)[0])
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


def test_equal_passes_have_no_penalty():
    embedding = Embedding(11, 6)
    hidden = tf.tile(tf.random.stateless_normal([1, 5, 6], [1, 2]), [2, 1, 1])
    targets = tf.fill([5], 3)
    gradients = []
    for alpha in (ALPHA, 0.0):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss, penalty = summed_rdrop_loss(
                OutputProjection(embedding), hidden, targets, 0.1, alpha
            )
        assert float(penalty) == pytest.approx(0.0, abs=1e-6)
        gradients.append(tape.gradient(loss, hidden).numpy())
    np.testing.assert_allclose(*gradients, atol=1e-6)


def test_extreme_logits_stay_finite():
    embedding = Embedding(3, 3, scaled=False)
    embedding.matrix.assign(np.eye(3))
    hidden = tf.constant([[[1e4, -1e4, 0.0]], [[-1e4, 1e4, 0.0]]])
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        loss, penalty = summed_rdrop_loss(
            OutputProjection(embedding), hidden, tf.constant([1]), 0.1, ALPHA
        )
    assert float(penalty) == pytest.approx(ALPHA / 4 * 4e4)
    assert np.isfinite(tape.gradient(loss, hidden)).all()


# ---- the step


@pytest.fixture(scope="module")
def wet_step():
    """A step with all kinds of dropout; nothing may change its weights."""
    return make_step(tf.distribute.MirroredStrategy(["CPU:0"]), EVERYTHING, parts=1)


@pytest.mark.integration
def test_the_step_has_the_loss_of_its_two_passes(wet_step, ragged_batch):
    """In the metrics, the loss is the cross entropy alone; sentences have the whole loss."""
    step, batch = wet_step, ragged_batch(parts=1)
    batch = step._shapes.pad(batch)
    part = {name: ids[0] for name, ids in batch.items()}
    logits = step.model.output_projection(step._hidden(part, tf.constant(7, tf.int64)))
    present = part["targets"].numpy() != 0
    first, second = (half.numpy()[present] for half in tf.split(logits, 2))
    assert np.abs(first - second).max() > 0.1, "the passes have different masks"
    entropy, penalty = by_definition(first, second, part["targets"].numpy()[present])
    before = [v.numpy() for v in step.variables]
    step.totals(), step.auxiliary_totals()
    step(batch, 7)
    totals = step.totals()
    for variable, value in zip(step.variables, before, strict=True):
        variable.assign(value)
    assert totals.tokens == present.sum()
    assert totals.loss == pytest.approx(entropy, rel=1e-4)
    assert penalty > 0.1 * totals.tokens
    assert step.auxiliary_totals() == {"rdrop": pytest.approx(penalty / totals.tokens, rel=1e-4)}
    once = make_step(step.strategy, "rdrop_alpha=0").flops.training(batch)
    assert totals.flops == 2 * float(once)
    losses = step.sentence_losses(batch, 7).numpy()
    assert losses.sum() == pytest.approx(entropy + penalty, rel=1e-4)


@pytest.mark.parametrize("row", [1, 4])
def test_a_loss_that_is_not_finite_in_either_pass_is_that_of_its_sentence(
    row, wet_step, monkeypatch, ragged_batch
):
    hidden = np.zeros((6, 7, 16), np.float32)
    hidden[row] = np.nan
    monkeypatch.setattr(wet_step, "_hidden", lambda *_: tf.constant(hidden))
    part = {name: ids[0] for name, ids in ragged_batch(parts=1).items()}
    losses = wet_step._sentence_losses(part, tf.constant(0, tf.int64)).numpy()
    assert np.isfinite(losses).tolist() == [True, False, True]


def test_masks_follow_seed_step_and_pass(wet_step, ragged_batch):
    part = {name: ids[0] for name, ids in ragged_batch(parts=1).items()}
    rows = [np.split(wet_step._hidden(part, tf.constant(n, tf.int64)), 2) for n in (3, 3, 4)]
    assert (rows[0][0] == rows[1][0]).all()
    assert (rows[0][1] == rows[1][1]).all()
    others = [rows[0][1], *rows[2]]
    assert all(np.abs(rows[0][0] - other).max() > 0.1 for other in others)


def test_without_it_a_step_takes_one_pass(ragged_batch):
    step = make_step(tf.distribute.MirroredStrategy(["CPU:0"]), "rdrop_alpha=0")
    part = {name: ids[0] for name, ids in ragged_batch().items()}
    assert step._hidden(part, tf.constant(0, tf.int64)).shape[0] == 3
    assert list(step.state) == ["window"]
    assert step.auxiliary_totals() == {}


def test_fit_refuses_what_it_would_leave_out(ragged_batch):
    hparams = registry.hparams("transformer_tiny").override(SMALL)
    model = Transformer(hparams.override(f"rdrop_alpha={ALPHA}"), VOCAB, VOCAB)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    features = {name: ids[0].numpy() for name, ids in ragged_batch().items()}
    with pytest.raises(UsageError, match=r"rdrop_alpha=5.0: R-Drop works in t2t-trainer"):
        model.fit(features, features["targets"], verbose=0)
    model.evaluate(features, features["targets"], verbose=0)


@pytest.mark.integration
def test_any_division_of_a_batch_is_the_whole_batch(strategy_over, ragged_batch):
    """With passes that differ by the same in every part; parts have unlike numbers of tokens."""
    settings, batch = f"{DRY},rdrop_alpha={ALPHA}", ragged_batch()
    whole, step = train(strategy_over(1), joined(batch), settings, model=TwoMinds)
    assert step.auxiliary_totals()["rdrop"] > 0.2
    for devices, more in ((1, ",loss_chunk_tokens=3"), (2, "")):
        found, _ = train(strategy_over(devices), batch, settings + more, model=TwoMinds)
        np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)


def assert_masks_follow_the_part(more, strategy_over, batch) -> None:
    """With dropout of everything; recomputed activations and chunks change nothing."""
    spared = f"{EVERYTHING}{more},loss_chunk_tokens=4,recompute_activations=true"
    one, first = train(strategy_over(1), batch, EVERYTHING + more)
    two, second = train(strategy_over(2), batch, spared)
    np.testing.assert_allclose(two, one, rtol=1e-5, atol=1e-5)
    assert second.auxiliary_totals() == pytest.approx(first.auxiliary_totals(), rel=1e-5)


@pytest.mark.integration
def test_masks_follow_the_part_not_the_device(strategy_over, ragged_batch):
    assert_masks_follow_the_part("", strategy_over, ragged_batch())


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_masks_follow_parts_that_weigh_equally(strategy_over, ragged_batch):
    assert_masks_follow_the_part(",optimizer=multistep_adam", strategy_over, ragged_batch())


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_losses_of_layers_see_both_passes(strategy_over, ragged_batch):
    """Experts: the same on one device, which accumulates, and on two."""
    experts = f"{EVERYTHING},moe_num_experts=4,moe_hidden_sizes=12,moe_loss_coef=0.5"
    results = [
        train(strategy_over(n), ragged_batch(parts=2), experts, base="transformer_moe_base")
        for n in (1, 2)
    ]
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    losses = [step.auxiliary_totals() for _, step in results]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0].keys() == {"expert_importance", "expert_load", "rdrop"}
    assert min(losses[0].values()) > 1e-4


@pytest.mark.integration
@pytest.mark.parametrize("chunk", [pytest.param(0, marks=pytest.mark.slow), 8])
def test_xla_computes_the_same(chunk, strategy_over, ragged_batch):
    settings = f"{DRY},rdrop_alpha={ALPHA},loss_chunk_tokens={chunk}"
    one, other = (
        train(strategy_over(1), ragged_batch(), f"{settings},xla_compile={xla}", model=TwoMinds)[0]
        for xla in ("false", "true")
    )
    np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.integration
@pytest.mark.parametrize("without_inputs", [False, True])
def test_a_classifier_and_a_language_model_learn_with_it(
    without_inputs, strategy_over, ragged_batch
):
    """Their loss falls, the penalty is there."""

    def language_model(hparams, _, size):
        return Transformer(hparams, 0, size)

    batch = ragged_batch()
    if not without_inputs:  # a label and EOS
        label = tf.reduce_max(batch["inputs"], axis=-1, keepdims=True)
        batch["targets"] = tf.concat([tf.maximum(label, 2), tf.ones_like(label)], axis=-1)
    step = make_step(
        strategy_over(1), WET, model=language_model if without_inputs else TransformerClassifier
    )
    losses = []
    for number in range(12):
        assert step(batch, number)
        totals = step.totals()
        losses.append(totals.loss / totals.tokens)
        assert step.auxiliary_totals()["rdrop"] > 0
    assert np.mean(losses[-3:]) < losses[0] - 0.3


@pytest.mark.integration
def test_half_precision_learns_as_float32_does(strategy_over, ragged_batch):
    """Without symbol_dropout, masks are the same to rounding of their rates."""
    found = {}
    for kind in ("float32", "bfloat16", "float16"):
        settings = f"{WET},dtype={kind},batch_size=32"
        step = make_step(strategy_over(1), settings, parts=2)
        batch = ragged_batch(parts=2)
        for number in range(8):
            assert step(batch, number)
        totals = step.totals()
        found[kind] = [totals.loss / totals.tokens, step.auxiliary_totals()["rdrop"] / 8]
    np.testing.assert_allclose(found["bfloat16"], found["float32"], rtol=0.1)
    np.testing.assert_allclose(found["float16"], found["float32"], rtol=0.1)
