"""Convolutions against T2T's recorded ones, and their steps against whole sequences."""

import keras
import numpy as np
import pytest
from keras import ops

from support.rounding import assert_close, normal
from t2t_lite.errors import UsageError
from t2t_lite.layers.dense import Embedding
from t2t_lite.layers.transformer_layers import Position
from t2t_lite.systems.convolution import Convolution, SeparableConvolution, glu

KINDS = {
    "plain": lambda **k: Convolution(4, 6, 3, **k),
    "dilated": lambda **k: Convolution(4, 6, 3, dilation=2, **k),
    "even": lambda **k: Convolution(4, 6, 4, **k),
    "dense": lambda **k: Convolution(4, 6, 1, weight_norm=True, **k),
    "weight_norm": lambda **k: Convolution(4, 6, 3, weight_norm=True, **k),
    "separable": lambda **k: SeparableConvolution(4, 6, 5, **k),
    "separable_dilated": lambda **k: SeparableConvolution(4, 6, 3, dilation=3, **k),
}

# The longest sum of any kind: 4 positions of 4 features; as many for their norm.
TERMS = 2 * 4 * 4


@pytest.fixture(params=KINDS)
def make(request):
    def made(**kwargs):
        layer = KINDS[request.param](**kwargs)
        for i, variable in enumerate(layer.trainable_variables):
            variable.assign(normal(*variable.shape, seed=i))
        return layer

    return made


@pytest.fixture(scope="module")
def units(golden):
    return np.load(golden / "compared/units/units_conv.npz")


def layer_norm(x, weights):
    """T2T's, with its scale and bias."""
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    return x * weights["layer_norm_scale"] + weights["layer_norm_bias"]


def weights_of(units, prefix):
    """Returns the recorded weights whose names begin with `prefix`, by the rest of the name."""
    return {name[len(prefix) :]: units[name] for name in units.files if name.startswith(prefix)}


@pytest.mark.parametrize("padding", ["same", "left"])
def test_dilated_convolutions_are_those_of_t2t(units, padding):
    name = f"residual_dilated_conv_{padding}"
    x = units[f"{name}/x"][:, :, 0]
    for repeat in range(2):
        block = f"{name}/weights/block/repeat_{repeat}/"
        y = layer_norm(x, weights_of(units, f"{block}lnorm/"))
        for i, dilation in enumerate((1, 2, 4)):
            layer = Convolution(
                9, 9, 3, dilation=dilation, causal=padding == "left", use_bias=False
            )
            kernel = units[f"{block}residual_conv/conv_block_{i}_single/kernel"]
            layer.kernel.assign(kernel.reshape(27, 9))
            y = ops.convert_to_numpy(layer(np.maximum(y, 0)))
            y = layer_norm(y, weights_of(units, f"{block}residual_conv/conv_block_norm_{i}/"))
        x = x + y
    # Two blocks of a norm and three convolutions of 3 positions, each with a norm.
    assert_close(x, units[f"{name}/out"][:, :, 0], terms=2 * (2 * 9 + 3 * (3 * 9 + 2 * 9)))


def test_separable_convolutions_are_those_of_t2t(units):
    name = "subseparable_block_none_same"
    x = units[f"{name}/x"][:, :, 0]
    for i, (inputs, size, dilation) in enumerate(((20, 3, 1), (24, 5, 2))):
        layer = SeparableConvolution(inputs, 24, size, dilation=dilation, use_bias=False)
        weights = weights_of(units, f"{name}/weights/b/conv_block_{i}_single/")
        layer.depthwise_kernel.assign(weights["depthwise_kernel"].reshape(size, inputs))
        layer.kernel.assign(weights["pointwise_kernel"].reshape(inputs, 24))
        x = ops.convert_to_numpy(layer(np.maximum(x, 0)))
        x = layer_norm(x, weights_of(units, f"{name}/weights/b/conv_block_norm_{i}/"))
    terms = (3 + 20 + 2 * 24) + (5 + 24 + 2 * 24)  # depthwise, pointwise, and a norm
    assert_close(x, units[f"{name}/out"][:, :, 0], terms)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.bfloat16)])
def test_steps_compute_what_the_whole_sequence_does(make, dtype):
    layer = make(causal=True, dtype=dtype if dtype == "float32" else f"mixed_{dtype}")
    # The kernel, two products and the bias are rounded to bfloat16; sums are not.
    terms = TERMS if dtype == "float32" else 4
    x = normal(2, 3, 9, 4)  # [B, K, N, D]
    whole = ops.reshape(layer(x.reshape(6, 9, 4)), (2, 3, 9, 6))
    window, kernel = layer.empty_window(2, 3), layer.step_kernel()
    for i in range(9):
        given = kernel if i % 2 else None
        y, window = layer.step(x[:, :, i], window, given)
        assert y.dtype == window.dtype == whole.dtype
        wanted = ops.cast(whole[:, :, i], "float32")
        scale = np.abs(ops.cast(whole, "float32")).max()
        assert_close(ops.cast(y, "float32"), wanted, terms, dtype=dtype, scale=scale)


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_not_seen(make, causal):
    layer = make(causal=causal)
    x, mask = normal(2, 9, 4), np.arange(9) < np.array([[9], [5]])
    y = ops.convert_to_numpy(layer(x, mask=mask))
    x[1, 5:] = np.nan
    np.testing.assert_array_equal(layer(x, mask=mask), y)
    assert_close(layer(x[1:, :5])[0], y[1, :5], TERMS)


def test_a_batch_may_have_no_sentences(make):
    layer = make(causal=True)
    assert layer(normal(0, 9, 4)).shape == (0, 9, 6)
    assert layer.step(normal(0, 3, 4), layer.empty_window(0, 3))[0].shape == (0, 3, 6)


def test_which_inputs_an_output_sees():
    """By which outputs a single input of 1 changes."""

    def seen_by(size, dilation, causal):
        layer = Convolution(1, 1, size, dilation=dilation, causal=causal, use_bias=False)
        layer.kernel.assign(np.arange(1.0, size + 1)[:, None])
        one = np.arange(9.0)[None, :, None] == 4
        outputs = ops.convert_to_numpy(layer(one.astype(np.float32)))[0, :, 0]
        return {int(i): float(outputs[i]) for i in np.flatnonzero(outputs)}

    assert seen_by(3, 1, causal=True) == {4: 3, 5: 2, 6: 1}
    assert seen_by(3, 2, causal=True) == {4: 3, 6: 2, 8: 1}
    assert seen_by(3, 1, causal=False) == {3: 3, 4: 2, 5: 1}
    assert seen_by(4, 1, causal=False) == {2: 4, 3: 3, 4: 2, 5: 1}  # one more after it
    assert seen_by(3, 4, causal=False) == {0: 3, 4: 2, 8: 1}


def test_the_mask_of_an_embedding_hides_padding():
    ids = np.array([[3, 4, 0, 0], [1, 2, 5, 3]], np.int32)
    layer = Convolution(4, 2, 3)
    x = Position("emb", 4)(Embedding(6, 4)(ids))
    without = ops.convert_to_numpy(x)
    assert np.abs(without[0, 2:]).max() > 0
    np.testing.assert_array_equal(layer(x), layer(without, mask=ids != 0))
    assert np.abs(layer(x) - layer(without)).max() > 0


def test_weight_norm_sets_length_and_direction_apart():
    layer = Convolution(4, 6, 3, weight_norm=True)
    kernel = ops.convert_to_numpy(layer.kernel)
    assert_close(layer.step_kernel(), kernel, terms=3 * 4 + 2)  # at first
    layer.kernel.assign(kernel * 7.0)
    assert_close(layer.step_kernel(), kernel, terms=3 * 4 + 2)
    layer.scale.assign(np.arange(6.0))
    lengths = np.linalg.norm(layer.step_kernel(), axis=0)
    assert_close(lengths, np.arange(6.0), terms=2 * 3 * 4)


def test_kernels_start_as_the_initializer_says():
    kernel = Convolution(64, 32, 3, initializer=keras.initializers.RandomNormal(stddev=0.5)).kernel
    assert abs(np.std(kernel) - 0.5) < 0.02
    # Uniform of variance 1 / mean(fan_in, fan_out), as for a kernel [k, inputs, channels].
    kernel = np.array(Convolution(64, 32, 3).kernel)
    assert abs(kernel.std() - (2 / (3 * 64 + 3 * 32)) ** 0.5) < 0.002
    assert np.abs(kernel).max() < 3**0.5 * (2 / (3 * 64 + 3 * 32)) ** 0.5
    assert np.abs(kernel - np.array(Convolution(64, 32, 3).kernel)).max() > 0.01


def test_a_step_that_would_see_the_future_is_refused():
    with pytest.raises(UsageError, match="causal=False sees later positions"):
        Convolution(4, 6, 3).empty_window(2, 3)


def test_glu_gates_the_first_half_by_the_second():
    x = normal(2, 3, 8)
    wanted = x[..., :4] / (1 + np.exp(-x[..., 4:]))
    assert_close(glu(x), wanted, terms=4)  # a sigmoid and a product


def test_gradients_reach_every_weight_of_a_compiled_layer(make):
    """Also where TensorFlow's convolutions are dilated, on the CPU."""
    tf = pytest.importorskip("tensorflow")
    layer, x = make(causal=True), tf.constant(normal(2, 9, 4))

    @tf.function
    def gradients():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(layer(x)))
        return tape.gradient(loss, [v.value for v in layer.trainable_variables])

    for variable, gradient in zip(layer.trainable_variables, gradients(), strict=True):
        before = ops.convert_to_numpy(variable)
        step = 1e-3 * normal(*variable.shape, seed=9)
        sums = []
        for sign in (1, -1):
            variable.assign(before + sign * step)
            sums.append(np.square(np.float64(layer(x))).sum())
        variable.assign(before)
        slope = (sums[0] - sums[1]) / 2
        assert abs(slope - np.sum(gradient * step)) < 2e-3 * np.abs(gradient * step).sum()
