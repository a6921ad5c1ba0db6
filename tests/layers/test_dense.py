import numpy as np
import pytest

from support.rounding import assert_close
from t2t_lite.layers.dense import Projection


def test_maps_the_last_axis():
    layer = Projection(3, (2, 5), use_bias=True)
    layer.bias.assign(np.arange(7.0))
    x = np.random.RandomState(0).normal(size=(2, 4, 3)).astype(np.float32)
    assert_close(layer(x), x @ np.array(layer.kernel) + np.arange(7.0), terms=3 + 1)


def test_without_bias_zero_stays_zero():
    np.testing.assert_array_equal(Projection(3, (2,))(np.zeros((1, 3))), np.zeros((1, 2)))


@pytest.mark.parametrize("gain", [1.0, 0.25])
def test_parts_are_initialised_as_separate_kernels(gain):
    """Uniform with variance gain / mean(fan in, fan out), the fan out of each part alone."""
    widths = (50, 50, 400)
    kernel = np.array(Projection(200, widths, gain).kernel)
    first, second, third = np.split(kernel, np.cumsum(widths)[:-1], axis=1)
    assert not np.allclose(first, second)
    for part in (first, second, third):
        limit = np.sqrt(3 * gain / ((200 + part.shape[1]) / 2))
        # The largest of n draws is further below with a probability of exp(-20); 5 standard errors.
        assert np.abs(part).max() == pytest.approx(limit, rel=20 / part.size)
        assert part.std() == pytest.approx(limit / np.sqrt(3), rel=5 * (0.2 / part.size) ** 0.5)


def test_low_rank_adaptation_adds_a_product():
    layer = Projection(3, (2, 5), use_bias=True)
    x = np.random.RandomState(0).normal(size=(4, 3)).astype(np.float32)
    before = layer(x)
    layer.enable_lora(2)
    np.testing.assert_array_equal(layer(x), before)
    assert [v.name for v in layer.trainable_weights] == ["bias", "lora_a", "lora_b"]
    layer.lora_b.assign(np.random.RandomState(1).normal(size=(2, 7)))
    added = np.array(layer.lora_a) @ np.array(layer.lora_b)
    assert_close(layer(x), x @ (np.array(layer.kernel) + added), terms=3 + 2)
    store = {}
    layer.save_own_variables(store)
    loaded = Projection(3, (2, 5), use_bias=True)
    loaded.load_own_variables(store)
    np.testing.assert_array_equal(loaded(x), layer(x))
    layer.load_own_variables(store)  # the product is in the kernel now
    np.testing.assert_array_equal(layer(x), loaded(x))
    with pytest.raises(ValueError, match="enabled already"):
        layer.enable_lora(2)
    with pytest.raises(ValueError, match="LoRA of rank 0: expected at least 1"):
        loaded.enable_lora(0)
