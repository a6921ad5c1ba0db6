"""R-Drop: its loss and gradient, and that they are the same for any division of a batch."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support import training_steps
from support.limits import strategy_over
from support.marks import HALVES, by_name
from support.rounding import assert_close
from support.terms import forward_terms, step_terms
from support.training_steps import (
    DROPOUT,
    DRY,
    EQUAL_PARTS,
    OPERATIONS,
    VOCAB,
    joined,
    ragged_batch,
    values_of,
    weights_of,
)
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.dense import Embedding, OutputProjection
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_encoder import TransformerClassifier
from t2t_lite.training.diagnosis import Diagnosis
from t2t_lite.training.losses import smoothed_cross_entropy
from t2t_lite.training.objectives.rdrop import RDrop, rdrop_losses
from t2t_lite.training.objectives.two_passes import _chunk_length, summed_pair_losses

PARTS, ALPHA = 2, 5.0
SMALL = (
    "num_hidden_layers=1,hidden_size=16,filter_size=32,num_heads=2,label_smoothing=0.1,"
    "learning_rate_schedule=constant,learning_rate_constant=0.1,clip_grad_norm=0,optimizer=sgd"
)
ONE_LAYER = "num_encoder_layers=1,num_decoder_layers=1"  # of the Evolved Transformer
WET = f"{DROPOUT},rdrop_alpha={ALPHA}"
EXACT_DROPOUT = "layer_prepostprocess_dropout=0.2,attention_dropout=0.5,relu_dropout=0.2"
EVERYTHING = f"{WET},symbol_dropout=0.2"
FORWARD = forward_terms(registry.hparams("transformer_base").override(SMALL), 7, VOCAB)
# Of a step with parts of 3 targets of 7 positions, in two passes.
TERMS = step_terms(FORWARD, 2 * PARTS * 3 * 7)


class TwoMinds(Transformer):
    """A model whose passes differ without any dropout, so that a batch may be divided."""

    def hidden(self, features, training=False):
        hidden = super().hidden(features, training)
        rows = ops.shape(hidden)[0]
        second = ops.arange(rows) >= rows // 2
        factor = ops.where(second & (self.hparams.rdrop_alpha > 0), 0.5, 1.0)
        return hidden * ops.cast(factor, hidden.dtype)[:, None, None]


def summed_loss(projection, hidden, targets, label_smoothing, alpha, chunk_tokens=8, scale=1.0):
    losses = rdrop_losses(label_smoothing, alpha)
    return summed_pair_losses(projection, hidden, targets, losses, chunk_tokens, scale)


def make_step(strategy, overrides, parts=PARTS, model=Transformer, base="transformer_base"):
    hparams = registry.hparams(base).override(SMALL).override(overrides)
    return training_steps.make_step(strategy, parts, lambda: model(hparams, VOCAB, VOCAB))


def train(strategy, batch, overrides, **kwargs):
    """Returns how far one step moved the weights, as one vector, and the step object."""
    step = make_step(strategy, overrides, batch["inputs"].shape[0], **kwargs)
    before = weights_of(step.model)
    assert step(batch, 1)
    return weights_of(step.model) - before, step


def assert_moved_alike(found, wanted) -> None:
    """Compares movements of weights of a size of 1."""
    assert np.abs(wanted).max() > 0.01
    assert_close(found, wanted, TERMS, scale=1.0)


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


@pytest.mark.parametrize(
    ("tokens", "chunks"),
    [
        (0, None),
        (1, None),
        pytest.param(14, None, marks=pytest.mark.integration),
        (14, [5]),
    ],
)
def test_value_and_gradients_are_those_of_the_definition(tokens, chunks, request):
    """However the tokens are divided, with XLA and without it; some are padding."""
    if chunks is None:
        request.getfixturevalue("eagerly")  # XLA takes a second for each length
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
    for chunk in chunks or (1, 2, 5, 100):
        arguments = (projection, hidden, targets, 0.1, ALPHA, chunk, 3.0)
        found = with_gradients(lambda arguments=arguments: summed_loss(*arguments)[0])
        for one, other in zip(found, wanted, strict=True):
            # Features, log-probabilities of ids, a sum over tokens; there and back.
            assert_close(one, other, 2 * (6 + 11 + tokens))


@pytest.mark.parametrize("longest", [1, 5, 64, 1024])
def test_chunks_need_little_padding_and_are_few(longest):
    lengths, more, step = set(), max(1, longest // 16), -(-longest // 16)
    for tokens in range(0, 5 * longest, max(1, longest // 64)):
        length = int(_chunk_length(tf.constant(tokens), longest))
        lengths.add(length)
        chunks, fewest = (max(1, -(-tokens // one)) for one in (length, longest))
        # As few as can be, of equal length, which a step of the lengths rounds up, take no less.
        assert chunks * length >= tokens
        assert chunks * (length + more) <= tokens + fewest * (step + more)
    assert len(lengths) <= 16, "XLA compiles for each"


@pytest.mark.integration
def test_equal_passes_have_no_penalty():
    embedding = Embedding(11, 6)
    hidden = tf.tile(tf.random.stateless_normal([1, 5, 6], [1, 2]), [2, 1, 1])
    targets = tf.fill([5], 3)
    gradients = []
    for alpha in (ALPHA, 0.0):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            projection = OutputProjection(embedding)
            loss, penalty = summed_loss(projection, hidden, targets, 0.1, alpha)
        assert_close(penalty, 0.0, 6 + 11 + 5, scale=float(loss))
        gradients.append(tape.gradient(loss, hidden).numpy())
    assert_close(*gradients, 2 * (6 + 11))


@pytest.mark.integration
def test_extreme_logits_stay_finite():
    embedding = Embedding(3, 3, scaled=False)
    embedding.matrix.assign(np.eye(3))
    hidden = tf.constant([[[1e4, -1e4, 0.0]], [[-1e4, 1e4, 0.0]]])
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        projection = OutputProjection(embedding)
        loss, penalty = summed_loss(projection, hidden, tf.constant([1]), 0.1, ALPHA)
    assert_close(penalty, ALPHA / 4 * 4e4, 3)
    assert np.isfinite(tape.gradient(loss, hidden)).all()


# ---- the step


@pytest.fixture(scope="module")
def wet_step():
    """A step with all kinds of dropout; nothing may change its weights."""
    return make_step(tf.distribute.MirroredStrategy(["CPU:0"]), EVERYTHING, parts=1)


@pytest.mark.integration
def test_the_step_has_the_loss_of_its_two_passes(wet_step, eagerly):
    """In the metrics, the loss is the cross entropy alone; sentences have the whole loss."""
    step, batch = wet_step, ragged_batch(parts=1)
    batch = step.shapes.pad(batch)
    part = {name: ids[0] for name, ids in batch.items()}
    logits = step.model.output_projection(step.forward.of_part(part, tf.constant(7, tf.int64))[0])
    present = part["targets"].numpy() != 0
    first, second = (half.numpy()[present] for half in tf.split(logits, 2))
    assert np.abs(first - second).max() > 0.1, "the passes have different masks"
    entropy, penalty = by_definition(first, second, part["targets"].numpy()[present])
    before = values_of(step.variables)
    step.window.take(), step.window.take_auxiliary()
    step(batch, 7)
    totals = step.window.take()
    for variable, value in zip(step.variables, before, strict=True):
        variable.assign(value)
    assert totals.tokens == present.sum()
    terms = FORWARD + totals.tokens
    assert_close(totals.loss, entropy, terms)
    assert penalty > 0.1 * totals.tokens
    # The penalty is a sum of differences of log-probabilities.
    (rdrop,) = step.window.take_auxiliary().values()
    assert_close(rdrop * totals.tokens, penalty, terms, scale=ALPHA * entropy)
    once = make_step(step.strategy, "rdrop_alpha=0").flops.training(batch)
    assert totals.flops == 2 * float(once)
    losses = Diagnosis(step).sentence_losses(batch, 7).numpy()
    assert_close(losses.sum(), entropy + penalty, terms, scale=ALPHA * entropy)


@pytest.mark.integration
@pytest.mark.parametrize("row", [1, 4])
def test_a_loss_that_is_not_finite_in_either_pass_is_that_of_its_sentence(
    row, wet_step, monkeypatch
):
    hidden = np.zeros((6, 7, 16), np.float32)
    hidden[row] = np.nan
    monkeypatch.setattr(wet_step.forward, "of_part", lambda *_: (tf.constant(hidden), []))
    part = {name: ids[0] for name, ids in ragged_batch(parts=1).items()}
    losses = Diagnosis(wet_step)._compiled(part, tf.constant(0, tf.int64)).numpy()
    assert np.isfinite(losses).tolist() == [True, False, True]


@pytest.mark.integration
def test_masks_follow_seed_step_and_pass(wet_step):
    part = {name: ids[0] for name, ids in ragged_batch(parts=1).items()}
    numbers = tf.constant([3, 3, 4], tf.int64)
    rows = [np.split(wet_step.forward.of_part(part, number)[0], 2) for number in numbers]
    assert (rows[0][0] == rows[1][0]).all()
    assert (rows[0][1] == rows[1][1]).all()
    others = [rows[0][1], *rows[2]]
    assert all(np.abs(rows[0][0] - other).max() > 0.1 for other in others)


@pytest.mark.integration
def test_without_it_a_step_takes_one_pass():
    step = make_step(tf.distribute.MirroredStrategy(["CPU:0"]), "rdrop_alpha=0")
    part = {name: ids[0] for name, ids in ragged_batch().items()}
    assert step.forward.of_part(part, tf.constant(0, tf.int64))[0].shape[0] == 3
    assert list(step.state) == ["window"]
    assert step.window.take_auxiliary() == {}


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model", "base", "rates", "differs"),
    [
        ("evolved_transformer", "evolved_transformer_tiny", f"relu_dropout=0.4,{ONE_LAYER}", False),
        (
            *("evolved_transformer", "evolved_transformer_tiny"),
            *(f"attention_dropout=0.3,{ONE_LAYER}", True),
        ),
        ("transformer", "transformer_tiny", "relu_dropout=0.4", True),
        ("transformer", "transformer_tiny", "symbol_dropout=0.2", True),
    ],
)
def test_a_model_whose_passes_are_equal_is_refused(model, base, rates, differs):
    hparams = registry.hparams(base).override(f"{SMALL},{DRY}").override(rates)
    with strategy_over(2).scope():
        network = registry.model(model)(hparams.override(f"rdrop_alpha={ALPHA}"), VOCAB, VOCAB)
    if differs:
        RDrop().require_effect(network)
    else:
        with pytest.raises(UsageError, match="those of this EvolvedTransformer are the same"):
            RDrop().require_effect(network)


@pytest.mark.integration
def test_fit_refuses_what_it_would_leave_out():
    hparams = registry.hparams("transformer_tiny").override(SMALL)
    model = Transformer(hparams.override(f"rdrop_alpha={ALPHA}"), VOCAB, VOCAB)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    features = {name: ids[0].numpy() for name, ids in ragged_batch().items()}
    with pytest.raises(UsageError, match=r"rdrop_alpha=5.0: R-Drop works in t2t-trainer"):
        model.fit(features, features["targets"], verbose=0)
    model.evaluate(features, features["targets"], verbose=0)


@pytest.fixture(scope="module")
def divided():
    """How far an accumulating step moves the weights of passes that differ without dropout."""
    one = tf.distribute.MirroredStrategy(["CPU:0"])
    return train(one, ragged_batch(), f"{DRY},rdrop_alpha={ALPHA}", model=TwoMinds)


@pytest.mark.integration
def test_any_division_of_a_batch_is_the_whole_batch(divided, eagerly):
    """With passes that differ by the same in every part; parts have unlike numbers of tokens."""
    settings, batch = f"{DRY},rdrop_alpha={ALPHA}", joined(ragged_batch())
    whole, step = train(strategy_over(1), batch, settings, model=TwoMinds)
    assert step.window.take_auxiliary()["rdrop"] > 0.2
    assert_moved_alike(divided[0], whole)


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
# What parts of equal weight multiply is the whole loss, the penalty included: the scale above.
@pytest.mark.parametrize("more", ["", *by_name(f",{EQUAL_PARTS}", ",decoder_self=ssru")])
def test_masks_follow_the_part_not_the_device(more):
    """With dropout of everything; recomputed activations and chunks change nothing."""
    spared = f"{EVERYTHING}{more},loss_chunk_tokens=4,recompute_activations=true"
    one, first = train(strategy_over(1), ragged_batch(), EVERYTHING + more)
    two, second = train(strategy_over(2), ragged_batch(), spared)
    assert_moved_alike(two, one)
    (rdrop,), (wanted,) = (step.window.take_auxiliary().values() for step in (second, first))
    assert_close(rdrop, wanted, TERMS)


@pytest.mark.integration
def test_losses_of_layers_see_both_passes():
    """Experts share twice as many tokens."""
    part = {name: ids[0] for name, ids in ragged_batch().items()}
    experts = f"{DROPOUT},moe_num_experts=4,moe_hidden_sizes=12"
    tokens = {}
    for alpha in (ALPHA, 0):
        overrides = f"{experts},rdrop_alpha={alpha}"
        step = make_step(strategy_over(1), overrides, base="transformer_moe_base")
        _, statistics = step.forward.of_part(part, tf.constant(0, tf.int64))
        tokens[alpha] = [round(float(tf.reduce_sum(each["importance"]))) for each in statistics]
    assert tokens[0] == [np.count_nonzero(part[side]) for side in ("inputs", "targets")]
    assert tokens[ALPHA] == [2 * count for count in tokens[0]]


@pytest.mark.integration
def test_xla_computes_the_same(divided):
    settings = f"{DRY},rdrop_alpha={ALPHA},loss_chunk_tokens=8,xla_compile=true"
    found, _ = train(strategy_over(1), ragged_batch(), settings, model=TwoMinds)
    assert_moved_alike(found, divided[0])


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("without_inputs", [False, True])
def test_a_classifier_and_a_language_model_learn_with_it(without_inputs):
    """Their loss falls, the penalty is there."""

    def language_model(hparams, _, size):
        return Transformer(hparams, 0, size)

    batch = joined(ragged_batch())
    if not without_inputs:  # a label and EOS
        label = tf.reduce_max(batch["inputs"], axis=-1, keepdims=True)
        batch["targets"] = tf.concat([tf.maximum(label, 2), tf.ones_like(label)], axis=-1)
    adam = f"{WET},optimizer=adam,learning_rate_constant=0.03"
    model = language_model if without_inputs else TransformerClassifier
    step = make_step(strategy_over(1), adam, parts=1, model=model)
    losses = []
    for number in range(6):
        assert step(batch, number)
        totals = step.window.take()
        losses.append(totals.loss / totals.tokens)
        assert step.window.take_auxiliary()["rdrop"] > 0
    assert np.mean(losses[-2:]) < losses[0] - 0.3


@functools.cache
def moved_totals_and_penalty(dtype):
    """Returns what a step of a dtype does and finds."""
    wet = f"{EXACT_DROPOUT},rdrop_alpha={ALPHA},dtype={dtype},batch_size=32"
    moved, step = train(strategy_over(1), ragged_batch(), wet)
    return moved, step.window.take(), step.window.take_auxiliary()["rdrop"]


@pytest.mark.integration
@pytest.mark.parametrize("dtype", HALVES)
def test_half_precision_moves_as_float32_does(dtype, eagerly):
    """Without symbol_dropout, masks are the same if no dtype rounds 1 / (1 - rate)."""
    wanted, totals, penalty = moved_totals_and_penalty("float32")
    found, half_totals, half_penalty = moved_totals_and_penalty(dtype)
    assert_close(found, wanted, 2 * OPERATIONS, dtype=dtype)  # there and back
    assert_close(half_totals.loss, totals.loss, OPERATIONS, dtype=dtype)
    # A sum of differences of log-probabilities.
    scale = ALPHA * totals.loss / totals.tokens
    assert_close(half_penalty, penalty, OPERATIONS, dtype=dtype, scale=scale)
