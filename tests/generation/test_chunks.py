"""Samples that cannot be encoded are named."""

import pytest

from t2t_lite.errors import DataError
from t2t_lite.generation import chunks, cleaning
from t2t_lite.text import text_encoder


def test_a_sample_with_a_lone_surrogate_is_named():
    encoder = text_encoder.ByteTextEncoder()
    examples = chunks.ExampleEncoder("my_problem", {"inputs": encoder, "targets": encoder})
    chunk = chunks.Chunk(10, ["a", "b"], ["c", "d\udcff"])
    with pytest.raises(
        DataError, match=r"my_problem: sample 12 contains the lone surrogate U\+DCFF"
    ):
        examples.encode(chunk)
    assert cleaning.SeenPairs().add("b", "d\udcff")
