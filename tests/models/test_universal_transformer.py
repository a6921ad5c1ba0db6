"""The Universal Transformer: its recurrence in depth, and adaptive computation time."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support import t2t_weights
from support.model_kinds import make_model, model_of, without_values
from support.rounding import assert_close
from support.terms import terms_of
from t2t_lite import registry
from t2t_lite.decoding.ctranslate2_model import convert
from t2t_lite.errors import UserError
from t2t_lite.models.attention_maps import with_attention
from t2t_lite.models.auxiliary_losses import (
    auxiliary_losses,
    hidden_and_statistics,
)
from t2t_lite.models.universal_transformer import (
    AdaptiveSteps,
    UniversalSteps,
)
from t2t_lite.study.paper.parameter_counts import abstract_model

SIDES = {"encoder": "inputs", "decoder": "targets"}


@pytest.fixture(scope="module")
def recorded_folder(golden):
    return golden / "compared" / "universal_transformer_act"


@pytest.fixture(scope="module")
def recorded_model(recorded_folder):
    """The model with adaptive computation time that T2T's numbers are of; no test changes it."""
    return t2t_weights.golden_transformer(recorded_folder)[0]


def pondering_of(model, features, monkeypatch):
    """What adaptive computation time spends on the positions of a batch, by side."""
    seen = {}

    def watched(side, ponder):
        def call(*args, **kwargs):
            output, seen[side] = ponder(*args, **kwargs)
            return output, seen[side]

        return call

    with monkeypatch.context() as patch:
        for side in SIDES:
            steps = getattr(model, side).steps
            patch.setattr(steps, "ponder", watched(side, steps.ponder))
        model(features)
    return {side: [ops.convert_to_numpy(part) for part in found] for side, found in seen.items()}


@pytest.mark.integration
@pytest.mark.parametrize("batch", ["a", "b/4"])
def test_positions_ponder_as_in_t2t(recorded_folder, recorded_model, batch, monkeypatch):
    model = recorded_model
    recorded = np.load(recorded_folder / "forward.npz")
    features = {name: recorded[f"{batch}/{name}"] for name in SIDES.values()}
    length = max(ids.shape[1] for ids in features.values())
    for side, (times, remainders) in pondering_of(model, features, monkeypatch).items():
        real = features[SIDES[side]] != 0
        wanted = recorded[f"{batch}/{side}_ponder_times"][real]
        np.testing.assert_array_equal(times[real], wanted)
        assert len(set(wanted)) > 1 or batch != "a"
        wanted = recorded[f"{batch}/{side}_remainders"][real]
        assert_close(remainders[real], wanted, terms_of(model, length))


@pytest.mark.integration
def test_the_loss_is_the_mean_cost_of_a_token(recorded_folder, recorded_model):
    """T2T's loss is over padding, too: compared where there is none."""
    trained = recorded_model
    rates = ("layer_prepostprocess_dropout", "attention_dropout", "relu_dropout")
    model = type(trained)(trained.hparams.copy(**dict.fromkeys(rates, 0.0)), 52, 52)
    model.set_weights(trained.get_weights())
    recorded = np.load(recorded_folder / "forward.npz")

    def loss(features):
        _, statistics = hidden_and_statistics(model, features, training=True)
        (loss,) = auxiliary_losses(model, statistics).values()
        return float(loss)

    features = {name: recorded[f"b/0/{name}"] for name in SIDES.values()}
    alone = loss(features)
    terms = terms_of(model, 3 + max(ids.shape[1] for ids in features.values()))
    assert_close(alone, recorded["b/0/act_loss"], terms)
    padded = {name: np.pad(ids, [(0, 1), (0, 3)]) for name, ids in features.items()}
    assert_close(loss(padded), alone, terms)
    free = type(model)(model.hparams.copy(act_loss_weight=0.0), 52, 52)
    nothing = [layer.no_statistics() for layer in free.auxiliary_layers]
    assert auxiliary_losses(free, nothing) == {"act": 0.0}


# ---- one layer


def halting(chances, accumulate=False):
    """Steps whose halting probability is that of the one position's state, which counts steps."""
    steps = AdaptiveSteps(1, len(chances), accumulate=accumulate)
    logits = [math.log(chance / (1.0 - chance)) for chance in chances]
    steps.with_signals = lambda x, step, positions: ops.zeros_like(x) + logits[step]
    steps.kernel.assign([[1.0]])
    steps.halting_bias.assign([0.0])
    output, pondering = steps.ponder(
        np.zeros((1, 1, 1), np.float32), transform=lambda x, step: ops.ones_like(x) * 10.0**step
    )
    return float(output[0, 0, 0]), *(float(part[0, 0]) for part in pondering)


@pytest.mark.parametrize(
    ("chances", "weights", "time", "remainder"),
    [
        ((0.2, 0.5, 0.4, 0.3), (0.2, 0.5, 0.3, 0.0), 3, 0.3),
        ((0.995, 0.9, 0.4, 0.3), (1.0, 0.0, 0.0, 0.0), 1, 1.0),
        ((0.1, 0.2, 0.3, 0.1), (0.1, 0.2, 0.3, 0.1), 4, 0.0),  # stopped by the maximum
    ],
)
def test_a_position_halts_by_hand(chances, weights, time, remainder):
    states = [1.0, 10.0, 100.0, 1000.0]
    total = sum(weight * state for weight, state in zip(weights, states, strict=True))
    terms = 2 * len(states)  # a sigmoid's logit, and the sum of chances, in each step
    assert_close(halting(chances, accumulate=True), (total, time, remainder), terms)
    mixed = 0.0
    for weight, state in zip(weights, states, strict=True):
        mixed = weight * state + (1.0 - weight) * mixed
    assert_close(halting(chances), (mixed, time, remainder), terms)


def test_signals_of_position_and_step_by_hand():
    steps = UniversalSteps(4, 3)
    x = np.random.RandomState(0).normal(size=(2, 5, 4)).astype(np.float32)
    sines = [[math.sin(n), math.sin(n / 1e4), math.cos(n), math.cos(n / 1e4)] for n in range(5)]
    rows = np.asarray(steps.step_signals)
    seen, scale = [], 4.0 + np.abs(x).max()  # the last angle is 4
    steps(x, transform=lambda y, step: seen.append(np.asarray(y)) or y)
    for step in range(3):
        x = x + np.array(sines) + 2.0 * rows[step]
        assert_close(seen[step], x, terms=2 * (step + 1), scale=scale)
    late = steps.with_signals(x[:, :1], 1, np.array([3]))
    assert_close(late, x[:, :1] + sines[3] + 2.0 * rows[1], terms=2, scale=scale)


# ---- the model


@pytest.mark.integration
@pytest.mark.parametrize(
    "kind", ["universal", pytest.param("adaptive", marks=pytest.mark.integration)]
)
def test_recomputed_steps_have_the_same_gradients(kind, features):
    def gradients(**changes):
        model = make_model(kind, **changes)
        model.seeds.state.assign((3, 0))
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(features, training=True) ** 2)
        return model, tape.gradient(loss, model.trainable_variables)

    model, kept = gradients()
    _, recomputed = gradients(recompute_activations=True)
    for one, other in zip(kept, recomputed, strict=True):
        assert_close(tf.convert_to_tensor(one), tf.convert_to_tensor(other), 2 * terms_of(model, 7))


@pytest.mark.integration
def test_other_positions_continue_after_all_of_one_sentence_have_halted(features, monkeypatch):
    """More steps than any position needs change nothing."""
    few, many = (make_model("adaptive", act_max_steps=steps) for steps in (5, 9))
    for model in (few, many):
        for steps in (model.encoder.steps, model.decoder.steps):
            steps.halting_bias.assign([9.0])
            steps.kernel.assign(0.4 * steps.kernel)
    for one, other in zip(few.trainable_variables, many.trainable_variables, strict=True):
        one.assign(other[: one.shape[0]])  # of the step signals, those of the first steps
    times, _ = pondering_of(few, features, monkeypatch)["encoder"]
    assert set(np.unique(times)) == {1.0, 2.0}  # all halt at the first step or the second
    assert_close(few(features), many(features), terms_of(many, 7))


@pytest.mark.integration
def test_accumulated_outputs_are_something_else(features):
    basic, accumulated = (
        ops.convert_to_numpy(make_model("adaptive", act_type=kind)(features))
        for kind in ("basic", "accumulated")
    )
    assert np.abs(basic - accumulated).max() > 1e-2


@pytest.mark.integration
def test_the_attention_of_the_last_step_counts(features):
    model = model_of("universal")
    seen = []
    layer = model.decoder.stack[0].source_attention
    layer.attention_hook = lambda weights: seen.append(np.asarray(weights).mean(axis=1))
    model(features)
    layer.attention_hook = None
    assert len(seen) == 2
    _, found = with_attention(model, lambda: model(features))
    np.testing.assert_array_equal(found, seen[-1])
    assert np.abs(seen[0] - seen[-1]).max() > 1e-2


@pytest.mark.integration
def test_operations_are_those_of_as_many_layers():
    universal = make_model("universal", num_rec_steps=4).forward_flops()
    layers = make_model("pre_norm", num_hidden_layers=4).forward_flops()
    memory = 2 * 2 * 16 * 16  # keys and values of the source: once, not in each of 4 layers
    assert universal == dataclasses.replace(layers, source=layers.source - 3 * memory)
    adaptive = make_model("adaptive", act_max_steps=4).forward_flops()
    assert adaptive.source == universal.source + 4 * 2 * 16  # the halting probabilities


@pytest.mark.integration
def test_base_model_has_the_parameters_of_its_equations():
    """The one layer of each stack, the signals of 6 steps, and one embedding matrix."""
    d, d_ff, steps, vocab = 1024, 4096, 6, 32_000
    attention, norm = 4 * d * d, 2 * d
    feed_forward = (d * d_ff + d_ff) + (d_ff * d + d)
    encoder = attention + feed_forward + 2 * norm + steps * d
    decoder = 2 * attention + feed_forward + 3 * norm + steps * d
    model, adaptive = (
        without_values("universal_transformer", f"{name}_base", vocab, vocab)
        for name in ("universal_transformer", "adaptive_universal_transformer")
    )
    assert model.count_params() == vocab * d + encoder + decoder + 2 * norm
    assert adaptive.count_params() == model.count_params() + 2 * (6 * d + d + 1)
    # About as many as the 61 million of `transformer_base`, 6 layers of half the width.
    base = abstract_model(registry.hparams("transformer_base"), vocab)
    assert model.count_params() == pytest.approx(base.count_params(), rel=0.03)


@pytest.mark.parametrize("kind", ["universal", "evolved"])
def test_ctranslate2_cannot_run_it(kind):
    pytest.importorskip("ctranslate2")
    model = model_of(kind)
    name = type(model).__name__
    with pytest.raises(UserError, match=f"{name}: CTranslate2 runs only Transformers"):
        convert(model)
