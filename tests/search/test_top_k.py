import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

from t2t_lite.search.top_k import _block_size, top_k


@given(
    st.sampled_from([1, 7, 128, 1000, 1024, 4099, 32_000]),
    st.integers(1, 9),
    st.integers(1, 300),
    st.integers(0, 2**32 - 1),
)
@example(32_000, 8, 1, 0)  # all equal
@settings(max_examples=60)
def test_equals_tensorflows_with_equal_numbers_too(count, k, different, seed):
    k = min(k, count)
    x = np.random.default_rng(seed).integers(different, size=(2, 3, count)).astype(np.float32)
    x[0, 0] = -np.inf
    found, expected = top_k(tf.constant(x), k), tf.math.top_k(x, k)
    np.testing.assert_array_equal(found[0], expected.values)
    np.testing.assert_array_equal(found[1], expected.indices)


@pytest.mark.parametrize("count", [8_192, 32_000, 37_000])
def test_usual_vocabularies_are_searched_by_blocks(count):
    assert _block_size(count, k=8)


def test_rows_may_be_of_unknown_number():
    function = tf.function(
        lambda x: top_k(x, 3), input_signature=[tf.TensorSpec([None, None, 4096], tf.float32)]
    )
    values, places = function(tf.reshape(tf.range(4096 * 2, dtype=tf.float32), [1, 2, 4096]))
    np.testing.assert_array_equal(places, [[[4095, 4094, 4093]] * 2])
    assert values.shape == (1, 2, 3)


def test_of_equal_numbers_the_first_comes_first_though_its_block_has_a_smaller_largest():
    x = np.zeros([1, 4096], np.float32)
    x[0, [10, 2000]], x[0, 2001] = 1.0, 2.0
    assert _block_size(4096, k=2)
    values, places = top_k(tf.constant(x), 2)
    np.testing.assert_array_equal(values, [[2.0, 1.0]])
    np.testing.assert_array_equal(places, [[2001, 10]])
