"""Training a model with layers of a user's own; what a step cannot do with them is an error."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from support import training_steps
from support.limits import strategy_over
from support.own_layers import DRY, SMALL, a_dense, with_own_layers
from support.training_steps import ragged_batches, values_of, weights_of
from t2t_lite.errors import UsageError
from t2t_lite.models.transformer import Transformer
from t2t_lite.training.diagnosis import Diagnosis
from t2t_lite.training.objectives import objective_of

SGD = {
    "optimizer": "sgd",
    "learning_rate_schedule": "constant",
    "learning_rate_constant": 0.1,
    "clip_grad_norm": 0.0,
}
PLAIN = {**SMALL, **DRY, **SGD}


def batches(steps):
    """Returns batches of two parts with the ids of the small vocabulary."""
    return [
        {name: tf.minimum(ids, 12) for name, ids in batch.items()}
        for batch in ragged_batches(steps, parts=2)
    ]


def one_more(layer, **changes):
    """Returns a function that makes a language model which ends in a layer."""

    class OneMore(Transformer):
        def make_layers(self):
            super().make_layers()
            self.more = [layer()]

        def hidden(self, features, training=False):
            x = super().hidden(features, training=training)
            return self.more[0](x, training=training)

    return lambda: OneMore("transformer_base", 0, 13, **{**PLAIN, **changes})


def make_step(make, devices=1):
    return training_steps.make_step(strategy_over(devices), 2, make)


@pytest.mark.integration
def test_every_weight_learns_alike_on_any_number_of_devices(eagerly):
    moved = []
    for devices in (1, 2):
        step = make_step(lambda: with_own_layers(**DRY, **SGD), devices)
        before = values_of(step.variables)
        assert len(before) == len(step.model.weights)
        for number, batch in enumerate(batches(2)):
            step(batch, number)
        changes = [a - b for a, b in zip(values_of(step.variables), before, strict=True)]
        for change, variable in zip(changes, step.variables, strict=True):
            assert np.abs(change).max() > 0, variable.path
        moved.append(np.concatenate([change.ravel() for change in changes]))
    np.testing.assert_allclose(*moved, rtol=1e-3, atol=1e-6)


class Narrow(keras.layers.Layer):
    """A layer whose weights are in 16 bits."""

    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(8, dtype="bfloat16")

    def call(self, x, training=False):
        return keras.ops.cast(self.dense(x), x.dtype)


@pytest.mark.integration
def test_weights_of_another_type_learn(eagerly):
    step = make_step(one_more(Narrow))
    before = values_of(step.variables)
    step(batches(1)[0], 0)
    for variable, value in zip(step.variables, before, strict=True):
        assert np.any(variable.numpy() != value), variable.path


@pytest.mark.integration
def test_random_numbers_of_own_layers_are_those_of_the_step_and_the_part(eagerly):
    """In Keras's `fit`, a generator counts on; here a step that is repeated draws the same."""
    (batch,) = batches(1)
    step = make_step(one_more(lambda: keras.layers.Dropout(0.5)))
    equal = {name: tf.stack([ids[0], ids[0]]) for name, ids in batch.items()}
    losses = Diagnosis(step).sentence_losses
    first, again, other = (losses(equal, number).numpy() for number in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first[0], first[1])
    on_two = make_step(one_more(lambda: keras.layers.Dropout(0.5)), 2)
    step(batch, 3)
    on_two(batch, 3)
    np.testing.assert_allclose(weights_of(step.model), weights_of(on_two.model), atol=1e-5)


def test_two_generators_of_own_layers_do_not_draw_the_same(eagerly):
    step = make_step(one_more(lambda: keras.layers.Dropout(0.5)))
    with step.forward.calls.drawing_from(tf.constant([1, 2], tf.int64)):
        own, others = step.model.seeds.state.value.numpy(), step.forward.calls._others
        assert len(others) == 1
        assert not np.array_equal(own, others[0].value.numpy())


def require_effect(model):
    objective_of(model, model.hparams).require_effect(model)


@pytest.mark.integration
def test_two_passes_differ_by_the_dropout_of_an_own_layer():
    rates = {"rdrop_alpha": 1.0}
    require_effect(one_more(lambda: keras.layers.Dropout(0.5), **rates)())
    with pytest.raises(UsageError, match="are the same"):
        require_effect(one_more(a_dense_in_training, **rates)())


def a_dense_in_training():
    return keras.Sequential([a_dense()])


class Adds(keras.layers.Layer):
    """A layer with a loss."""

    def call(self, x, training=False):
        self.add_loss(keras.ops.mean(x))
        return x


class Holder:
    """An object in which Keras finds no layers."""

    def __init__(self, layer):
        self.layer = layer


class Hides(keras.layers.Layer):
    """A layer that hides another."""

    def __init__(self, trainable=True):
        super().__init__()
        self.inner = Holder(keras.layers.Dense(8, name="inner", trainable=trainable))

    def call(self, x, training=False):
        return self.inner.layer(x)


class OfTensorFlow(keras.layers.Layer):
    """A layer with a weight that is not Keras's."""

    def __init__(self):
        super().__init__()
        self.scales = [tf.Variable(tf.ones(8), name="scales")]

    def call(self, x, training=False):
        return x * self.scales[0]


class Unused(keras.layers.Layer):
    """A layer whose weight no loss depends on."""

    def build(self, shape):
        self.idle = self.add_weight((3,), name="idle")

    def call(self, x, training=False):
        return x


class Late(keras.layers.Layer):
    """A layer that creates another one in its second call."""

    calls = 0

    def call(self, x, training=False):
        self.calls += 1
        if self.calls == 1:
            return x
        self._tracker.unlock()
        self.other = a_dense()
        return self.other(x)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (
            keras.layers.BatchNormalization,
            r"moving_mean of the layer 'more\.0' \(BatchNormalization\)",
        ),
        (Adds, r"OneMore: the layer 'more\.0' \(Adds\) adds a loss"),
        (OfTensorFlow, r"the loss depends on scales, which the model does not have"),
        (Unused, r"the loss does not depend on idle of the layer 'more\.0'"),
        (Late, r"kernel of the layer 'more\.0\.other' \(Dense\), .* appeared after"),
    ],
)
def test_what_would_be_lost_is_named(layer, message):
    """In one line, though TensorFlow's autograph puts a traceback into the message."""
    step = make_step(one_more(layer))
    with pytest.raises(UsageError, match=message) as caught:
        step(batches(1)[0], 0)
    assert "\n" not in str(caught.value)


@pytest.mark.integration
@pytest.mark.parametrize("trainable", [True, False])
def test_a_layer_that_another_hides_is_named_before_training(trainable):
    message = r"OneMore: the loss depends on .*kernel, .*bias, which the model does not have"
    with pytest.raises(UsageError, match=message):
        one_more(lambda: Hides(trainable))()


@pytest.mark.integration
@pytest.mark.parametrize("devices", [1, 2])
def test_a_layer_outside_the_model_is_named(devices):
    """Even a frozen one: the call in training is the first, and would draw its weights."""
    outside = keras.layers.Dense(8, name="outside", trainable=False)

    class UsesOther(Transformer):
        def hidden(self, features, training=False):
            return outside(super().hidden(features, training=training))

    step = make_step(lambda: UsesOther("transformer_base", 0, 13, **PLAIN), devices)
    with pytest.raises(UsageError, match=r"the loss depends on .*outside/kernel, .*outside/bias"):
        step(batches(1)[0], 0)


def test_a_regularizer_is_named():
    make = one_more(lambda: keras.Sequential([keras.layers.Dense(8, kernel_regularizer="l2")]))
    with pytest.raises(
        UsageError, match=r"kernel of the layer 'more\.0\..*' \(Dense\) has a regularizer"
    ):
        make_step(make)


def test_a_generator_of_its_own_is_refused_where_activations_are_computed_twice():
    make = one_more(lambda: keras.layers.Dropout(0.5), recompute_activations=True)
    with pytest.raises(
        UsageError, match=r"recompute_activations: .* of the layer 'more\.0' \(Dropout\)"
    ):
        make_step(make)
