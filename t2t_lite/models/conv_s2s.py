"""ConvS2S: convolutions with attention in every decoder layer (Gehring et al. 2017)."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.conv_s2s import ConvS2SHParams
from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.base import Stack
from t2t_lite.layers.conv_s2s import (
    ConvS2SAttention,
    ConvS2SLayer,
    ConvS2SMemory,
    dense,
    scale_gradient,
)
from t2t_lite.layers.convolution import Convolution, lengths
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.position import Position
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import HParamsModel
from t2t_lite.models.model_part import Encoder
from t2t_lite.models.output_projection import OutputProjection
from t2t_lite.models.seq2seq import AttentionLayer, DecodeState, Features, Seq2Seq
from t2t_lite.text.text_encoder import EOS_ID


def _position(hparams: ConvS2SHParams) -> Position:
    return Position("emb", hparams.hidden_size, hparams.max_length, hparams.embedding_stddev)


def _layers(hparams: ConvS2SHParams, seeds: keras.random.SeedGenerator, decoder: bool) -> Stack:
    """Creates the layers of the encoder or of the decoder."""
    sizes = hparams.decoder_sizes() if decoder else hparams.encoder_sizes()
    attends = hparams.attends() if decoder else [False] * len(sizes)
    gain = hparams.initializer_gain
    outputs = [sizes[0].channels]  # features of each output, of `_first` to begin with
    layers = []
    for (channels, kernel_size, back), attend in zip(sizes, attends, strict=True):
        layer = ConvS2SLayer(
            outputs[-1],
            channels,
            kernel_size,
            causal=decoder,
            residual=outputs[-back] if back else 0,
            attention=ConvS2SAttention(channels, hparams.hidden_size, gain) if attend else None,
            dropout_rate=hparams.dropout,
            gain=gain,
            seeds=seeds,
        )
        layers.append(layer)
        outputs.append(channels)
    return Stack(layers)


def _first(hparams: ConvS2SHParams, channels: int) -> Convolution:
    """Creates the map from embeddings to the `channels` of the first layer."""
    gain = hparams.initializer_gain * (1.0 - hparams.dropout)
    return dense(hparams.hidden_size, channels, gain)


class _NormedProjection(OutputProjection):
    """The softmax of ConvS2S: a bias, and weight norm unless the matrix is an embedding, too.

    Args:
        embedding: its rows are the softmax weights.
        bias: [V].
        scale: the lengths [V] of the normed weights; None: no weight norm.
    """

    def __init__(
        self, embedding: Embedding, bias: keras.Variable, scale: keras.Variable | None
    ) -> None:
        super().__init__(embedding, bias)
        self._scale = scale

    def kernel(self) -> keras.KerasTensor | tuple[()]:
        """Returns the weights [D, V], normed; see `OutputProjection.kernel`."""
        return super().kernel() if self._scale is None else self._kernel()

    def _kernel(self) -> keras.KerasTensor:
        if self._scale is None:
            return super()._kernel()
        matrix = ops.cast(self._embedding.matrix, "float32")
        matrix = matrix * (self._scale / lengths(matrix, axis=1))[:, None]
        return ops.transpose(ops.cast(matrix, self._embedding.compute_dtype))

    @property
    def variables(self) -> list[keras.Variable]:
        """See `OutputProjection.variables`."""
        scale = [] if self._scale is None else [self._scale]
        return [*super().variables, *scale]


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2SEncoder(Encoder):
    """The encoder: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0).

    Args:
        hparams: a `ConvS2SHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: a `ConvS2S` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = ConvS2SHParams
    hparams: ConvS2SHParams
    shared_names: ClassVar[tuple[str, ...]] = (
        "inputs_embedding",
        "inputs_position",
        "dropout",
        "encoder_start",
        "encoder_layers",
        "encoder_end",
    )

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        h = owner.hparams
        assert isinstance(h, ConvS2SHParams)
        sizes = h.encoder_sizes()
        owner.inputs_position = _position(h)
        owner.dropout = Dropout(h.dropout, owner.seeds)
        owner.encoder_start = _first(h, sizes[0].channels)
        owner.encoder_layers = _layers(h, owner.seeds, decoder=False)
        owner.encoder_end = dense(sizes[-1].channels, h.hidden_size, h.initializer_gain)

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D], 0 at padding."""
        return self.encode(inputs, training).keys

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> ConvS2SMemory:
        """Encodes `inputs` [B, S]; returns what to attend to."""
        mask = ops.not_equal(inputs, 0)
        embedded = self.inputs_position(self.inputs_embedding(inputs))
        embedded = self.dropout(embedded, training=training)
        outputs = [self.encoder_start(embedded)]
        for layer, size in zip(self.encoder_layers, self.hparams.encoder_sizes(), strict=True):
            residual = outputs[-max(size.residual, 1)]
            outputs.append(layer(outputs[-1], residual, mask=mask, training=training))
        z = self.encoder_end(outputs[-1])
        z = ops.where(mask[..., None], z, ops.zeros((), z.dtype))
        # Every attention layer sends back a gradient, for keys and for values (section 3.4).
        z = scale_gradient(z, 0.5 / sum(self.hparams.attends()))
        return ConvS2SMemory.of(z, embedded, mask)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2S(Seq2Seq):
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
    encoder_class: ClassVar[type[ConvS2SEncoder]] = ConvS2SEncoder

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        h = self.hparams
        if self.softmax_embedding.channels != h.softmax_size:
            raise UsageError(
                f"hparam decoder_out_embed_dim={h.decoder_out_embed_dim}: a softmax that shares "
                f"the embeddings has their {h.hidden_size} features (hidden_size)"
            )
        sizes = h.decoder_sizes()
        self.encoder_class.add_layers(self)
        self.targets_position = _position(h)
        self.decoder_start = _first(h, sizes[0].channels)
        self.decoder_layers = _layers(h, self.seeds, decoder=True)
        self.decoder_end = dense(sizes[-1].channels, h.softmax_size, h.initializer_gain)
        self.output_projection = self._make_output_projection()

    def _make_softmax_embedding(self) -> Embedding:
        h = self.hparams
        if h.share_input_output_embed:
            return self.targets_embedding
        stddev = (h.initializer_gain * (1.0 - h.dropout) / h.softmax_size) ** 0.5
        return Embedding(self.targets_vocab_size, h.softmax_size, scaled=False, stddev=stddev)

    def _make_output_projection(self) -> OutputProjection:
        softmax = self.softmax_embedding
        rows = (self.targets_vocab_size,)
        self.softmax_bias = self.add_weight(shape=rows, initializer="zeros", name="softmax_bias")
        self.softmax_scale = None
        if softmax is not self.targets_embedding:
            self.softmax_scale = self.add_weight(
                shape=rows,
                initializer=lambda *_, **__: lengths(ops.cast(softmax.matrix, "float32"), axis=1),
                name="softmax_scale",
            )
        return _NormedProjection(softmax, self.softmax_bias, self.softmax_scale)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        memory = self._encoder_view.encode(features["inputs"], training)
        # Slices have no Keras mask: token 0, where a search outputs it, is not padding.
        embedded = self.targets_embedding(features["targets"])[:, :-1]
        start = self.targets_embedding(ops.full_like(features["targets"][:, :1], EOS_ID))
        embedded = self.targets_position(ops.concatenate([start, embedded], axis=1))
        embedded = self.dropout(embedded, training=training)
        outputs = [self.decoder_start(embedded)]
        for layer, residual in self._with_residuals(outputs):
            outputs.append(
                layer(outputs[-1], residual, embedded=embedded, memory=memory, training=training)
            )
        return self.dropout(self.decoder_end(outputs[-1]), training=training)

    def _with_residuals(
        self, outputs: list[keras.KerasTensor]
    ) -> Iterator[tuple[ConvS2SLayer, keras.KerasTensor]]:
        """Yields each decoder layer and what it adds, one of the `outputs` so far."""
        for layer, size in zip(self.decoder_layers, self.hparams.decoder_sizes(), strict=True):
            yield layer, outputs[-max(size.residual, 1)]

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        encoder = (self.encoder_start, self.encoder_layers, self.encoder_end)
        decoder = (self.decoder_start, self.decoder_layers, self.decoder_end)
        return ForwardFlops(
            source=sum(map(flops_per_token, encoder)),
            target=sum(map(flops_per_token, (*decoder, self.softmax_embedding))),
            target_source=sum(attention.flops_per_pair() for attention in self._attention()),
        )

    def _attention(self) -> list[ConvS2SAttention]:
        layers = (layer.attention for layer in self.decoder_layers)
        return [attention for attention in layers if attention is not None]

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the mean over the attention layers, as fairseq; see `Seq2Seq.hook_attention`."""
        seen: list[keras.KerasTensor] = []
        attention = self._attention()

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
        return {"encoder_decoder": self._attention()}

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; the size of the state does not depend on `length`."""
        batch = ops.shape(inputs)[0]
        layers = self.decoder_layers
        return DecodeState(
            sentence=self._encoder_view.encode(inputs),
            hypothesis=[layer.convolution.empty_window(batch, beams) for layer in layers],
            weights={
                "start": self.decoder_start.step_kernel(),
                "layers": [layer.step_kernels() for layer in layers],
                "end": self.decoder_end.step_kernel(),
                "softmax": self.output_projection.kernel(),
            },
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
        weights = state.weights
        # All beams [B, K, D] of a sentence are at the same position.
        embedded = self.targets_position(self._embed_step(ids, step), ops.reshape(step, (1,)))
        outputs, windows = [self.decoder_start(embedded, kernel=weights["start"])], []
        for (layer, residual), window, kernels in zip(
            self._with_residuals(outputs), state.hypothesis, weights["layers"], strict=True
        ):
            y, window = layer.step(outputs[-1], residual, window, kernels, embedded, state.sentence)
            outputs.append(y)
            windows.append(window)
        hidden = self.decoder_end(outputs[-1], kernel=weights["end"])
        logits = self.output_projection(hidden, weights["softmax"])
        return logits, state._replace(hypothesis=windows)

    def _embed_step(self, ids: keras.KerasTensor, step: keras.KerasTensor) -> keras.KerasTensor:
        """Embeds `ids` [B, K] as the inputs [B, K, D] of a decoding step; EOS at step 0."""
        return self.targets_embedding(ops.where(ops.equal(step, 0), EOS_ID, ids))
