"""Which weight is named as not finite, and which cause."""

import types

import keras
import numpy as np
import pytest

from t2t_lite.errors import UserError
from t2t_lite.models.finite_weights import (
    nonfinite_weight,
    require_finite_weights,
    stores_float16,
    why_not_finite,
)


def model_of(**weights):
    """A model with weights of these values, in the order of their names."""
    return types.SimpleNamespace(
        weights=[
            keras.Variable(value, name=name, dtype=np.asarray(value).dtype.name)
            for name, value in weights.items()
        ]
    )


HALF = np.ones(2, np.float16)
SINGLE = np.ones(2, np.float32)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_that_is_not_finite_is_named(value):
    bad = np.array([1.0, value], np.float32)
    model = model_of(fine=SINGLE, count=np.array([1, 2]), first=bad, second=bad)
    assert nonfinite_weight(model) == "first"
    with pytest.raises(UserError, match="ckpt-7: the weight first is not finite, as training"):
        require_finite_weights(model, "model.ckpt-7")


def test_finite_weights_are_accepted():
    model = model_of(one=SINGLE, other=HALF, count=np.array([1, 2]))
    assert nonfinite_weight(model) == ""
    require_finite_weights(model, "model.ckpt-7")


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"matrix": HALF, "norm": SINGLE}, True),  # norms and biases stay in float32
        ({"norm": SINGLE, "matrix": HALF}, True),
        ({"matrix": SINGLE, "norm": SINGLE}, False),
    ],
)
def test_float16_is_named_if_matrices_are_in_it(model, expected):
    model = model_of(**model)
    assert stores_float16(model) is expected
    assert ("use dtype=bfloat16 or float32" in why_not_finite(model)) is expected
