"""Losses beside that of the tokens: the same for any division of a batch."""

import keras
import pytest
import tensorflow as tf
from keras import ops

from support.limits import strategy_over
from support.rounding import assert_close
from support.terms import forward_terms, step_terms
from support.training_steps import (
    DROPOUT,
    DRY,
    EQUAL_PARTS,
    OPERATIONS,
    VOCAB,
    joined,
    make_step,
    ragged_batch,
    weights_of,
)
from t2t_lite import registry
from t2t_lite.layers.auxiliary_losses import AuxiliaryLayer
from t2t_lite.models.auxiliary_losses import (
    auxiliary_losses,
    hidden_and_statistics,
)
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.universal_transformer import UniversalTransformer
from t2t_lite.training.losses import summed_loss

SMALL = (
    "num_hidden_layers=1,hidden_size=16,filter_size=32,num_heads=2,optimizer=sgd,clip_grad_norm=0,"
    "learning_rate_schedule=constant,learning_rate_constant=0.3,label_smoothing=0"
)
FORWARD = forward_terms(registry.hparams("transformer_base").override(SMALL), 7, VOCAB)
# Of two steps with 4 parts, and of one with 2, of 3 targets of 7 positions.
TERMS, TERMS_OF_ONE = 2 * step_terms(FORWARD, 4 * 3 * 7), step_terms(FORWARD, 2 * 3 * 7)


class Balance(AuxiliaryLayer):
    """Shares tokens among four classes; unequal shares cost CV², which is far from linear."""

    @property
    def statistics_shapes(self):
        return {"shares": (4,), "tokens": ()}

    def __init__(self, weight, **kwargs):
        super().__init__(**kwargs)
        self.weight = weight
        self.kernel = self.add_weight(shape=(16, 4), name="kernel")

    def call(self, x, ids, training=False):
        if training:
            shares = ops.softmax(4.0 * ops.cast(x, "float32") @ self.kernel)
            real = ops.cast(ids != 0, "float32")
            self.add_statistics(
                {"shares": ops.sum(shares * real[..., None], axis=(0, 1)), "tokens": ops.sum(real)}
            )
        return x

    def auxiliary_losses(self, sums):
        shares = sums["shares"]
        return {
            "balance": self.weight * ops.var(shares) / (ops.mean(shares) ** 2 + 1e-10),
            "mean": 0.1 * ops.max(shares) / (sums["tokens"] + 1e-10),
        }


class Balanced(Transformer):
    """A Transformer that balances both sides."""

    def make_layers(self):
        super().make_layers()
        self.source_balance, self.target_balance = Balance(0.5), Balance(0.7)

    def hidden(self, features, training=False):
        memory = self.encode(features["inputs"], training)
        self.source_balance(memory[0], features["inputs"], training=training)
        hidden = self.decoder(features["targets"], memory, training=training)
        self.target_balance(hidden, features["targets"], training=training)
        return hidden


def balanced(overrides=DRY):
    hparams = registry.hparams("transformer_base").override(SMALL).override(overrides)
    return Balanced(hparams, VOCAB, VOCAB)


def with_experts(overrides=DRY):
    experts = "moe_num_experts=4,moe_hidden_sizes=12,moe_loss_coef=0.5"
    hparams = registry.hparams("transformer_moe_base").override(SMALL).override(experts)
    return Transformer(hparams.override(overrides), VOCAB, VOCAB)


def adaptive(overrides=DRY):
    hparams = registry.hparams("adaptive_universal_transformer_tiny").override(SMALL)
    return UniversalTransformer(hparams.override(f"act_max_steps=2,{overrides}"), VOCAB, VOCAB)


def train(strategy, batch, overrides=DRY, steps=2, make=balanced):
    """Returns how far some steps moved the weights, and the auxiliary losses of each step."""
    step = make_step(strategy, batch["inputs"].shape[0], lambda: make(overrides))
    before, losses = weights_of(step.model), []
    for number in range(steps):
        assert step(batch, number)
        losses.append(step.window.take_auxiliary())
    return weights_of(step.model) - before, losses


def by_definition(batch, steps=2):
    """As `train`, without a step: the loss of the whole batch as one."""
    keras.utils.set_random_seed(3)
    model, losses = balanced(), []
    before = weights_of(model)
    whole = {name: ids[0] for name, ids in joined(batch).items()}
    for _ in range(steps):
        with tf.GradientTape() as tape:
            hidden, statistics = hidden_and_statistics(model, whole, training=True)
            auxiliary = auxiliary_losses(model, statistics)
            tokens = tf.cast(tf.math.count_nonzero(whole["targets"]), tf.float32)
            loss = summed_loss(model, hidden, whole["targets"]) / tokens
            loss += tf.add_n(list(auxiliary.values()))
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
            variable.assign_sub(0.3 * gradient)
        losses.append({name: float(value) for name, value in auxiliary.items()})
    return weights_of(model) - before, losses


def assert_same(found, wanted, terms=TERMS, dtype="float32"):
    """Compares movements of weights of a size of 1, and losses that are differences of ratios."""
    # A half precision rounds the movement, not the weights.
    assert_close(found[0], wanted[0], terms, dtype=dtype, scale=1.0 if dtype == "float32" else None)
    for one, other in zip(found[1], wanted[1], strict=True):
        assert one.keys() == other.keys()
        assert_close([*one.values()], [*other.values()], terms, dtype=dtype, scale=1.0)


@pytest.fixture(scope="module")
def defined():
    return by_definition(ragged_batch(4))


@pytest.mark.integration
def test_accumulated_parts_have_the_loss_of_the_whole_batch(defined):
    found = train(tf.distribute.MirroredStrategy(["CPU:0"]), ragged_batch(4))
    assert_same(found, defined)
    assert found[1][0]["balance"] > 0.01
    assert found[1][0].keys() == {"balance", "mean"}
    assert abs(found[1][0]["balance"] / found[1][1]["balance"] - 1) > 0.05, "it must have learnt"


@pytest.mark.integration
def test_four_devices_have_the_loss_of_the_whole_batch(defined, eagerly):
    assert_same(train(strategy_over(4), ragged_batch(4)), defined)


@pytest.mark.integration
@pytest.mark.parametrize("overrides", ["", f"{EQUAL_PARTS},recompute_activations=1"])
def test_masks_are_the_same_in_both_passes(overrides, eagerly):
    """One device takes a first pass for the sums, two do not."""
    settings = ",".join(filter(None, (DROPOUT, overrides)))
    one, two = (train(strategy_over(n), ragged_batch(), settings, steps=1) for n in (1, 2))
    assert_same(one, two, TERMS_OF_ONE)


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
def test_experts_are_the_same_on_one_and_two_devices():
    """With noise and dropout, which follow the part; one device accumulates."""
    one, two = (
        train(strategy_over(n), ragged_batch(), DROPOUT, steps=1, make=with_experts) for n in (1, 2)
    )
    assert_same(two, one, TERMS_OF_ONE)
    assert one[1][0]["expert_importance"] > 1e-4 < one[1][0]["expert_load"]


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize(
    ("make", "weight", "names"),
    [
        (adaptive, "act_loss_weight", {"act"}),
        (with_experts, "moe_loss_coef", {"expert_importance", "expert_load"}),
    ],
)
def test_losses_may_have_weight_0(make, weight, names):
    """The same with and without accumulation."""
    batch, settings = ragged_batch(), f"{DRY},{weight}=0"
    for parts in (joined(batch), batch):
        _, losses = train(strategy_over(1), parts, settings, steps=1, make=make)
        assert losses == [dict.fromkeys(names, 0.0)]


@pytest.mark.integration
def test_equal_parts_leave_the_auxiliary_loss_alone(eagerly):
    """multistep_adam changes what a token weighs, not what the auxiliary losses are."""
    _, plain = train(strategy_over(1), ragged_batch(), steps=1)
    _, equal = train(strategy_over(1), ragged_batch(), f"{DRY},{EQUAL_PARTS}", steps=1)
    assert plain == equal, "of the same forward pass"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("overrides", "dtype"),
    [
        ("xla_compile=1,loss_chunk_tokens=4", "float32"),
        pytest.param("dtype=float16,batch_size=32", "float16", marks=pytest.mark.float16),
    ],
)
def test_it_works_with(overrides, dtype, defined):
    terms = TERMS if dtype == "float32" else 2 * 2 * OPERATIONS  # of two steps, there and back
    found = train(strategy_over(1), ragged_batch(4), f"{DRY},{overrides}")
    assert_same(found, defined, terms, dtype)


def test_models_without_auxiliary_losses_have_no_window():
    hparams = registry.hparams("transformer_base").override(f"{SMALL},{DRY}")
    model = Transformer(hparams, VOCAB, VOCAB)
    assert model.auxiliary_layers == []
    step = make_step(strategy_over(1), 4, lambda: model)
    assert step.state.keys() == {"window"}
    assert step.window.take_auxiliary() == {}


@pytest.mark.integration
def test_keras_adds_the_losses_in_training_alone():
    model = balanced()
    features = {name: ids.numpy()[0] for name, ids in joined(ragged_batch()).items()}
    statistics = hidden_and_statistics(model, features, training=True)[1]
    wanted = sum(float(loss) for loss in auxiliary_losses(model, statistics).values())
    for _ in range(2):
        model(features, training=True)
        assert_close(sum(map(float, model.losses)), wanted, TERMS)
    model(features)
    assert model.losses == []

    model.compile(
        keras.optimizers.SGD(0.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
    )
    tokens = model.evaluate(features, features["targets"], verbose=0, batch_size=12)
    history = model.fit(features, features["targets"], verbose=0, batch_size=12, epochs=2)
    assert_close(history.history["loss"], [tokens + wanted] * 2, TERMS)
