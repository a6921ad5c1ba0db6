import keras
import numpy as np
import pytest

from support.rounding import assert_close
from t2t_lite.errors import UsageError
from t2t_lite.layers.transformer_layers import LayerSteps, Residual


def _steps(sequence, dropout=0.0, channels=8):
    return LayerSteps(sequence, channels, dropout, 1e-6, keras.random.SeedGenerator(0))


def _normalised(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


X = np.random.RandomState(0).normal(size=(2, 3, 8)).astype(np.float32)


def test_layer_norm_is_that_of_t2t(golden):
    units = np.load(golden / "units.npz")
    steps = _steps("n")
    steps.norm.gamma.assign(units["layer_norm/scale"])
    steps.norm.beta.assign(units["layer_norm/bias"])
    x = units["layer_norm/in"]
    assert_close(steps(x, x), units["layer_norm/out"], terms=2 * x.shape[-1])


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("none", "dan", _normalised(X + 3 * X)),  # the paper's post-norm
        ("n", "da", X + 3 * _normalised(X)),  # pre-norm
        ("", "", 3 * X),
    ],
)
def test_sequences_mean_what_they_mean_in_t2t(before, after, wanted):
    residual = Residual(_steps(before), _steps(after))
    assert_close(residual(X, sublayer=lambda y: 3 * y), wanted, terms=2 * 8 + 2)


def test_dropout_spares_the_residual_connection():
    residual = Residual(_steps("none"), _steps("da", dropout=0.5))
    added = np.array(residual(X, sublayer=np.ones_like, training=True)) - X
    assert set(np.round(added, 5).flat) == {0.0, 2.0}
    np.testing.assert_array_equal(residual(X, sublayer=np.ones_like), X + 1)


def test_unknown_steps_are_a_usage_error():
    with pytest.raises(UsageError, match="'dax': expected letters n, d, a, or none"):
        _steps("dax")
