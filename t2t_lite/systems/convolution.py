"""Convolutions over the positions of a sequence: whole sequences, and step by step."""

import abc
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import multiply, sizes, unit_scaling


def glu(x: keras.KerasTensor) -> keras.KerasTensor:
    """Gated linear unit (Dauphin et al. 2017): half of the features [..., 2D] gates the other."""
    values, gates = ops.split(x, 2, axis=-1)
    return values * ops.sigmoid(gates)


def lengths(kernel: keras.KerasTensor, axis: int) -> keras.KerasTensor:
    """Returns the Euclidean lengths of the vectors that lie along `axis` of `kernel`."""
    return ops.sqrt(ops.sum(ops.square(kernel), axis=axis))


class _Flat(keras.initializers.Initializer):
    """Initialises a kernel as `initializer` would one of another shape with as many elements.

    Args:
        initializer: what sets the values.
        shape: the shape that tells it what the axes mean, such as [k, inputs, channels].
    """

    def __init__(self, initializer: keras.initializers.Initializer, shape: tuple[int, ...]) -> None:
        self.initializer = initializer.clone()  # each instance draws values of its own
        self.shape = shape

    def __call__(self, shape: tuple[int, ...], dtype: str | None = None) -> keras.KerasTensor:
        """Returns the initial kernel of `shape`."""
        return ops.reshape(self.initializer(self.shape, dtype=dtype), shape)


class _BaseConvolution(Layer, abc.ABC):
    """Base of convolutions: which positions an output sees.

    Output i sees k inputs, `dilation` apart. If `causal`, input i is the last of them; otherwise it
    is the middle one, and with an even number there is one more after it than before. Inputs
    outside the sequence are 0, and so are those at padding, whatever they hold.

    Args:
        inputs: features of the input.
        channels: features of the output.
        kernel_size: k.
        dilation: distance between the inputs that an output sees.
        causal: whether outputs see only their own and earlier positions.
        use_bias: whether to add a bias, initially 0.
        initializer: sets the kernel, given [k, inputs, channels] (default: `unit_scaling(1.0)`).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        kernel_size: int,
        *,
        dilation: int = 1,
        causal: bool = False,
        use_bias: bool = True,
        initializer: keras.initializers.Initializer | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.causal = causal
        self.use_bias = use_bias
        self.initializer = unit_scaling(1.0) if initializer is None else initializer
        self.margin = (kernel_size - 1) * dilation  # from the first input seen to the last
        self.bias = (
            self.add_weight(shape=(channels,), initializer="zeros", name="bias")
            if use_bias
            else None
        )

    def _add_kernel(
        self, shape: tuple[int, ...], axes: tuple[int, ...], name: str, **kwargs: Any
    ) -> Any:
        """Adds a kernel of `shape`, which is `axes` with some of them merged."""
        initializer = _Flat(self.initializer, axes)
        return self.add_weight(shape=shape, initializer=initializer, name=name, **kwargs)

    def call(
        self,
        x: keras.KerasTensor,
        mask: keras.KerasTensor | None = None,
        kernel: Any = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, inputs] to [B, N, channels].

        Args:
            x: the sequences.
            mask: [B, N], False at padding; Keras passes the mask of `x`.
            kernel: the result of `step_kernel` (default: computed here).
        """
        x = ops.cast(x, self.compute_dtype)
        if mask is not None:
            x = ops.where(mask[..., None], x, ops.zeros((), x.dtype))
        if self.margin:
            before = self.margin if self.causal else self.margin // 2
            x = ops.pad(x, [[0, 0], [before, self.margin - before], [0, 0]])
        return self._biased(self._convolve(x, self.step_kernel() if kernel is None else kernel))

    def empty_window(self, batch: keras.KerasTensor, beams: int) -> keras.KerasTensor:
        """Returns what the first step sees before its input: zeros [B, K, (k-1)·dilation, inputs].

        Raises:
            UsageError: outputs see later positions.
        """
        if not self.causal:
            raise UsageError(
                "a convolution with causal=False sees later positions: only one with causal=True "
                "can take one step at a time"
            )
        return ops.zeros((batch, beams, self.margin, self.inputs), self.compute_dtype)

    def step(
        self,
        x: keras.KerasTensor,
        window: keras.KerasTensor,
        kernel: Any = None,
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Processes one position of every hypothesis.

        Args:
            x: [B, K, inputs].
            window: the last inputs [B, K, (k-1)·dilation, inputs], the oldest first.
            kernel: the result of `step_kernel` (default: computed here).

        Returns:
            [B, K, channels] and the next window.
        """
        x = ops.cast(x, self.compute_dtype)[:, :, None]
        seen = ops.concatenate([window, x], axis=2) if self.margin else x
        kernel = self.step_kernel() if kernel is None else kernel
        y = self._product(seen[:, :, :: self.dilation], kernel)
        return self._biased(y), seen[:, :, 1:]

    def _biased(self, y: keras.KerasTensor) -> keras.KerasTensor:
        return y if self.bias is None else y + ops.cast(self.bias, y.dtype)

    def _slide(
        self,
        operation: Callable[..., keras.KerasTensor],
        x: keras.KerasTensor,
        kernel: keras.KerasTensor,
        channels: int,
    ) -> keras.KerasTensor:
        """Applies one of Keras's convolutions to padded sequences; returns [B, N, channels]."""
        y = operation(
            x,
            kernel,
            padding="valid",
            data_format="channels_last",
            dilation_rate=self.dilation,
        )
        # TensorFlow 2.21 returns no sentences in the shape of the input.
        batch, length = ops.shape(x)[:2]
        return ops.reshape(y, (batch, length - self.margin, channels))

    @abc.abstractmethod
    def step_kernel(self) -> Any:
        """Returns the weights in the form that every step needs; a search calls this once."""

    @abc.abstractmethod
    def _convolve(self, x: keras.KerasTensor, kernel: Any) -> keras.KerasTensor:
        """Maps padded sequences [B, N + (k-1)·dilation, inputs] to [B, N, channels]."""

    @abc.abstractmethod
    def _product(self, seen: keras.KerasTensor, kernel: Any) -> keras.KerasTensor:
        """Maps the inputs that one output sees, [B, K, k, inputs], to [B, K, channels]."""


@keras.saving.register_keras_serializable(package="t2t_lite")
class Convolution(_BaseConvolution):
    """A convolution with one kernel [k·inputs, channels]; with k = 1, a dense layer.

    Args:
        inputs: features of the input.
        channels: features of the output.
        kernel_size: k.
        weight_norm: whether each column of the kernel is divided by its length and multiplied by a
            learned `scale`, at first that length (Salimans & Kingma 2016).
        **kwargs: see `_BaseConvolution`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        kernel_size: int,
        *,
        weight_norm: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(inputs, channels, kernel_size, **kwargs)
        self.weight_norm = weight_norm
        axes = (kernel_size, inputs, channels)
        self.kernel = self._add_kernel(
            (kernel_size * inputs, channels), axes, "kernel", precise=weight_norm
        )
        if weight_norm:
            self.scale = self.add_weight(
                shape=(channels,),
                initializer=lambda *_, **__: lengths(ops.convert_to_tensor(self.kernel), axis=0),
                name="scale",
            )

    def step_kernel(self) -> keras.KerasTensor:
        """See `_BaseConvolution.step_kernel`; the kernel [k·inputs, channels], normalised."""
        kernel = ops.convert_to_tensor(self.kernel)
        if self.weight_norm:
            kernel = kernel * (self.scale / lengths(kernel, axis=0))  # in float32
        return ops.cast(kernel, self.compute_dtype)

    def _convolve(self, x: keras.KerasTensor, kernel: keras.KerasTensor) -> keras.KerasTensor:
        if self.kernel_size == 1:
            return multiply(x, kernel)
        kernel = ops.reshape(kernel, (self.kernel_size, self.inputs, self.channels))
        return self._slide(ops.conv, x, kernel, self.channels)

    def _product(self, seen: keras.KerasTensor, kernel: keras.KerasTensor) -> keras.KerasTensor:
        return multiply(ops.reshape(seen, (*sizes(seen)[:2], kernel.shape[0])), kernel)


@keras.saving.register_keras_serializable(package="t2t_lite")
class SeparableConvolution(_BaseConvolution):
    """A convolution of each feature by itself, then a dense layer (T2T: `separable_conv`).

    Args:
        inputs: features of the input.
        channels: features of the output.
        kernel_size: k.
        **kwargs: see `_BaseConvolution`.
    """

    def __init__(self, inputs: int, channels: int, kernel_size: int, **kwargs: Any) -> None:
        super().__init__(inputs, channels, kernel_size, **kwargs)
        axes = (kernel_size, inputs, 1)
        self.depthwise_kernel = self._add_kernel((kernel_size, inputs), axes, "depthwise_kernel")
        self.kernel = self._add_kernel((inputs, channels), (inputs, channels), "kernel")

    def step_kernel(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """See `_BaseConvolution.step_kernel`; [k, inputs] and [inputs, channels]."""
        depthwise = ops.cast(self.depthwise_kernel, self.compute_dtype)
        return depthwise, ops.cast(self.kernel, self.compute_dtype)

    def _convolve(
        self, x: keras.KerasTensor, kernel: tuple[keras.KerasTensor, keras.KerasTensor]
    ) -> keras.KerasTensor:
        depthwise, pointwise = kernel
        depthwise = depthwise[..., None]  # [k, inputs, 1]
        return multiply(self._slide(ops.depthwise_conv, x, depthwise, self.inputs), pointwise)

    def _product(
        self, seen: keras.KerasTensor, kernel: tuple[keras.KerasTensor, keras.KerasTensor]
    ) -> keras.KerasTensor:
        depthwise, pointwise = kernel
        return multiply(ops.sum(seen * depthwise, axis=2), pointwise)
