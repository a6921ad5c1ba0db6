"""SimCut: its loss and gradient, what it cuts, and that a batch may be divided in any way."""

import types

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from support import training_steps
from support.limits import strategy_over
from support.rounding import assert_close
from support.terms import forward_terms, step_terms
from support.training_steps import DROPOUT, DRY, VOCAB, joined, ragged_batch, weights_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.layers.dense import DROPPED_ID, Embedding, OutputProjection
from t2t_lite.models.transformer import Transformer
from t2t_lite.text.sample import ALIGNMENT
from t2t_lite.text.text_encoder import EOS_ID
from t2t_lite.training import objectives
from t2t_lite.training.diagnosis import Diagnosis
from t2t_lite.training.objectives import simcut
from t2t_lite.training.objectives.simcut import SimCut, simcut_losses
from t2t_lite.training.objectives.two_passes import summed_pair_losses

PARTS, ALPHA = 2, 3.0
SMALL = (
    "num_hidden_layers=1,hidden_size=16,filter_size=32,num_heads=2,label_smoothing=0.1,"
    "learning_rate_schedule=constant,learning_rate_constant=0.1,clip_grad_norm=0,optimizer=sgd"
)
CUT = f"simcut_alpha={ALPHA},simcut_rate=0.4"
EXPERTS = "moe_num_experts=4,moe_hidden_sizes=12"
FORWARD = forward_terms(registry.hparams("transformer_base").override(SMALL), 7, VOCAB)
TERMS = step_terms(FORWARD, 2 * PARTS * 3 * 7)


def summed_loss(projection, hidden, targets, label_smoothing, alpha, chunk_tokens=8, scale=1.0):
    losses = simcut_losses(label_smoothing, alpha)
    return summed_pair_losses(projection, hidden, targets, losses, chunk_tokens, scale)


def make_step(strategy, overrides, parts=PARTS, base="transformer_base"):
    hparams = registry.hparams(base).override(SMALL).override(overrides)
    return training_steps.make_step(strategy, parts, lambda: Transformer(hparams, VOCAB, VOCAB))


def train(strategy, batch, overrides, **kwargs):
    """Returns how far one step moved the weights, as one vector, and the step object."""
    step = make_step(strategy, overrides, batch["inputs"].shape[0], **kwargs)
    before = weights_of(step.model)
    assert step(batch, 1)
    return weights_of(step.model) - before, step


def log_softmax(logits):
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def by_definition(plain, cut, targets, smoothing=0.1, alpha=ALPHA):
    """Cross entropy of the plain pass, and penalty, each summed over tokens; float64."""
    log_p, log_q = log_softmax(plain), log_softmax(cut)
    size = plain.shape[-1]
    labels = np.full(plain.shape, smoothing / (size - 1))
    labels[np.arange(len(targets)), targets] = 1 - smoothing
    entropies = (labels * (np.log(labels) - log_p)).sum(-1)
    penalties = alpha * (np.exp(log_p) * (log_p - log_q)).sum(-1)
    return entropies[targets != 0].sum(), penalties[targets != 0].sum()


# ---- the loss of given features


def by_differences(function, at):
    """Returns the gradient of a function of an array, from central differences."""
    gradient = np.zeros(at.shape)
    for place in np.ndindex(at.shape):
        step = np.zeros(at.shape)
        step[place] = 1e-5
        gradient[place] = (function(at + step) - function(at - step)) / 2e-5
    return gradient


@pytest.mark.parametrize(
    ("tokens", "chunks"),
    [
        (0, None),
        (1, None),
        pytest.param(6, None, marks=pytest.mark.integration),
        (6, [5]),
    ],
)
def test_value_and_gradients_are_those_of_the_definition(tokens, chunks, request):
    """However the tokens are divided, with XLA and without it; some are padding."""
    if chunks is None:
        request.getfixturevalue("eagerly")  # XLA takes a second for each length
    rng = np.random.default_rng(0)
    matrix, hidden = rng.normal(size=(7, 4)), rng.normal(size=(2, tokens, 4))
    targets = np.where(np.arange(tokens) % 4 == 3, 0, 5)
    embedding = Embedding(7, 4)
    embedding.matrix.assign(matrix)

    def loss(hidden, matrix):
        return 3.0 * sum(by_definition(hidden[0] @ matrix.T, hidden[1] @ matrix.T, targets))

    wanted = [
        loss(hidden, matrix),
        by_differences(lambda h: loss(h, matrix), hidden),
        by_differences(lambda m: loss(hidden, m), matrix),
    ]
    for chunk in chunks or (1, 2, 5, 100):
        features = tf.constant(hidden, tf.float32)
        with tf.GradientTape() as tape:
            tape.watch(features)
            total, penalty = summed_loss(
                OutputProjection(embedding),
                *(features, tf.constant(targets, tf.int32), 0.1, ALPHA, chunk, 3.0),
            )
        gradients = tape.gradient(total, [features, embedding.matrix.value])
        assert penalty <= total
        for one, other in zip([total, *gradients], wanted, strict=True):
            # Features, log-probabilities of ids, a sum over tokens; there and back.
            terms = 2 * (4 + 7 + tokens)
            assert_close(tf.convert_to_tensor(one), other, terms, scale=np.abs(wanted[0]) + 1e-9)


@pytest.mark.integration
def test_equal_passes_have_neither_penalty_nor_gradient_of_it():
    embedding = Embedding(11, 6)
    hidden = tf.tile(tf.random.stateless_normal([1, 5, 6], [1, 2]), [2, 1, 1])
    gradients = []
    for alpha in (ALPHA, 0.0):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            loss, penalty = summed_loss(
                OutputProjection(embedding), hidden, tf.fill([5], 3), 0.1, alpha
            )
        assert_close(penalty, 0.0, 6 + 11 + 5, scale=float(loss))
        gradients.append(tape.gradient(loss, hidden).numpy())
    assert_close(*gradients, 2 * (6 + 11))
    assert not gradients[1][1].any(), "without α, the cut pass has no part in the loss"


def test_extreme_logits_stay_finite():
    embedding = Embedding(3, 3, scaled=False)
    embedding.matrix.assign(np.eye(3))
    hidden = tf.constant([[[1e4, -1e4, 0.0]], [[-1e4, 1e4, 0.0]]])
    with tf.GradientTape() as tape:
        tape.watch(hidden)
        loss, penalty = summed_loss(
            OutputProjection(embedding), hidden, tf.constant([1]), 0.1, ALPHA
        )
    assert_close(penalty, ALPHA * 2e4, 3)
    assert np.isfinite(tape.gradient(loss, hidden)).all()


# ---- what is cut


def read(part, rate, seed=3):
    """Returns what the two passes read, each a dict of arrays."""
    model = types.SimpleNamespace(
        hparams=BasicHParams(simcut_rate=rate), seeds=keras.random.SeedGenerator(seed)
    )
    part = {name: tf.constant(ids, tf.int32) for name, ids in part.items()}
    both = SimCut().read(model, part)
    halves = {name: np.split(ids.numpy(), 2) for name, ids in both.items()}
    return [{name: half[i] for name, half in halves.items()} for i in (0, 1)]


rows = st.lists(st.integers(0, 5), min_size=6, max_size=6)


@given(
    inputs=st.lists(rows, min_size=2, max_size=2),
    targets=st.lists(rows, min_size=2, max_size=2),
    rate=st.floats(0.01, 0.99),
    seed=st.integers(0, 99),
)
def test_the_first_pass_is_whole_and_the_second_keeps_padding_and_ends(inputs, targets, rate, seed):
    part = {"inputs": inputs, "targets": targets, ALIGNMENT: targets}
    first, second = read(part, rate, seed)
    for name, ids in part.items():
        np.testing.assert_array_equal(first[name], ids)
    np.testing.assert_array_equal(second[ALIGNMENT], targets)
    for side in ("inputs", "targets"):
        changed = second[side] != first[side]
        assert (second[side][changed] == DROPPED_ID).all()
        assert (first[side][changed] > EOS_ID).all()


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_the_share_of_cut_subwords_is_the_rate_on_each_side(rate):
    ids = np.full((50, 100), 7)
    _, second = read({"inputs": ids, "targets": ids}, rate)
    cut = [second[side] == DROPPED_ID for side in ("inputs", "targets")]
    for side in cut:
        assert abs(side.mean() - rate) < 4 * (rate * (1 - rate) / side.size) ** 0.5
    assert (cut[0] != cut[1]).any(), "each side has a draw of its own"


def test_a_language_model_has_no_source_to_cut():
    _, second = read({"inputs": np.zeros((2, 0)), "targets": [[7, 7, 1], [7, 1, 0]]}, 0.9)
    assert second["inputs"].shape == (2, 0)
    assert (second["targets"] == DROPPED_ID).any()


# ---- the choice


def test_two_objectives_at_once_are_refused():
    hparams = BasicHParams(rdrop_alpha=5, simcut_alpha=3)
    with pytest.raises(UsageError, match=r"rdrop_alpha=5, simcut_alpha=3: .* set all but one"):
        objectives.objective_of(Transformer, hparams)


def test_every_objective_of_the_hparams_has_a_class():
    assert {"", *BasicHParams.objectives} == objectives._BY_HPARAM.keys()
    for name in BasicHParams.objectives:
        assert type(objectives.objective_of(Transformer, BasicHParams(**{name: 1.0}))).penalties


@pytest.mark.integration
def test_fit_refuses_what_it_would_leave_out():
    hparams = registry.hparams("transformer_tiny").override(SMALL).override(CUT)
    model = Transformer(hparams, VOCAB, VOCAB)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    features = {name: ids[0].numpy() for name, ids in ragged_batch().items()}
    with pytest.raises(UsageError, match=r"simcut_alpha=3.0: SimCut works in t2t-trainer"):
        model.fit(features, features["targets"], verbose=0)


# ---- the step


@pytest.fixture(scope="module")
def dry_step():
    """A step whose passes differ by cut subwords alone; nothing may change its weights."""
    return make_step(tf.distribute.MirroredStrategy(["CPU:0"]), f"{DRY},{CUT}", parts=1)


@pytest.mark.integration
def test_the_step_has_the_loss_of_its_two_passes(dry_step, eagerly):
    """In the metrics, the loss is the cross entropy alone; sentences have the whole loss."""
    step = dry_step
    batch = step.shapes.pad(ragged_batch(parts=1))
    part = {name: ids[0] for name, ids in batch.items()}
    with step.forward.calls.drawing_from(tf.constant([11, 7], tf.int64)):
        _, second = np.split(SimCut().read(step.model, part)["targets"], 2)
    assert (second == DROPPED_ID).any()
    logits = step.model.output_projection(step.forward.of_part(part, tf.constant(7, tf.int64))[0])
    plain, cut = (np.float64(half) for half in tf.split(logits, 2))
    assert_close(plain, step.model(part), FORWARD)
    targets = part["targets"].numpy()
    present = targets != 0
    entropy, penalty = by_definition(plain[present], cut[present], targets[present])
    before = [variable.numpy() for variable in step.variables]
    step.window.take(), step.window.take_auxiliary()
    step(batch, 7)
    totals = step.window.take()
    for variable, value in zip(step.variables, before, strict=True):
        variable.assign(value)
    assert totals.tokens == present.sum()
    terms = FORWARD + totals.tokens
    assert_close(totals.loss, entropy, terms)
    assert penalty > 0.01 * totals.tokens
    (found,) = step.window.take_auxiliary().values()
    assert_close(found * totals.tokens, penalty, terms, scale=ALPHA * entropy)
    once = make_step(step.strategy, "simcut_alpha=0").flops.training(batch)
    assert totals.flops == 2 * float(once)
    losses = Diagnosis(step).sentence_losses(batch, 7).numpy()
    assert_close(losses.sum(), entropy + penalty, terms, scale=ALPHA * entropy)


@pytest.mark.integration
def test_what_is_cut_follows_seed_step_and_part(dry_step):
    part = {name: ids[0] for name, ids in ragged_batch(parts=1).items()}
    numbers = tf.constant([3, 3, 4], tf.int64)
    rows = [np.split(dry_step.forward.of_part(part, number)[0], 2) for number in numbers]
    assert (rows[0][1] == rows[1][1]).all()
    assert np.abs(rows[0][1] - rows[2][1]).max() > 0.01
    for plain, _ in rows:
        assert_close(plain, rows[0][0], FORWARD)


@pytest.mark.integration
def test_any_division_of_a_batch_is_the_whole_batch(monkeypatch, eagerly):
    """With cuts that are the same in every part; parts have unlike numbers of tokens."""
    monkeypatch.setattr(
        simcut, "drop_symbols", lambda ids, rate, seeds: tf.where(ids % 3 == 2, DROPPED_ID, ids)
    )
    settings, batch = f"{DRY},{CUT}", ragged_batch()
    one = tf.distribute.MirroredStrategy(["CPU:0"])
    divided, _ = train(one, batch, settings)
    whole, step = train(one, joined(batch), settings)
    assert step.window.take_auxiliary()["simcut"] > 0.01
    assert np.abs(whole).max() > 0.01
    assert_close(divided, whole, TERMS, scale=1.0)


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_masks_follow_the_part_not_the_device():
    """With every dropout and losses of layers; recomputation and chunks change nothing."""
    base, settings = "transformer_moe_base", f"{DROPOUT},symbol_dropout=0.2,{CUT},{EXPERTS}"
    spared = f"{settings},loss_chunk_tokens=4,recompute_activations=true"
    moved, first = train(strategy_over(1), ragged_batch(), settings, base=base)
    found, second = train(strategy_over(2), ragged_batch(), spared, base=base)
    assert np.abs(moved).max() > 0.01
    assert_close(found, moved, TERMS, scale=1.0)
    wanted, losses = (step.window.take_auxiliary() for step in (first, second))
    assert wanted.keys() == losses.keys() > {"simcut"}
    for name, loss in wanted.items():
        assert_close(losses[name], loss, TERMS)


@pytest.mark.integration
def test_losses_of_layers_see_both_passes():
    """Experts share twice as many tokens."""
    part = {name: ids[0] for name, ids in ragged_batch().items()}
    step = make_step(strategy_over(1), f"{DRY},{CUT},{EXPERTS}", base="transformer_moe_base")
    _, statistics = step.forward.of_part(part, tf.constant(0, tf.int64))
    tokens = [round(float(tf.reduce_sum(each["importance"]))) for each in statistics]
    assert tokens == [2 * np.count_nonzero(part[side]) for side in ("inputs", "targets")]
