"""Numbers as ids: exact, never padding or EOS."""

import math
import struct

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_lite.data.number_ids import ids_of_numbers, numbers_of_ids
from t2t_lite.errors import DataError
from t2t_lite.text.number_encoder import NumberEncoder, number_id, number_of, number_text

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(FLOATS)
def test_an_id_is_its_number(number):
    id_ = number_id(number)
    assert id_ not in (0, 1)
    assert -(2**31) <= id_ < 2**31
    assert struct.pack("<f", number_of(id_)) == struct.pack("<f", number)
    assert math.isnan(number_of(0))
    assert math.isnan(number_of(1))


@given(FLOATS)
def test_a_text_is_the_shortest_of_its_number(number):
    text = number_text(number)
    assert np.float32(text) == np.float32(number)
    digits = len(str(np.float32(number)).split("e")[0].replace("-", "").replace(".", "").strip("0"))
    assert len(text.split("e")[0].replace("-", "").replace(".", "").strip("0")) <= digits


@given(st.lists(FLOATS, min_size=1, max_size=4))
def test_lines_come_back(numbers):
    encoder = NumberEncoder(len(numbers))
    line = "\t".join(map(repr, numbers))
    ids = encoder.encode(line)
    assert encoder.vocab_size == 2 + len(numbers)
    assert encoder.encode(encoder.decode([*ids, 1, 0])) == ids
    (packed,) = encoder.pack_lines([line])
    assert packed == struct.pack(f"<{len(numbers)}f", *numbers)


def test_tensorflow_has_the_same_ids():
    numbers = [0.0, -0.0, 1.5, -2.25, 3e38, 1e-40, -7e-3]
    ids = [number_id(number) for number in numbers]
    assert ids_of_numbers(tf.constant(numbers)).numpy().tolist() == ids
    found = numbers_of_ids(tf.constant([*ids, 0, 1], tf.int64)).numpy()
    np.testing.assert_array_equal(found[:-2], np.float32(numbers))
    assert np.isnan(found[-2:]).all()


@pytest.mark.parametrize("word", ["x", "nan", "inf", "-Infinity", "1e39", "1_0", "1,5", "--1"])
def test_what_is_no_number_is_named(word):
    with pytest.raises(DataError, match=f"expected numbers, got '{word}'"):
        NumberEncoder(2).encode(f"1 {word}")


@pytest.mark.parametrize("text", ["1", "1 2 3"])
def test_the_count_must_be_right(text):
    with pytest.raises(DataError, match=f"expected 2 numbers, got '{text}'"):
        NumberEncoder(2).encode(text)
    assert NumberEncoder(2).encode("  ") == []
