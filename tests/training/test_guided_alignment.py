"""A head that learns an alignment: the same for any division of a batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.limits import strategy_over
from support.rounding import assert_close
from support.terms import forward_terms, step_terms
from support.training_steps import DROPOUT, DRY, VOCAB, joined, make_step, ragged_batch, weights_of
from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.layers.guided_attention import GuidedAttention
from t2t_lite.models.auxiliary_losses import (
    auxiliary_losses,
    hidden_and_statistics,
)
from t2t_lite.models.transformer import Transformer
from t2t_lite.systems.evolved_transformer import EvolvedTransformer
from t2t_lite.text.sample import ALIGNMENT

SMALL = (
    "hidden_size=16,filter_size=32,num_heads=2,optimizer=sgd,clip_grad_norm=0,"
    "learning_rate_schedule=constant,learning_rate_constant=0.3,label_smoothing=0,"
    "guided_alignment_weight=0.7"
)
# Of a step of a model of one layer.
PARTS = 2
TERMS = step_terms(
    forward_terms(
        registry.hparams("transformer_base").override(f"{SMALL},num_hidden_layers=1"), 7, VOCAB
    ),
    PARTS * 3 * 7,
)


def guided(overrides=DRY, inputs_vocab_size=VOCAB, layers=2):
    hparams = registry.hparams("transformer_base").override(f"{SMALL},num_hidden_layers={layers}")
    hparams = hparams.override(overrides)
    return Transformer(hparams, inputs_vocab_size, VOCAB)


def aligned_batch(parts=PARTS):
    """Places in the source, of which some are 0 or, as in a source that was cut, too large."""
    batch, random = ragged_batch(parts), np.random.default_rng(5)
    sizes = np.count_nonzero(batch["inputs"], axis=-1)[..., None]
    places = random.integers(0, sizes + 1, batch["targets"].shape)
    places = np.where(random.random(places.shape) < 0.1, 9, places)
    return {**batch, ALIGNMENT: tf.constant(np.where(batch["targets"] != 0, places, 0), tf.int32)}


def train(strategy, batch, overrides=DRY, steps=2):
    step = make_step(strategy, batch["inputs"].shape[0], lambda: guided(overrides, layers=1))
    before, losses = weights_of(step.model), []
    for number in range(steps):
        assert step(batch, number)
        losses.append(step.window.take_auxiliary()["guided_alignment"])
    return weights_of(step.model) - before, losses


def assert_same(found, wanted, terms=2 * TERMS):
    assert_close(found[0], wanted[0], terms, scale=1.0)
    assert_close(found[1], wanted[1], terms, scale=1.0)


def test_the_loss_is_the_mean_entropy_of_the_first_head():
    keras.utils.set_random_seed(3)
    model = guided()
    whole = {name: ids[0] for name, ids in joined(aligned_batch()).items()}
    seen = []
    attention = model.decoder.stack[-1].source_attention
    attention.attention_hook = seen.append
    _, statistics = hidden_and_statistics(model, whole, training=True)
    weights, alignment = seen[0].numpy()[:, 0], whole[ALIGNMENT].numpy()
    rows, places = np.nonzero((alignment > 0) & (alignment <= weights.shape[2]))
    entropy = -np.log(weights[rows, places, alignment[rows, places] - 1])
    found = auxiliary_losses(model, statistics)
    assert_close(float(found["guided_alignment"]), 0.7 * entropy.mean(), 2 * TERMS)
    assert [type(layer) for layer in model.auxiliary_layers] == [GuidedAttention]


@pytest.mark.integration
@pytest.mark.usefixtures("eagerly")
@pytest.mark.parametrize("overrides", [DRY, f"{DROPOUT},recompute_activations=1,decoder_self=ssru"])
def test_any_division_of_a_batch_is_the_same(overrides):
    steps = 2 if overrides == DRY else 1
    one, two = (train(strategy_over(n), aligned_batch(), overrides, steps) for n in (1, 2))
    assert_same(two, one, steps * TERMS)
    if overrides == DRY:
        assert_same(train(strategy_over(1), joined(aligned_batch()), overrides), one)
        assert one[1][0] > one[1][1] > 0, "it must have learnt"


@pytest.mark.usefixtures("eagerly")
def test_recomputed_layers_are_guided_alike():
    """Their second pass is in the backward pass, after the call that is guided."""
    one, again = (
        train(strategy_over(1), joined(aligned_batch()), f"{DRY},recompute_activations={on}", 1)
        for on in (0, 1)
    )
    assert_same(again, one, TERMS)


@pytest.mark.integration
def test_compiled_steps_are_the_same(request):
    batch = joined(aligned_batch())
    compiled = train(strategy_over(1), batch, f"{DRY},xla_compile=1")
    request.getfixturevalue("eagerly")
    assert_same(compiled, train(strategy_over(1), batch))


def test_the_attention_to_the_source_is_that_of_the_head():
    model = guided()
    features = {name: ids[0] for name, ids in joined(ragged_batch()).items()}
    attention, seen = model.decoder.stack[-1].source_attention, []
    attention.attention_hook = seen.append
    model.hidden(features)
    found = []
    with model.hook_attention(found.append):
        model.hidden(features)
    assert (found[0].numpy() == seen[0].numpy()[:, 0]).all()


@pytest.mark.integration
def test_fit_refuses_what_it_would_leave_out():
    model = guided()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    features = {name: ids[0].numpy() for name, ids in ragged_batch().items()}
    with pytest.raises(
        UsageError, match=r"guided_alignment_weight=0\.7: guided alignment works in t2"
    ):
        model.fit(features, features["targets"], verbose=0)


@pytest.mark.integration
def test_models_without_such_a_head_are_refused():
    with pytest.raises(
        UsageError, match=r"guided_alignment_weight=0\.7: this model has no attention"
    ):
        guided(inputs_vocab_size=0)
    hparams = registry.hparams("evolved_transformer_tiny").override("guided_alignment_weight=0.7")
    with pytest.raises(UsageError, match="guided_alignment_weight"):
        EvolvedTransformer(hparams, VOCAB, VOCAB)


@pytest.mark.integration
def test_a_keras_model_keeps_it(tmp_path):
    model = guided()
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(again.decoder.stack[-1].source_attention, GuidedAttention)
