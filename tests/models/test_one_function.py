"""A class of a user's own is searched, and given to other programs, as it was trained."""

import keras
import numpy as np
import pytest
from keras import ops

from support.own_layers import DRY, SMALL, OnTop, a_dense
from t2t_lite.errors import UsageError, UserError
from t2t_lite.models.one_function import has_trained_steps, require_trained_call
from t2t_lite.models.plain_transformer import require_plain
from t2t_lite.models.transformer import Transformer, TransformerDecoder
from t2t_lite.models.transformer_encoder import TransformerClassifier
from t2t_lite.models.transformer_regressor import TransformerRegressor, numbers_in


class Squashed(Transformer):
    """No weights of its own, but another function."""

    def hidden(self, features, training=False):
        return ops.tanh(super().hidden(features, training=training))


class StepsAlone(Transformer):
    """What training does not see."""

    def decode_step(self, ids, step, state):
        logits, state = super().decode_step(ids, step, state)
        return logits + ops.one_hot(5, logits.shape[-1], dtype=logits.dtype) * 9, state


class OwnDecoder(TransformerDecoder):
    """A layer on top, in both ways."""

    def make_layers(self):
        super().make_layers()
        self.extra = a_dense()

    def call(self, targets, memory=None, training=False, memory_mask=None):
        return self.extra(super().call(targets, memory, training, memory_mask))

    def step(self, ids, step, state):
        x, state = super().step(ids, step, state)
        return self.extra(x), state


class WithOwnDecoder(Transformer):
    """Changes both alike."""

    decoder_class = OwnDecoder


class Noisy(Transformer):
    """Differs in training alone."""

    def hidden(self, features, training=False):
        if training:
            features = {**features, "inputs": features["inputs"] * 0}
        return super().hidden(features, training=training)


class WithoutSteps(OnTop):
    """Nobody will search with it."""

    def decode_step(self, ids, step, state):
        raise NotImplementedError


class Particular(Transformer):
    """Takes some sources alone."""

    def hidden(self, features, training=False):
        if features["inputs"][0, 0] != 1:
            raise ValueError("a source begins with 1")
        return super().hidden(features, training=training)


class OwnClassifier(TransformerClassifier):
    """A classifier."""


def small(kind, *sizes, **changes):
    return kind("transformer_base", *(sizes or (13, 13)), **{**SMALL, **DRY, **changes})


@pytest.mark.integration
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", [OnTop, Squashed, StepsAlone])
def test_steps_of_another_function_are_noticed(kind, dtype):
    assert not has_trained_steps(small(kind, dtype=dtype))


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "sizes", "changes"),
    [
        (WithOwnDecoder, (13, 13), {}),
        (WithOwnDecoder, (0, 13), {}),
        (WithOwnDecoder, (13, 13), {"dtype": "bfloat16"}),
        (Noisy, (13, 13), {"prepend_mode": "prepend_inputs_masked_attention"}),
        (Noisy, (13, 17), {"suppressed_ids": "3+5"}),
        (WithoutSteps, (13, 13), {}),
        (Particular, (13, 13), {}),
        (OwnClassifier, (13, 4), {}),
    ],
)
def test_steps_of_the_same_function_are_taken(kind, sizes, changes):
    assert has_trained_steps(small(kind, *sizes, **changes))


def test_models_of_this_package_are_not_called(monkeypatch):
    model = small(Transformer)
    monkeypatch.setattr(keras.Model, "__call__", None)
    assert has_trained_steps(model)
    require_trained_call(model)


class Cooler(Transformer):
    """Its logits are smaller for Keras alone."""

    def call(self, features, training=False):
        return super().call(features, training=training) / 2


class Counting(Transformer):
    """A call that changes nothing."""

    def call(self, features, training=False):
        return super().call({**features, "count": None}, training=training)


class Choosy(Transformer):
    """Its call takes sources that begin with 1 alone, as `Particular` does in `hidden`."""

    def call(self, features, training=False):
        if features["inputs"][0, 0] != 1:
            raise ValueError("a source begins with 1")
        return super().call(features, training=training)


def test_a_call_that_training_does_not_read_is_refused():
    require_trained_call(small(Counting))
    require_trained_call(small(Choosy))
    with pytest.raises(UsageError, match=r"Cooler: call gives other logits .*change hidden"):
        require_trained_call(small(Cooler))


def test_other_programs_are_not_given_what_they_compute_otherwise():
    require_plain(small(Noisy), "CTranslate2")
    with pytest.raises(UserError, match="Squashed: CTranslate2 computes"):
        require_plain(small(Squashed), "CTranslate2")


class Bounded(TransformerRegressor):
    """Numbers from 0 to 1."""

    def hidden(self, features, training=False):
        x = super().hidden(features, training=training)
        return ops.where(x > -1, ops.sigmoid(x), x)


def test_numbers_are_those_that_are_trained():
    model = small(Bounded, 13, 4)
    inputs = np.array([[5, 6, 7], [3, 1, 0]], np.int32)
    hidden = model.hidden({"inputs": inputs, "targets": np.ones((2, 3), np.int32)})
    np.testing.assert_array_equal(model.numbers(inputs), numbers_in(hidden))
    plain = small(TransformerRegressor, 13, 4)
    plain.set_weights(model.get_weights())
    assert not np.allclose(model.numbers(inputs), plain.numbers(inputs))
