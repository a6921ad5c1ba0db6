"""Search over Keras models that know nothing of it, however they take inputs and targets."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from support.own_layers import SMALL, OnTop
from t2t_lite.errors import UsageError
from t2t_lite.models.seq2seq import DecodeState, shift_right
from t2t_lite.models.transformer import Transformer
from t2t_lite.search.beam_search import BeamSearch, greedy_search
from t2t_lite.search.decode_hparams import DecodeHParams
from t2t_lite.search.ensemble import Ensemble
from t2t_lite.search.factory import make_search
from t2t_lite.search.plain_keras import PlainKerasModel, as_step_model
from t2t_lite.search.sampling import RandomSearch
from t2t_lite.text.alignment.shortlist import Shortlist

INPUTS = np.array([[4, 2, 3], [1, 1, 5]], np.int32)
TARGETS = np.array([[3, 1], [2, 4]], np.int32)


def logits(inputs, targets):
    """Tells inputs from targets, which are shifted right: [B, T, 7]."""
    first = keras.ops.one_hot(inputs[:, :1], 7) * 10.0
    return first + shift_right(keras.ops.one_hot(targets, 7))


class Positional(keras.Model):
    def call(self, source, target, training=False):
        return logits(source, target)


class Swapped(keras.Model):
    def call(self, targets, inputs):
        return logits(inputs, targets)


class OneDict(keras.Model):
    def call(self, features, training=False, mask=None):
        return logits(features["inputs"], features["targets"])


class OneList(keras.Model):
    def call(self, inputs):
        source, target = inputs
        return logits(source, target)


class Logits(keras.layers.Layer):
    def call(self, inputs, targets):
        return logits(inputs, targets)


def functional(*names, order=None, as_dict=False):
    ids = [keras.Input([None], dtype="int32", name=name) for name in names]
    made = Logits()(*(ids if order is None else [ids[i] for i in order]))
    return keras.Model(dict(zip(names, ids, strict=True)) if as_dict else ids, made)


MODELS = {
    "positional": Positional,
    "swapped": Swapped,
    "one dict": OneDict,
    "one list": OneList,
    "functional, named": lambda: functional("inputs", "targets"),
    "functional, swapped": lambda: functional("targets", "inputs", order=(1, 0)),
    "functional, in order": lambda: functional("source", "target"),
    "functional, of a dict": lambda: functional("targets", "inputs", order=(1, 0), as_dict=True),
    "functional, other keys": lambda: functional("b", "a", order=(1, 0), as_dict=True),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_inputs_and_targets_reach_the_model(make):
    steps = as_step_model(make())
    state = steps.start_decoding(INPUTS, 1, tf.constant(2))
    _, state = steps.decode_step(tf.zeros([2, 1], tf.int32), tf.constant(0), state)
    found, _ = steps.decode_step(TARGETS[:, :1], tf.constant(1), state)
    wanted = PlainKerasModel(Positional()).decode_step(TARGETS[:, :1], tf.constant(1), state)[0]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(tf.argmax(found, axis=-1)[:, 0], INPUTS[:, 0])


class Three(keras.Model):
    def call(self, inputs, targets, weights):
        return logits(inputs, targets)


class OneTensor(keras.Model):
    def call(self, inputs):
        return inputs + 1


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (Three, "inputs, targets, weights"),
        (OneTensor, "inputs"),
        (lambda: keras.Model(x := keras.Input([4], name="x"), x + 1), "x"),
        (lambda: keras.Model(x := keras.Input([4], name="x"), [x, x]), "x"),
    ],
)
def test_other_inputs_are_refused(make, names):
    with pytest.raises(UsageError, match=rf"are {names}: search needs \(inputs, targets\)"):
        BeamSearch(make())


class OwnSteps(keras.Model):
    """Decodes step by step, without being a `Seq2Seq`: it says 3, then 1."""

    def start_decoding(self, inputs, beams, length):
        return DecodeState((), tf.zeros([tf.shape(inputs)[0], beams]))

    def grow(self, state, length):
        return state

    def decode_step(self, ids, step, state):
        here = tf.one_hot(tf.where(step == 0, 3, 1), 5) * 9.0
        return tf.broadcast_to(here, [*tf.unstack(tf.shape(ids)), 5]), state


@pytest.mark.integration
def test_a_keras_model_may_define_its_own_steps():
    model = OwnSteps()
    assert as_step_model(model) is model
    assert greedy_search(model)(np.array([[5, 1]]), 4).ids[0, 0].tolist() == [3, 1, 0, 0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_size": 0}, "beam_size=0: expected at least 1"),
        ({"beam_size": -2}, "beam_size=-2: expected at least 1"),
        ({"beam_size": 4, "candidates": 2}, "candidates=2: expected at least beam_size=4"),
        ({"beam_size": 4, "candidates": 0}, "candidates=0: expected at least beam_size=4"),
    ],
)
def test_impossible_beams_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        BeamSearch(OwnSteps(), **settings)


def test_sampling_needs_a_sample():
    with pytest.raises(UsageError, match="expected at least 1"):
        RandomSearch(OwnSteps(), samples=0, seed=1)


@pytest.mark.parametrize(("limits", "longest"), [(7, 7), ([], 0)])
def test_an_empty_batch_has_an_empty_result(limits, longest):
    ids, scores = BeamSearch(OwnSteps(), 3)(np.zeros([0, 5], np.int32), limits)
    assert (ids.shape, scores.shape) == ((0, 3, longest), (0, 3))
    assert (ids.dtype, scores.dtype) == (np.int32, np.float32)


class InSteps(OnTop):
    """The same, in its steps, too."""

    def decode_step(self, ids, step, state):
        of_decoder, kernel = state.weights
        x, after = self.decoder.step(ids, step, state._replace(weights=of_decoder))
        return self.output_projection(self.extra(x), kernel), after._replace(weights=state.weights)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:You are using a softmax")  # over the one first token
def test_a_model_is_searched_as_it_was_trained(eagerly, eager_searches, caplog):
    changed = OnTop("transformer_base", 13, 13, **SMALL)
    right = InSteps("transformer_base", 13, 13, **SMALL)
    right.set_weights(changed.get_weights())
    plain = Transformer("transformer_base", 13, 13, **SMALL)
    inputs = np.array([[5, 6, 7], [3, 1, 0]], np.int32)
    for others in ([], [plain]):
        found, wanted = (
            make_search(Ensemble([one, *others]) if others else one, {}, DecodeHParams(beam_size=2))
            for one in (changed, right)
        )
        for one, other in zip(found(inputs, 5), wanted(inputs, 5), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert caplog.messages[0].startswith(
        "OnTop: decode_step gives other logits than the model's call"
    )
    assert not [text for text in caplog.messages if text.startswith(("InSteps", "Transformer"))]
    with pytest.raises(UsageError, match=r"OnTop: its decode_step is not used, .* short list"):
        greedy_search(as_step_model(changed), shortlist=Shortlist([], np.zeros([13, 1]), 13))
