"""Search over plain Keras models whose caller shifts the targets, as in Keras's tutorials."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers, ops

from support.small_models import make_decided
from t2t_lite.errors import UsageError
from t2t_lite.search.beam_search import BeamSearch
from t2t_lite.search.constraints import FixedLength, MinLength
from t2t_lite.search.penalties import Penalty
from t2t_lite.search.plain_keras import PlainKerasModel
from t2t_lite.search.sampling import RandomSearch
from t2t_lite.search.stopping import T2TStopping

SIZE, START, END = 6, 2, 3
TUTORIAL = {"start_id": START, "eos_id": END}
SOURCES = np.array([[4, 5, 4], [5, 0, 0]], np.int32)


class FromTargets(keras.Model):
    """Its logits are a function of the targets' one-hot vectors [B, T, V]."""

    def __init__(self, function):
        super().__init__(name="mine")
        self.function = function

    def call(self, source, target):
        return self.function(ops.one_hot(target, SIZE)) + 0.0 * ops.cast(ops.sum(source), "float32")


def shifted(x):
    return ops.cumsum(ops.pad(x, [[0, 0], [1, 0], [0, 0]])[:, :-1], axis=1)


UNSHIFTED = {
    "the last one": lambda x: 2 * x,
    "all": lambda x: ops.cumsum(x, axis=1),
}
NOT_CAUSAL = {
    "backwards": lambda x: ops.flip(ops.cumsum(ops.flip(x, axis=1), axis=1), axis=1),
    "the next": lambda x: ops.pad(x, [[0, 0], [0, 1], [0, 0]])[:, 1:],
    "the whole": lambda x: x + ops.mean(x, axis=1, keepdims=True),
    "the last": lambda x: x + 1e-3 * x[:, -1:],
}


@pytest.mark.parametrize("function", UNSHIFTED.values(), ids=UNSHIFTED)
@pytest.mark.parametrize("search", [BeamSearch, lambda *a, **k: RandomSearch(*a, 1, 1, **k)])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "'mine' does not shift .* depends on target t, too; pass start_id"),
        ({"eos_id": END}, "pass start_id"),
        ({"shifts": True}, "shifts=True: .* does not shift .* pass shifts=False"),
        ({"start_id": START, "shifts": True}, "pass shifts=False"),
        ({"start_id": -1}, "start_id=-1: .* cannot read"),
        ({"start_id": START, "eos_id": SIZE}, "eos_id=6: .* ids from 0 to 5"),
        ({"start_id": START, "eos_id": -1}, "eos_id=-1"),
    ],
)
def test_a_model_that_does_not_shift_needs_a_start(search, function, settings, message):
    with pytest.raises(UsageError, match=message):
        search(FromTargets(function), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"start_id": START}, "start_id=2: .* shifts its targets itself: .* leave out start_id"),
        ({"shifts": False}, "shifts=False: .* shifts its targets itself: .* pass shifts=True"),
    ],
)
def test_a_model_that_shifts_has_no_start(settings, message):
    with pytest.raises(UsageError, match=message):
        BeamSearch(FromTargets(shifted), **settings)


@pytest.mark.parametrize("function", NOT_CAUSAL.values(), ids=NOT_CAUSAL)
@pytest.mark.parametrize("settings", [{}, TUTORIAL, {"shifts": True}])
def test_a_model_that_sees_later_targets_is_refused(function, settings):
    with pytest.raises(UsageError, match=r"'mine' is not causal: .* depends on targets after t"):
        BeamSearch(FromTargets(function), **settings)


def test_dropout_that_is_always_on_is_refused():
    drop = layers.Dropout(0.5, seed=1)
    with pytest.raises(UsageError, match=r"other outputs for the same inputs.*dropout"):
        BeamSearch(FromTargets(lambda x: drop(x + 1.0, training=True)), **TUTORIAL)


def test_a_model_that_ignores_its_targets_has_the_convention_of_the_arguments():
    model = FromTargets(lambda x: ops.zeros_like(x) + ops.arange(6.0))
    for settings in ({}, {"shifts": True}, {"start_id": START}, TUTORIAL | {"shifts": False}):
        BeamSearch(model, **settings)
    with pytest.raises(UsageError, match="pass start_id"):
        BeamSearch(model, shifts=False)


@pytest.mark.parametrize("settings", [{"start_id": START}, {"shifts": True}, {"shifts": False}])
def test_a_model_with_steps_of_its_own_starts_by_itself(settings):
    with pytest.raises(UsageError, match="Transformer decodes step by step"):
        BeamSearch(make_decided("transformer", 3), **settings)


# ---- models as the tutorials build them


class Positional(layers.Layer):
    """Words and learned positions, as many as there are."""

    def __init__(self, length):
        super().__init__()
        self.words = layers.Embedding(SIZE, 8, mask_zero=True)
        self.positions = layers.Embedding(length, 8)

    def call(self, ids):
        return self.words(ids) + self.positions(ops.arange(ops.shape(ids)[1]))

    def compute_mask(self, ids, mask=None):
        return ops.not_equal(ids, 0)


def rnn(length=None, activation="softmax"):
    source, target = keras.Input([length]), keras.Input([length], dtype="int64")
    x = layers.Embedding(SIZE, 8, mask_zero=True)(source)
    state = layers.Bidirectional(layers.GRU(8), merge_mode="sum")(x)
    x = layers.Embedding(SIZE, 8, mask_zero=True)(target)
    x = layers.GRU(8, return_sequences=True)(x, initial_state=state)
    x = layers.Dense(SIZE, activation=activation)(layers.Dropout(0.5)(x))
    return keras.Model([source, target], x)


def transformer(length=7, equal=False, fixed=None):
    names = ("decoder_inputs", "encoder_inputs")  # a dict in no particular order
    target, source = (keras.Input([fixed], dtype="int32", name=name) for name in names)
    encoded = Positional(length)(source)
    encoded += layers.MultiHeadAttention(1, 8)(encoded, encoded)
    x = Positional(length)(target)
    x += layers.MultiHeadAttention(1, 8)(x, x, use_causal_mask=True)
    x += layers.MultiHeadAttention(1, 8)(x, encoded)
    if equal:
        x += encoded
    return keras.Model({"decoder_inputs": target, "encoder_inputs": source}, layers.Dense(SIZE)(x))


def language_model():
    ids = keras.Input([None], dtype="int32")
    x = layers.Embedding(SIZE, 8)(ids)
    return keras.Model(ids, layers.Dense(SIZE)(layers.GRU(8, return_sequences=True)(x)))


class OneList(keras.Model):
    """A subclass that unpacks its one argument."""

    def __init__(self):
        super().__init__()
        self.inner = rnn(activation=None)

    def call(self, inputs):
        context, x = inputs
        return self.inner([context, x])


def as_dict(source, target):
    return {"encoder_inputs": source, "decoder_inputs": target}


def as_list(source, target):
    return [source, target]


TUTORIALS = {
    "rnn": (rnn, as_list),
    "rnn, fixed lengths": (lambda: rnn(3), as_list),
    "transformer": (transformer, as_dict),
    "transformer, fixed lengths": (lambda: transformer(fixed=3), as_dict),
    "subclass": (OneList, as_list),
    "language model": (language_model, lambda source, target: target),
}


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        pytest.param(*row, id=name, marks=() if name == "transformer" else pytest.mark.integration)
        for name, row in TUTORIALS.items()
    ],
)
def test_steps_give_the_probabilities_of_the_whole(make, arguments):
    keras.utils.set_random_seed(1)
    model = make()
    targets = np.array([[START, 4, 5], [START, 5, 1]], np.int32)
    whole = ops.convert_to_numpy(model(arguments(SOURCES, targets), training=False))
    if (abs(whole.sum(axis=-1) - 1) < 1e-3).all():
        whole = np.log(whole)
    steps = PlainKerasModel(model, START, END)
    state = steps.start_decoding(SOURCES, 1, tf.constant(2))
    for step, ids in enumerate(np.pad(targets[:, 1:], [(0, 0), (1, 0)]).T):
        state = steps.grow(state, tf.constant(step + 1)) if step > 1 else state
        found, state = steps.decode_step(ids[:, None], tf.constant(step), state)
        np.testing.assert_allclose(found[:, 0], whole[:, step], rtol=1e-4, atol=1e-5)


def test_an_unknown_target_is_no_padding():
    """A model may mask 0 in targets that it has not shifted yet."""
    source, target = keras.Input([None]), keras.Input([None])
    x = layers.ZeroPadding1D((1, 0))(layers.Embedding(SIZE, 4)(target))[:, :-1]
    x = layers.GRU(4, return_sequences=True)(x, mask=ops.not_equal(target, 0))
    model = keras.Model([source, target], layers.Dense(SIZE)(x))
    targets = np.array([[4, 5], [5, 4]], np.int32)
    whole = model([SOURCES, targets])
    steps = PlainKerasModel(model)
    state = steps.start_decoding(SOURCES, 1, tf.constant(2))
    _, state = steps.decode_step(targets[:, :1], tf.constant(0), state)
    found, _ = steps.decode_step(targets[:, :1], tf.constant(1), state)
    np.testing.assert_allclose(found[:, 0], whole[:, 1], rtol=1e-4, atol=1e-5)


@functools.cache
def searching(make):
    return BeamSearch(make(), 2, **TUTORIAL)


def of_five():
    return rnn(5)


LIMITS = {
    "positions": (transformer, 8, 3, "max_lengths=8: .* at most 7 positions of targets"),
    "source": (transformer, 2, 9, "inputs have 9 .* at most 7 positions of sources"),
    "fixed": (of_five, 6, 5, "max_lengths=6: .* at most 5 positions of targets"),
    "fixed source": (of_five, 2, 6, "inputs have 6 .* at most 5 positions of sources"),
    "too short": (of_five, 2, 4, "inputs have 4 .* at least 5 positions of sources"),
    "equal": (lambda: transformer(equal=True), 4, 3, "max_lengths=4: .* at most 3 .* source of 3"),
}


@pytest.mark.integration
@pytest.mark.parametrize(("make", "longest", "source", "message"), LIMITS.values(), ids=LIMITS)
def test_a_limit_of_positions_is_named(make, longest, source, message):
    with pytest.raises(UsageError, match=message):
        searching(make)(np.full([1, source], 4), [longest])


# ---- searches


@pytest.fixture(scope="module")
def table():
    """Log-probabilities of the next id by the last one, [V, V]."""
    random = np.random.default_rng(3).normal(size=[SIZE, SIZE]).astype(np.float32) * 2
    return random - np.log(np.exp(random).sum(axis=1, keepdims=True))


def best(table, limit, least):
    """Returns the likeliest output by brute force, with `least` ids before its end."""
    found = []
    for size in range(limit):
        for ids in itertools.product([i for i in range(SIZE) if i != END], repeat=size):
            whole = (START, *ids, END)
            score = sum(table[a, b] for a, b in itertools.pairwise(whole))
            if size >= least:
                found.append((score, [*ids, END]))
    return max(found)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("constraints", "least"), [([], 0), ([MinLength(2)], 2), ([FixedLength()], 3)]
)
def test_the_search_finds_the_best_output(table, constraints, least, eager_searches):
    model = FromTargets(lambda x: x @ table)
    penalty = Penalty()
    search = BeamSearch(
        model, SIZE**3, penalty, T2TStopping(False), constraints, SIZE**4, shifts=False, **TUTORIAL
    )
    ids, scores = search(SOURCES[:1], [4])
    score, expected = best(table, 4, least)
    assert ids[0, 0][: len(expected)].tolist() == expected
    assert not ids[0, 0, len(expected) :].any()
    assert scores[0, 0] == pytest.approx(score, rel=1e-4)


@pytest.mark.integration
def test_samples_begin_after_the_start_and_end_with_the_end(eager_searches):
    chain = {START: 5, 5: 1, 1: 4, 4: END}
    table = np.full([SIZE, SIZE], -1e4, np.float32)
    table[[*chain], [*chain.values()]] = 0.0
    model = FromTargets(lambda x: x @ table)
    ids, scores = RandomSearch(model, 2, seed=1, **TUTORIAL)(SOURCES, 7)
    assert ids.tolist() == [[[5, 1, 4, END, 0, 0, 0]] * 2] * 2
    np.testing.assert_allclose(scores, 0.0, atol=1e-5)
