"""Mixtures of experts, against numbers recorded from T2T's expert_utils."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

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


def assert_close(ours, recorded):
    ours = np.asarray(ops.convert_to_numpy(ours))
    np.testing.assert_allclose(ours, recorded, rtol=1e-5, atol=1e-5 * np.abs(recorded).max())


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
    assert_close(gates, recorded["gates"])
    assert_close(importance, recorded["importance"])
    assert_close(load, recorded["load"])
    assert_close(cv_squared(importance), recorded["cv_importance"])
    assert_close(cv_squared(load), recorded["cv_load"])
    variables = {"x": x} | {f"g/{v.name}": v.value for v in layer.trainable_variables}
    gradients = tape.gradient(loss, variables, unconnected_gradients="zero")
    seen = [key for key in recorded if key.startswith("grad/")]
    assert len(seen) == (0 if not training else 3 if noise else 2)
    if f"{name}/loss" in units and seen:
        for key in seen:
            assert_close(
                gradients[key.removeprefix("grad/")] * recorded["loss"] / loss, recorded[key]
            )


@pytest.mark.parametrize("name", ["cv_squared", "cv_squared_zeros", "cv_squared_one"])
def test_the_coefficient_of_variation_is_that_of_t2t(name, units):
    x = tf.constant(units[f"{name}/x"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        out = cv_squared(x)
    assert_close(out, units[f"{name}/out"])
    assert_close(tape.gradient(out, x), units[f"{name}/grad/x"])


def test_the_probability_of_being_chosen_is_that_of_t2t(units):
    arguments = (units[f"prob_in_top_k/{name}"] for name in ("clean", "noisy", "stddev", "top"))
    assert_close(in_top_k_probability(*arguments, 2), units["prob_in_top_k/prob"])


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
    assert_close(y, units[f"{name}/y"])
    assert_close(loss, units[f"{name}/loss"])
    kernels = (layer.gating.w_gate, layer.gating.w_noise, layer.expand, layer.contract)
    found = tape.gradient(total, [x, *(kernel.value for kernel in kernels)])
    by_x, by_gate, by_noise, *by_experts = map(tf.convert_to_tensor, found)
    gradients = f"{name}/grad/"
    assert_close(by_x, units[f"{gradients}x"])
    assert_close(by_gate, units[f"{gradients}moe/noisy_top_k_gating/w_gate"])
    assert_close(by_noise, units[f"{gradients}moe/noisy_top_k_gating/w_noise"])
    for number, by_kernel in enumerate(by_experts):
        for e in range(5):
            assert_close(by_kernel[e], units[f"{gradients}moe/parallel_{e}/w_{number}"])


def test_evaluation_is_that_of_t2t_without_noise(units):
    layer = recorded_mixture(units, "local_moe_eval_k1")
    assert_close(layer(units["local_moe_eval_k1/x"]), units["local_moe_eval_k1/y"])
    assert layer.losses == []


def mixture(num_experts=5, k=2, **kwargs):
    layer = MixtureOfExperts(8, 12, num_experts, k, **kwargs)
    for number, weight in enumerate(layer.trainable_variables):
        weight.assign(np.random.RandomState(number).normal(size=weight.shape))
    return layer


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
        np.testing.assert_allclose(layer(rows), by_definition(layer, rows), rtol=1e-4, atol=1e-4)


def test_padding_goes_to_no_expert():
    layer = mixture(gating_noise=0.0)
    x = np.random.RandomState(9).normal(size=(3, 4, 8)).astype(np.float32)
    mask = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]], bool)
    with collected_statistics() as masked:
        y = ops.convert_to_numpy(layer(x, mask=mask, training=True))
    with collected_statistics() as alone:
        wanted = layer(x[mask], training=True)
    np.testing.assert_allclose(y[mask], wanted, rtol=1e-5, atol=1e-5)
    assert (y[~mask] == 0).all()
    for name, sums in alone[layer].items():
        np.testing.assert_allclose(masked[layer][name], sums, rtol=1e-5)
    assert float(sum(alone[layer]["importance"])) == pytest.approx(4, rel=1e-5)
    assert float(sum(alone[layer]["load"])) == 8
    with collected_statistics() as counted:
        unmasked = ops.convert_to_numpy(layer(x, counted=mask, training=True))
    np.testing.assert_allclose(counted[layer]["importance"], masked[layer]["importance"])
    np.testing.assert_allclose(unmasked, layer(x), rtol=1e-5, atol=1e-5)
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
        np.testing.assert_allclose(kernel.var(axis=(1, 2)), 2 / (64 + 96), rtol=0.05)
        assert np.abs(kernel[0] - kernel[1]).max() > 0.1
    assert not ops.convert_to_numpy(layer.gating.w_gate).any()


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
    assert float(model.losses[0]) == pytest.approx(float(padded), rel=1e-5)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    labels = np.array([1, 2])
    tokens = model.evaluate(rows, labels, verbose=0)
    history = model.fit(rows, labels, verbose=0)
    assert history.history["loss"][0] == pytest.approx(tokens + float(padded), rel=1e-4)


def test_too_many_experts_for_each_token_are_the_users_error():
    with pytest.raises(UsageError, match="k=3 experts for each token: expected 1 to 2"):
        MixtureOfExperts(8, 12, num_experts=2, k=3)
