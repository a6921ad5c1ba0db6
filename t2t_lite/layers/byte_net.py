"""The layers of ByteNet (Kalchbrenner et al. 2016, "Neural Machine Translation in Linear Time")."""

import abc
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from t2t_lite.layers.base import Layer, Stack, seeds_or_new
from t2t_lite.layers.convolution import Convolution
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.initializers import unit_scaling


def _norm(channels: int, epsilon: float, policy: Any) -> keras.layers.Layer:
    norm = keras.layers.LayerNormalization(epsilon=epsilon, dtype=policy)
    norm.build((None, None, channels))
    return norm


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvolutionChain(Layer):
    """ReLU, convolution, normalisation; once for each dilation (T2T: `conv_block`).

    Args:
        inputs: features of the input.
        channels: D, features of the output.
        kernel_size: k.
        dilations: those of the convolutions.
        causal: whether positions see only earlier ones.
        epsilon: added to the variance in layer normalisation.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        kernel_size: int,
        dilations: Sequence[int] = (1,),
        *,
        causal: bool = False,
        epsilon: float = 1e-6,
        gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.kernel_size = kernel_size
        self.dilations = tuple(dilations)
        self.causal = causal
        self.epsilon = epsilon
        self.gain = gain
        policy = self.dtype_policy
        self.convolutions = Stack(
            (
                Convolution(
                    channels if i else inputs,
                    channels,
                    kernel_size,
                    dilation=dilation,
                    causal=causal,
                    use_bias=False,
                    initializer=unit_scaling(gain),
                    dtype=policy,
                )
                for i, dilation in enumerate(self.dilations)
            ),
            dtype=policy,
        )
        self.norms = Stack((_norm(channels, epsilon, policy) for _ in dilations), dtype=policy)

    def call(
        self, x: keras.KerasTensor, mask: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, inputs] to [B, N, D]; positions where `mask` is False are not seen."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(convolution(ops.relu(x), mask=mask))
        return x

    def empty_windows(self, batch: keras.KerasTensor, beams: int) -> list[keras.KerasTensor]:
        """Returns what the convolutions see before the first step; see `Convolution`."""
        return [convolution.empty_window(batch, beams) for convolution in self.convolutions]

    def step(
        self, x: keras.KerasTensor, windows: list[keras.KerasTensor]
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """Maps `x` [B, K, inputs] to [B, K, D], and the windows to the next ones."""
        after = []
        for convolution, norm, window in zip(self.convolutions, self.norms, windows, strict=True):
            x, window = convolution.step(ops.relu(x), window)
            x = norm(x)
            after.append(window)
        return x, after


class _ResidualBlock(Layer, abc.ABC):
    """Adds to its input the output of convolutions.

    Args:
        channels: D.
        kernel_size: k.
        causal: whether positions see only earlier ones.
        dropout_rate: dropout of what is added.
        epsilon: added to the variance in layer normalisation.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        kernel_size: int,
        *,
        causal: bool = False,
        dropout_rate: float = 0.0,
        epsilon: float = 1e-6,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.kernel_size = kernel_size
        self.causal = causal
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon
        self.gain = gain
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=self.dtype_policy)

    def call(
        self,
        x: keras.KerasTensor,
        mask: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D]; positions where `mask` is False are not seen."""
        x = ops.cast(x, self.compute_dtype)
        return x + self.dropout(self._convolve(x, mask), training=training)

    @abc.abstractmethod
    def _convolve(self, x: keras.KerasTensor, mask: keras.KerasTensor | None) -> keras.KerasTensor:
        """Returns what is added to `x`."""

    @abc.abstractmethod
    def empty_windows(self, batch: keras.KerasTensor, beams: int) -> list[keras.KerasTensor]:
        """Returns what the convolutions see before the first step; see `Convolution`."""

    @abc.abstractmethod
    def step(
        self, x: keras.KerasTensor, windows: list[keras.KerasTensor]
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """Maps `x` [B, K, D] to [B, K, D], and the windows to the next ones."""


@keras.saving.register_keras_serializable(package="t2t_lite")
class ResidualChain(_ResidualBlock):
    """`x + Dropout(chain(LayerNorm(x)))` (T2T: one repetition of `residual_dilated_conv`).

    Args:
        channels: D.
        kernel_size: k.
        dilations: those of the convolutions.
        **kwargs: see `_ResidualBlock`.
    """

    def __init__(
        self, channels: int, kernel_size: int, dilations: Sequence[int], **kwargs: Any
    ) -> None:
        super().__init__(channels, kernel_size, **kwargs)
        self.dilations = tuple(dilations)
        self.norm = _norm(channels, self.epsilon, self.dtype_policy)
        self.chain = ConvolutionChain(
            channels,
            channels,
            kernel_size,
            dilations,
            causal=self.causal,
            epsilon=self.epsilon,
            gain=self.gain,
            dtype=self.dtype_policy,
        )

    def _convolve(self, x: keras.KerasTensor, mask: keras.KerasTensor | None) -> keras.KerasTensor:
        return self.chain(self.norm(x), mask=mask)

    def empty_windows(self, batch: keras.KerasTensor, beams: int) -> list[keras.KerasTensor]:
        """See `_ResidualBlock.empty_windows`."""
        return self.chain.empty_windows(batch, beams)

    def step(
        self, x: keras.KerasTensor, windows: list[keras.KerasTensor]
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """See `_ResidualBlock.step`."""
        y, windows = self.chain.step(self.norm(x), windows)
        return x + y, windows


@keras.saving.register_keras_serializable(package="t2t_lite")
class BottleneckBlock(_ResidualBlock):
    """A residual block of the paper (section 3.6): a dilated convolution on half the features.

    What is added is three times normalisation, ReLU and a convolution: a dense one from D to D/2,
    the dilated one, a dense one from D/2 to D.

    Args:
        channels: D (paper: 2d).
        kernel_size: k.
        dilation: that of the convolution.
        **kwargs: see `_ResidualBlock`.
    """

    def __init__(self, channels: int, kernel_size: int, dilation: int = 1, **kwargs: Any) -> None:
        super().__init__(channels, kernel_size, **kwargs)
        self.dilation = dilation
        gain, policy, inside = self.gain, self.dtype_policy, channels // 2
        self.norms = Stack(
            (_norm(width, self.epsilon, policy) for width in (channels, inside, inside)),
            dtype=policy,
        )
        self.contract = Projection(channels, (inside,), gain, use_bias=True, dtype=policy)
        self.convolution = Convolution(
            inside,
            inside,
            kernel_size,
            dilation=dilation,
            causal=self.causal,
            initializer=unit_scaling(gain),
            dtype=policy,
        )
        self.expand = Projection(inside, (channels,), gain, use_bias=True, dtype=policy)

    def _convolve(self, x: keras.KerasTensor, mask: keras.KerasTensor | None) -> keras.KerasTensor:
        return self._expanded(self.convolution(self._contracted(x), mask=mask))

    def empty_windows(self, batch: keras.KerasTensor, beams: int) -> list[keras.KerasTensor]:
        """See `_ResidualBlock.empty_windows`."""
        return [self.convolution.empty_window(batch, beams)]

    def step(
        self, x: keras.KerasTensor, windows: list[keras.KerasTensor]
    ) -> tuple[keras.KerasTensor, list[keras.KerasTensor]]:
        """See `_ResidualBlock.step`."""
        y, window = self.convolution.step(self._contracted(x), *windows)
        return x + self._expanded(y), [window]

    def _contracted(self, x: keras.KerasTensor) -> keras.KerasTensor:
        first, second, _ = self.norms
        return ops.relu(second(self.contract(ops.relu(first(x)))))

    def _expanded(self, y: keras.KerasTensor) -> keras.KerasTensor:
        return self.expand(ops.relu(self.norms[2](y)))
