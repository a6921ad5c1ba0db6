"""ByteNet: two stacks of dilated convolutions, without attention (Kalchbrenner et al. 2016)."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.byte_net import ByteNetHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.byte_net import BottleneckBlock, ConvolutionChain, ResidualChain
from t2t_lite.layers.dense import Projection
from t2t_lite.models.encoder_decoder import Decoder, Encoder, EncoderDecoder, ModelPart
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.seq2seq import DecodeState, shift_right


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
            source=self.hparams.unfolding * self.encoder.flops_per_token(),
            target=self.decoder.flops_per_token() + flops_per_token(self.softmax_embedding),
        )
