"""ByteNet: two stacks of dilated convolutions, without attention (Kalchbrenner et al. 2016)."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.byte_net import ByteNetHParams
from t2t_lite.layers.base import Dropout, Layer, Stack, seeds_or_new
from t2t_lite.layers.dense import Projection, unit_scaling
from t2t_lite.models.flops import ForwardFlops, flops_of_part, flops_per_token
from t2t_lite.models.hparams_model import Decoder, Encoder, ModelPart
from t2t_lite.models.seq2seq import DecodeState, EncoderDecoder, shift_right
from t2t_lite.systems.convolution import Convolution


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


class _ByteNetPart(ModelPart):
    """Base of encoder and decoder.

    Args:
        hparams: a `ByteNetHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ByteNetHParams
    hparams: ByteNetHParams

    def _make_blocks(self, causal: bool) -> Stack:
        """Creates the residual blocks."""
        h = self.hparams
        dilations = [2**i for i in range(h.num_hidden_layers)]
        common: dict[str, Any] = {
            "causal": causal,
            "dropout_rate": h.dropout,
            "epsilon": h.norm_epsilon,
            "gain": h.initializer_gain,
            "seeds": self.seeds,
        }
        if h.residual_block == "chain":
            return Stack(
                ResidualChain(h.hidden_size, h.kernel_height, dilations, **common)
                for _ in range(h.num_block_repeat)
            )
        return Stack(
            BottleneckBlock(h.hidden_size, h.kernel_height, dilation, **common)
            for dilation in dilations * h.num_block_repeat
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class ByteNetEncoder(_ByteNetPart, Encoder):
    """The encoder: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0)."""

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        self.blocks = self._make_blocks(causal=False)

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns the positions of the source, [B, S, D]."""
        return self.encode(inputs, training)[:, : ops.shape(inputs)[1]]

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, U, D].

        A sentence of m tokens has ⌊a·m⌋ positions: its source, then zeros, for targets that are
        longer than it. Beyond them no convolution sees anything but zeros, so what a sentence's
        positions hold does not depend on other sentences. (In T2T they are filled up to a multiple
        of 50 of the batch's longest sentence.)
        """
        length = ops.shape(inputs)[1]
        longest = self._unfolded(length)
        tokens = ops.sum(ops.cast(ops.not_equal(inputs, 0), "int32"), axis=1)
        mask = ops.arange(longest) < self._unfolded(tokens)[:, None]  # [B, U]
        x = ops.pad(self.embedding(inputs), [[0, 0], [0, longest - length], [0, 0]])
        for block in self.blocks:
            x = block(x, mask=mask, training=training)
        return ops.where(mask[..., None], x, ops.zeros((), x.dtype))

    def _unfolded(self, length: Any) -> Any:
        """Returns ⌊a·length⌋, in whole numbers: the same for tensors and for shapes."""
        return length * round(100 * self.hparams.unfolding) // 100


@keras.saving.register_keras_serializable(package="t2t_lite")
class ByteNetDecoder(_ByteNetPart, Decoder):
    """The decoder, unfolded over the encoder's output: ids [B, T] and [B, U, D] -> [B, T, D].

    Position i reads the encoder's position i, or zeros beyond its end, and the target before i.
    """

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        h = self.hparams
        d, gain = h.hidden_size, h.initializer_gain
        self.blocks = self._make_blocks(causal=True)
        self.first = self.head = None
        if h.residual_block == "chain":
            self.first = ConvolutionChain(
                2 * d, d, h.kernel_height, causal=True, epsilon=h.norm_epsilon, gain=gain
            )
        else:
            self.head = Projection(d, (d,), gain, use_bias=True)

    def call(
        self, targets: keras.KerasTensor, memory: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """See `Decoder.call`."""
        x = shift_right(self.embedding(targets))
        length = ops.shape(x)[1]
        encoded = ops.pad(memory, [[0, 0], [0, length], [0, 0]])[:, :length]  # [B, T, D]
        if self.first is None:
            x = x + encoded
        else:
            x = self.first(ops.concatenate([encoded, x], axis=-1))
        for block in self.blocks:
            x = block(x, training=training)
        return self._end(x)

    def _end(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return x if self.head is None else ops.relu(self.head(x))

    def start(self, memory: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """See `Decoder.start`."""
        layers = [*([] if self.first is None else [self.first]), *self.blocks]
        batch = ops.shape(memory)[0]
        return DecodeState(
            # One more position, of zeros: for all steps beyond the last.
            sentence=ops.pad(memory, [[0, 0], [0, 1], [0, 0]]),
            hypothesis=[layer.empty_windows(batch, beams) for layer in layers],
        )

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        x = self.embedding.step(ids, step)
        position = ops.minimum(step, ops.shape(state.sentence)[1] - 1)
        encoded = ops.take(state.sentence, position, axis=1)[:, None]  # [B, 1, D]
        encoded = ops.broadcast_to(encoded, ops.shape(x))
        windows = list(state.hypothesis)
        if self.first is None:
            x = x + encoded
        else:
            x = ops.concatenate([encoded, x], axis=-1)
            x, windows[0] = self.first.step(x, windows[0])
        number = len(windows) - len(self.blocks)
        for i, block in enumerate(self.blocks, number):
            x, windows[i] = block.step(x, windows[i])
        return self._end(x), state._replace(hypothesis=windows)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ByteNet(EncoderDecoder):
    """Dilated convolutions over the source, and over what they give and the target so far.

    Time and memory are linear in the lengths. It has no softmax bias, and the decoder starts from
    a zero vector, as in T2T.

    Args:
        hparams: a `ByteNetHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ByteNetHParams
    hparams: ByteNetHParams
    encoder_class = ByteNetEncoder
    decoder_class = ByteNetDecoder

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`.

        The encoder's operations are those of `unfolding` positions per source token.
        """
        return ForwardFlops(
            source=self.hparams.unfolding * flops_of_part(self.encoder),
            target=flops_of_part(self.decoder) + flops_per_token(self.softmax_embedding),
        )
