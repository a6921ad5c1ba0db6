"""Mixtures of experts, against numbers recorded from T2T's expert_utils."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.layers.auxiliary_losses import collected_statistics
from t2t_lite.layers.mixture_of_experts import (
    MixtureOfExperts,
    NoisyTopKGating,
    cv_squared,
    in_top_k_probability,
)


@pytest.fixture(scope="module")
def units(golden):
    return np.load(golden / "compared" / "units" / "units_moe.npz")


# Of the recorded layers: a gate is a product over 6 features and a softmax over 5 experts, an
# expert two products over 6 and 8, and losses add up 12 tokens; a gradient passes all that twice.
TERMS = 2 * (6 + 5 + 6 + 8 + 12)


@pytest.fixture
def draw(monkeypatch):
    """Makes the gate draw recorded noise."""

    def set_noise(noise):
        monkeypatch.setattr(keras.random, "normal", lambda shape, seed: tf.constant(noise))

    return set_noise


# What was recorded: k, whether there is noise at all, and whether it is on.
GATES = {
    "gating_clean_k2": (2, 0.0, True),
    "gating_eval_k2": (2, 1.0, False),
    "gating_noise_k1": (1, 1.0, True),
    "gating_noise_k2": (2, 1.0, True),
    "gating_noise_k3": (3, 1.0, True),
    "gating_all": (5, 1.0, True),
}


@pytest.mark.parametrize("name", GATES)
def test_gates_losses_and_gradients_are_those_of_t2t(name, units, draw):
    k, noise, training = GATES[name]
    layer = NoisyTopKGating(6, 5, k, noise)
    layer.w_gate.assign(units[f"{name}/weights/g/w_gate"])
    if noise:
        layer.w_noise.assign(units[f"{name}/weights/g/w_noise"])
    if f"{name}/noise" in units:
        draw(units[f"{name}/noise"])
    x = tf.constant(units[f"{name}/x"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        routes = layer(x, training=training)
        gates = ops.sum(ops.one_hot(routes.experts, 5) * routes.gates[..., None], axis=1)
        importance, load = ops.sum(gates, axis=0), ops.sum(routes.load, axis=0)
        loss = cv_squared(importance) + cv_squared(load)
    recorded = {key.removeprefix(f"{name}/"): units[key] for key in units if key.startswith(name)}
    assert_close(gates, recorded["gates"], TERMS)
    assert_close(importance, recorded["importance"], TERMS)
    assert_close(load, recorded["load"], TERMS)
    assert_close(cv_squared(importance), recorded["cv_importance"], TERMS)
    assert_close(cv_squared(load), recorded["cv_load"], TERMS)
    variables = {"x": x} | {f"g/{v.name}": v.value for v in layer.trainable_variables}
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    seen = [key for key in recorded if key.startswith("grad/")]
    assert len(seen) == (0 if not training else 3 if noise else 2)
    if f"{name}/loss" in units and seen:
        for key in seen:
            assert_close(
                gradients[key.removeprefix("grad/")] * recorded["loss"] / loss, recorded[key], TERMS
            )


@pytest.mark.parametrize("name", ["cv_squared", "cv_squared_zeros", "cv_squared_one"])
def test_the_coefficient_of_variation_is_that_of_t2t(name, units):
    x = tf.constant(units[f"{name}/x"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        out = cv_squared(x)
    assert_close(out, units[f"{name}/out"], TERMS)
    assert_close(tape.gradient(out, x), units[f"{name}/grad/x"], TERMS)


def test_the_probability_of_being_chosen_is_that_of_t2t(units):
    arguments = (units[f"prob_in_top_k/{name}"] for name in ("clean", "noisy", "stddev", "top"))
    assert_close(in_top_k_probability(*arguments, 2), units["prob_in_top_k/prob"], TERMS)


def recorded_mixture(units, name, **kwargs):
    """The layer with T2T's weights."""
    k = int(name[-1])
    layer = MixtureOfExperts(6, 8, 5, k, loss_coef=0.01, **kwargs)
    prefix = f"{name}/weights/moe/"
    layer.gating.w_gate.assign(units[f"{prefix}noisy_top_k_gating/w_gate"])
    layer.gating.w_noise.assign(units[f"{prefix}noisy_top_k_gating/w_noise"])
    for number, kernel in enumerate((layer.expand, layer.contract)):
        kernel.assign(np.stack([units[f"{prefix}parallel_{e}/w_{number}"] for e in range(5)]))
    return layer


def test_the_mixture_is_local_moe(units, draw):
    name = "local_moe_k2"
    layer = recorded_mixture(units, name)
    draw(units[f"{name}/noise"])
    x = tf.constant(units[f"{name}/x"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True)
        (loss,) = layer.losses
        total = tf.reduce_sum(y**2) + loss
    assert_close(y, units[f"{name}/y"], TERMS)
    assert_close(loss, units[f"{name}/loss"], TERMS)
    kernels = (layer.gating.w_gate, layer.gating.w_noise, layer.expand, layer.contract)
    found = tape.gradient(total, [x, *(kernel.value for kernel in kernels)])
    by_x, by_gate, by_noise, *by_experts = map(tf.convert_to_tensor, found)
    gradients = f"{name}/grad/"
    assert_close(by_x, units[f"{gradients}x"], TERMS)
    assert_close(by_gate, units[f"{gradients}moe/noisy_top_k_gating/w_gate"], TERMS)
    assert_close(by_noise, units[f"{gradients}moe/noisy_top_k_gating/w_noise"], TERMS)
    for number, by_kernel in enumerate(by_experts):
        for e in range(5):
            assert_close(by_kernel[e], units[f"{gradients}moe/parallel_{e}/w_{number}"], TERMS)


def test_evaluation_is_that_of_t2t_without_noise(units):
    layer = recorded_mixture(units, "local_moe_eval_k1")
    assert_close(layer(units["local_moe_eval_k1/x"]), units["local_moe_eval_k1/y"], TERMS)
    assert layer.losses == []


def mixture(num_experts=5, k=2, **kwargs):
    layer = MixtureOfExperts(8, 12, num_experts, k, **kwargs)
    for number, weight in enumerate(layer.trainable_variables):
        weight.assign(np.random.RandomState(number).normal(size=weight.shape))
    return layer


# Of the gate, an expert, and their sum, with up to 8 experts.
OWN_TERMS = (8 + 8) + (8 + 12) + 8


def by_definition(layer, x):
    """One token and one expert after another."""
    y = np.zeros_like(x)
    weights = (layer.gating.w_gate, layer.expand, layer.contract)
    gate, expand, contract = map(ops.convert_to_numpy, weights)
    for n, token in enumerate(x):
        logits = token @ gate
        chosen = np.argsort(-logits)[: layer.k]
        weights = np.exp(logits[chosen] - logits.max())
        for e, weight in zip(chosen, weights / weights.sum(), strict=True):
            hidden = np.maximum(token @ expand[e], 0.0)
            y[n] += weight * (hidden @ contract[e]) * (8 / 12) ** 0.5
    return y


@pytest.mark.parametrize("tokens", [1, 2, 7, 300])
@pytest.mark.parametrize(("num_experts", "k"), [(1, 1), (3, 3), (8, 2)])
def test_each_token_has_its_own_experts(tokens, num_experts, k):
    """Whatever the number of blocks, and also if all tokens go to the same experts."""
    layer = mixture(num_experts, k)
    x = np.random.RandomState(9).normal(size=(tokens, 8)).astype(np.float32)
    for rows in (x, np.abs(x[:1]) + 0.01 * x):
        assert_close(layer(rows), by_definition(layer, rows), OWN_TERMS)


def test_padding_goes_to_no_expert():
    layer = mixture(gating_noise=0.0)
    x = np.random.RandomState(9).normal(size=(3, 4, 8)).astype(np.float32)
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    with collected_statistics() as masked:
        y = ops.convert_to_numpy(layer(x, mask=mask, training=True))
    with collected_statistics() as alone:
        wanted = layer(x[mask], training=True)
    assert_close(y[mask], wanted, OWN_TERMS)
    assert (y[~mask] == 0).all()
    for name, sums in alone[layer].items():
        assert_close(masked[layer][name], sums, OWN_TERMS + 12)  # over 12 tokens
    assert_close(sum(alone[layer]["importance"]), 4.0, OWN_TERMS + 12)
    assert float(sum(alone[layer]["load"])) == 8
    with collected_statistics() as counted:
        unmasked = ops.convert_to_numpy(layer(x, counted=mask, training=True))
    assert_close(counted[layer]["importance"], masked[layer]["importance"], OWN_TERMS + 12)
    assert_close(unmasked, layer(x), OWN_TERMS)
    with collected_statistics() as none:
        assert not layer(x, mask=np.zeros_like(mask), training=True).numpy().any()
    assert all(np.isfinite(float(v)) for v in layer.auxiliary_losses(none[layer]).values())


def test_noise_and_dropout_are_for_training_alone():
    x = np.random.RandomState(9).normal(size=(40, 8)).astype(np.float32)
    for layer in (mixture(), mixture(gating_noise=0.0, dropout_rate=0.5)):
        assert np.abs(layer(x, training=True) - layer(x)).max() > 0.1
        np.testing.assert_array_equal(layer(x), layer(x))
    still = mixture(gating_noise=0.0)
    np.testing.assert_array_equal(still(x, training=True), still(x))


def test_experts_start_as_a_feed_forward_layer_does():
    """Each with the variance of T2T's uniform_unit_scaling, and no two alike."""
    layer = MixtureOfExperts(64, 96, 8)
    for kernel in map(ops.convert_to_numpy, (layer.expand, layer.contract)):
        # A uniform distribution's variance has a standard error of √(0.8 / n), here 1.1 %.
        error = (0.8 / (64 * 96)) ** 0.5
        np.testing.assert_allclose(kernel.var(axis=(1, 2)), 2 / (64 + 96), rtol=5 * error)
        assert np.abs(kernel[0] - kernel[1]).max() > 0.1
    assert not ops.convert_to_numpy(layer.gating.w_gate).any()


@pytest.mark.integration
def test_it_works_in_a_keras_model():
    """With Keras's own mask and losses."""
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 8, mask_zero=True)(ids)
    x = mixture(loss_coef=5.0, gating_noise=0.0)(x)
    model = keras.Model(ids, keras.layers.Dense(9)(keras.layers.GlobalAveragePooling1D()(x)))
    rows = np.array([[3, 4, 0, 0], [5, 6, 7, 0]])
    model(rows, training=True)
    (padded,) = model.losses
    model(np.array([[3, 4], [5, 6], [7, 0]]), training=True)
    assert_close(model.losses[0], padded, OWN_TERMS + 2 * 4)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, run_eagerly=True)
    labels = np.array([1, 2])
    tokens = model.evaluate(rows, labels, verbose=0)
    history = model.fit(rows, labels, verbose=0)
    assert_close(history.history["loss"][0], tokens + float(padded), OWN_TERMS + 2 * 4 + 8 + 9)


def test_too_many_experts_per_token_are_a_usage_error():
    with pytest.raises(UsageError, match="k=3 experts for each token: expected 1 to 2"):
        MixtureOfExperts(8, 12, num_experts=2, k=3)
