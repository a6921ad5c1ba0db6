"""ByteNet: two stacks of dilated convolutions, without attention (Kalchbrenner et al. 2016)."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.byte_net import ByteNetHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.byte_net import BottleneckBlock, ConvolutionChain, ResidualChain
from t2t_lite.layers.dense import Projection
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import HParamsModel, require_choice
from t2t_lite.models.model_part import Encoder
from t2t_lite.models.seq2seq import DecodeState, Features, Seq2Seq, shift_right


def _blocks(owner: HParamsModel, causal: bool) -> Stack:
    """Creates the residual blocks of the encoder, or of the decoder, which is causal."""
    h = owner.hparams
    assert isinstance(h, ByteNetHParams)
    require_choice(h, "residual_block", "bottleneck", "chain")
    dilations = [2**i for i in range(h.num_hidden_layers)]
    common: dict[str, Any] = {
        "causal": causal,
        "dropout_rate": h.dropout,
        "epsilon": h.norm_epsilon,
        "gain": h.initializer_gain,
        "seeds": owner.seeds,
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
class ByteNetEncoder(Encoder):
    """The encoder: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0).

    Args:
        hparams: a `ByteNetHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: a `ByteNet` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ByteNetHParams
    hparams: ByteNetHParams
    shared_names: ClassVar[tuple[str, ...]] = ("inputs_embedding", "encoder_blocks")

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        owner.encoder_blocks = _blocks(owner, causal=False)

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
        x = ops.pad(self.inputs_embedding(inputs), [[0, 0], [0, longest - length], [0, 0]])
        for block in self.encoder_blocks:
            x = block(x, mask=mask, training=training)
        return ops.where(mask[..., None], x, ops.zeros((), x.dtype))

    def _unfolded(self, length: Any) -> Any:
        """Returns ⌊a·length⌋, in whole numbers: the same for tensors and for shapes."""
        return length * round(100 * self.hparams.unfolding) // 100


@keras.saving.register_keras_serializable(package="t2t_lite")
class ByteNet(Seq2Seq):
    """Dilated convolutions over the source, and over what they give and the target so far.

    The decoder is unfolded over the encoder: position i reads the encoder's position i, or zeros
    beyond its end, and the target before i. Time and memory are linear in the lengths. It has no
    softmax bias, and the decoder starts from a zero vector, as in T2T.

    Args:
        hparams: a `ByteNetHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: the unfolding is less than 1, or the kind of residual block is unknown.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ByteNetHParams
    hparams: ByteNetHParams
    encoder_class: ClassVar[type[ByteNetEncoder]] = ByteNetEncoder

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        h = self.hparams
        if h.unfolding < 1.0:
            raise UsageError(f"hparam unfolding={h.unfolding}: expected at least 1")
        d, gain = h.hidden_size, h.initializer_gain
        self.encoder_class.add_layers(self)
        self.decoder_blocks = _blocks(self, causal=True)
        self.decoder_start = self.head = None
        if h.residual_block == "chain":
            self.decoder_start = ConvolutionChain(
                2 * d, d, h.kernel_height, causal=True, epsilon=h.norm_epsilon, gain=gain
            )
        else:
            self.head = Projection(d, (d,), gain, use_bias=True)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        encoded = self._encoder_view.encode(features["inputs"], training)
        x = shift_right(self.targets_embedding(features["targets"]))
        length = ops.shape(x)[1]
        encoded = ops.pad(encoded, [[0, 0], [0, length], [0, 0]])[:, :length]  # [B, T, D]
        if self.decoder_start is None:
            x = x + encoded
        else:
            x = self.decoder_start(ops.concatenate([encoded, x], axis=-1))
        for block in self.decoder_blocks:
            x = block(x, training=training)
        return self._end(x)

    def _end(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return x if self.head is None else ops.relu(self.head(x))

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`.

        The encoder's operations are those of `unfolding` positions per source token.
        """
        ends = [layer for layer in (self.decoder_start, self.head) if layer is not None]
        decoder = (self.decoder_blocks, *ends, self.softmax_embedding)
        return ForwardFlops(
            source=self.hparams.unfolding * flops_per_token(self.encoder_blocks),
            target=sum(map(flops_per_token, decoder)),
        )

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; the size of the state does not depend on `length`."""
        batch = ops.shape(inputs)[0]
        start = [] if self.decoder_start is None else [self.decoder_start]
        layers = [*start, *self.decoder_blocks]
        # One more position, of zeros: for all steps beyond the last.
        encoded = ops.pad(self._encoder_view.encode(inputs), [[0, 0], [0, 1], [0, 0]])
        return DecodeState(
            sentence=encoded,
            hypothesis=[layer.empty_windows(batch, beams) for layer in layers],
            weights=self.output_projection.kernel(),
        )

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Returns `state`, whose size does not depend on the length."""
        return state

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        x = self._embed_step(ids, step)
        position = ops.minimum(step, ops.shape(state.sentence)[1] - 1)
        encoded = ops.take(state.sentence, position, axis=1)[:, None]  # [B, 1, D]
        encoded = ops.broadcast_to(encoded, ops.shape(x))
        windows = list(state.hypothesis)
        if self.decoder_start is None:
            x = x + encoded
        else:
            x = ops.concatenate([encoded, x], axis=-1)
            x, windows[0] = self.decoder_start.step(x, windows[0])
        first = len(windows) - len(self.decoder_blocks)
        for i, block in enumerate(self.decoder_blocks, first):
            x, windows[i] = block.step(x, windows[i])
        logits = self.output_projection(self._end(x), state.weights)
        return logits, state._replace(hypothesis=windows)
