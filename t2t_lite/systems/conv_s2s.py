"""ConvS2S: convolutions with attention in every decoder layer (Gehring et al. 2017)."""

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.conv_s2s import ConvS2SHParams, LayerSize
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.base import Dropout, Stack
from t2t_lite.layers.dense import Embedding, OutputProjection
from t2t_lite.layers.transformer_layers import Position
from t2t_lite.models.flops import ForwardFlops, flops_of_part, flops_per_token
from t2t_lite.models.hparams_model import Decoder, Encoder, ModelPart
from t2t_lite.models.seq2seq import AttentionLayer, DecodeState, EncoderDecoder
from t2t_lite.systems.conv_s2s_layers import (
    ConvS2SAttention,
    ConvS2SLayer,
    ConvS2SMemory,
    dense,
    scale_gradient,
)
from t2t_lite.systems.convolution import lengths
from t2t_lite.text.text_encoder import EOS_ID


@keras.saving.register_keras_serializable(package="t2t_lite")
class NormedProjection(OutputProjection):
    """The softmax of ConvS2S: a bias, and weight norm unless the matrix is an embedding, too.

    Args:
        embedding: its rows are the softmax weights.
        weight_norm: whether each of them is divided by its length and multiplied by a learned
            `scale`, at first that length.
        **kwargs: see `Layer`.
    """

    def __init__(self, embedding: Embedding, weight_norm: bool, **kwargs: Any) -> None:
        super().__init__(embedding, **{"use_bias": True, **kwargs})
        self.weight_norm = weight_norm
        self.scale = None
        if weight_norm:
            self.scale = self.add_weight(
                (embedding.vocab_size,),
                lambda *_, **__: lengths(ops.cast(embedding.matrix, "float32"), axis=1),
                name="scale",
            )

    def kernel(self) -> keras.KerasTensor | tuple[()]:
        """Returns the weights [D, V], normed; see `OutputProjection.kernel`."""
        return super().kernel() if self.scale is None else self._kernel()

    def _kernel(self, ids: keras.KerasTensor | None = None) -> keras.KerasTensor:
        if self.scale is None:
            return super()._kernel(ids)
        matrix, scale = (
            ops.cast(self.embedding.matrix, "float32"),
            ops.convert_to_tensor(self.scale),
        )
        if ids is not None:
            matrix, scale = ops.take(matrix, ids, axis=0), ops.take(scale, ids)
        matrix = matrix * (scale / lengths(matrix, axis=1))[:, None]
        return ops.transpose(ops.cast(matrix, self.compute_dtype))


class _ConvS2SPart(ModelPart, abc.ABC):
    """Base of encoder and decoder.

    Args:
        hparams: a `ConvS2SHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ConvS2SHParams
    hparams: ConvS2SHParams

    causal: ClassVar[bool]  # whether it is a decoder

    def _sizes(self) -> list[LayerSize]:
        return self.hparams.decoder_sizes() if self.causal else self.hparams.encoder_sizes()

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        h, sizes = self.hparams, self._sizes()
        d, gain = h.hidden_size, h.initializer_gain
        attends = h.attends() if self.causal else [False] * len(sizes)
        self.position = Position("emb", d, h.max_length, stddev=h.embedding_stddev)
        self.dropout = Dropout(h.dropout, self.seeds)
        self.first = dense(d, sizes[0].channels, gain * (1.0 - h.dropout))
        outputs = [sizes[0].channels]  # features of each output, of `first` to begin with
        layers = []
        for (channels, kernel_size, back), attend in zip(sizes, attends, strict=True):
            layer = ConvS2SLayer(
                outputs[-1],
                channels,
                kernel_size,
                causal=self.causal,
                residual=outputs[-back] if back else 0,
                attention=ConvS2SAttention(channels, d, gain) if attend else None,
                dropout_rate=h.dropout,
                gain=gain,
                seeds=self.seeds,
            )
            layers.append(layer)
            outputs.append(channels)
        self.stack = Stack(layers)
        self.end = dense(sizes[-1].channels, h.softmax_size if self.causal else d, gain)

    def _with_residuals(
        self, outputs: list[keras.KerasTensor]
    ) -> Iterator[tuple[ConvS2SLayer, keras.KerasTensor]]:
        """Yields each layer and what it adds, one of the `outputs` so far."""
        for layer, size in zip(self.stack, self._sizes(), strict=True):
            yield layer, outputs[-max(size.residual, 1)]


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2SEncoder(_ConvS2SPart, Encoder):
    """The encoder: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0)."""

    causal = False

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> ConvS2SMemory:
        """Encodes `inputs` [B, S]; returns what to attend to. Outputs are 0 at padding."""
        mask = ops.not_equal(inputs, 0)
        embedded = self.dropout(self.position(self.embedding(inputs)), training=training)
        outputs = [self.first(embedded)]
        for layer, residual in self._with_residuals(outputs):
            outputs.append(layer(outputs[-1], residual, mask=mask, training=training))
        z = self.end(outputs[-1])
        z = ops.where(mask[..., None], z, ops.zeros((), z.dtype))
        # Every attention layer sends back a gradient, for keys and for values (section 3.4).
        z = scale_gradient(z, 0.5 / sum(self.hparams.attends()))
        return ConvS2SMemory.of(z, embedded, mask)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2SDecoder(_ConvS2SPart, Decoder):
    """The decoder: ids [B, T] and what to attend to -> [B, T, D]. It starts from EOS."""

    causal = True

    def call(
        self, targets: keras.KerasTensor, memory: ConvS2SMemory, training: bool = False
    ) -> keras.KerasTensor:
        """See `Decoder.call`."""
        # Slices have no Keras mask: token 0, where a search outputs it, is not padding.
        embedded = self.embedding(targets)[:, :-1]
        start = self.embedding(ops.full_like(targets[:, :1], EOS_ID))
        embedded = self.position(ops.concatenate([start, embedded], axis=1))
        embedded = self.dropout(embedded, training=training)
        outputs = [self.first(embedded)]
        for layer, residual in self._with_residuals(outputs):
            outputs.append(
                layer(outputs[-1], residual, embedded=embedded, memory=memory, training=training)
            )
        return self.dropout(self.end(outputs[-1]), training=training)

    def attention(self) -> list[ConvS2SAttention]:
        """Returns the layers of attention to the source."""
        layers = (layer.attention for layer in self.stack)
        return [attention for attention in layers if attention is not None]

    def start(self, memory: ConvS2SMemory, beams: int, length: int) -> DecodeState:
        """See `Decoder.start`."""
        batch = ops.shape(memory.keys)[0]
        return DecodeState(
            sentence=memory,
            hypothesis=[layer.convolution.empty_window(batch, beams) for layer in self.stack],
            weights={
                "first": self.first.step_kernel(),
                "stack": [layer.step_kernels() for layer in self.stack],
                "end": self.end.step_kernel(),
            },
        )

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        weights = state.weights
        # All beams [B, K, D] of a sentence are at the same position.
        embedded = self.position(self.embedding.step(ids, step, EOS_ID), ops.reshape(step, (1,)))
        outputs, windows = [self.first(embedded, kernel=weights["first"])], []
        for (layer, residual), window, kernels in zip(
            self._with_residuals(outputs), state.hypothesis, weights["stack"], strict=True
        ):
            y, window = layer.step(outputs[-1], residual, window, kernels, embedded, state.sentence)
            outputs.append(y)
            windows.append(window)
        return self.end(outputs[-1], kernel=weights["end"]), state._replace(hypothesis=windows)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2S(EncoderDecoder):
    """Stacks of gated convolutions, with attention to the source in the decoder's layers.

    As fairseq's `fconv`: the decoder starts from the embedding of EOS, not from a zero vector;
    positions are learned; every linear map and convolution has weight norm.

    Args:
        hparams: a `ConvS2SHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.

    Raises:
        UsageError: sizes of layers do not fit together.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ConvS2SHParams
    hparams: ConvS2SHParams
    encoder_class = ConvS2SEncoder
    decoder_class = ConvS2SDecoder
    decoder: ConvS2SDecoder

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        h = self.hparams
        if self.softmax_embedding.channels != h.softmax_size:
            raise UsageError(
                f"hparam decoder_out_embed_dim={h.decoder_out_embed_dim}: a softmax that shares "
                f"the embeddings has their {h.hidden_size} features (hidden_size)"
            )
        super().make_layers()

    def _make_softmax_embedding(self) -> Embedding:
        h = self.hparams
        if h.share_input_output_embed:
            return self.targets_embedding
        stddev = (h.initializer_gain * (1.0 - h.dropout) / h.softmax_size) ** 0.5
        return Embedding(self.targets_vocab_size, h.softmax_size, scaled=False, stddev=stddev)

    def _make_output_projection(self) -> OutputProjection:
        softmax = self.softmax_embedding
        return NormedProjection(softmax, weight_norm=softmax is not self.targets_embedding)

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        attention = self.decoder.attention()
        return ForwardFlops(
            source=flops_of_part(self.encoder),
            target=flops_of_part(self.decoder) + flops_per_token(self.softmax_embedding),
            target_source=sum(layer.flops_per_pair() for layer in attention),
        )

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the mean over the attention layers, as fairseq; see `Seq2Seq.hook_attention`."""
        seen: list[keras.KerasTensor] = []
        attention = self.decoder.attention()

        def collect(weights: keras.KerasTensor) -> None:
            seen.append(weights[:, 0])
            if len(seen) == len(attention):
                hook(ops.mean(ops.stack(seen), axis=0))
                seen.clear()

        for layer in attention:
            layer.attention_hook = collect
        try:
            yield
        finally:
            for layer in attention:
                layer.attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[AttentionLayer]]:
        """Returns the attention to the source, which has one head."""
        return {"encoder_decoder": self.decoder.attention()}
