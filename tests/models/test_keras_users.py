"""What Keras's users do with any model, through Keras alone."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops

from support.rounding import assert_close
from support.terms import terms_of

# For what takes seconds: attention, and recurrence.
FITTED = ("post_norm", "luong")
LENGTH = 7


def numpy_of(tensor):
    return ops.convert_to_numpy(tensor)


def test_ids_of_any_dtype(model, features):
    """Keras makes floats of them in many places."""

    def logits(dtype, training):
        model.seeds.state.assign([3, 0])
        given = {name: ids.astype(dtype) for name, ids in features.items()}
        return numpy_of(model(given, training=training))

    for training in (False, True):
        wanted = logits("int32", training)
        for dtype in ("float32", "float64", "uint8"):
            np.testing.assert_array_equal(logits(dtype, training), wanted)


def test_inputs_without_a_dtype(model, features):
    """`keras.Input` is of floats by default."""
    ids = {name: keras.Input((None,), name=name) for name in features}
    functional = keras.Model(ids, model(ids))
    assert_close(functional(features), numpy_of(model(features)), terms_of(model, LENGTH))


def test_a_call_without_a_dict_says_what_is_expected(model, features):
    for given in ([*features.values()], tuple(features.values()), features["inputs"]):
        with pytest.raises(Exception, match=r'expected \{"inputs": ids'):
            model(given)


@pytest.mark.integration
@pytest.mark.parametrize("kind", FITTED)
def test_fit_and_evaluate_on_two_replicas(make_untrained, dropouts, features):
    """As on one, a loss that is a mean of equal batches."""
    # Not by collectives: TensorFlow mixes up those of several models in one process.
    to_one = tf.distribute.ReductionToOneDevice()
    rows = {name: np.concatenate([ids[:2], ids[:2]]) for name, ids in features.items()}
    losses = []
    for replicas in (1, 2):
        devices = [f"CPU:{number}" for number in range(replicas)]
        with tf.distribute.MirroredStrategy(devices, to_one).scope():
            model = make_untrained(**dict.fromkeys(dropouts, 0.0))
            model.compile(
                keras.optimizers.SGD(0.1),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                run_eagerly=True,  # tracing takes far longer than the steps
            )
        model.fit(rows, rows["targets"], batch_size=4, shuffle=False, verbose=0)
        losses.append(model.evaluate(rows, rows["targets"], batch_size=4, verbose=0))
    assert_close(losses[1], losses[0], terms_of(model, LENGTH))
