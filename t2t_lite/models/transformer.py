"""The Transformer (Vaswani et al. 2017), in its post-norm and pre-norm forms."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import (
    AttentionConfig,
    EncoderDecoderAttention,
    KeysValues,
    ParameterAttention,
    SelfAttention,
    causal_bias,
    padding_bias,
)
from t2t_lite.layers.base import Layer, Stack, default_policy
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.position import Position
from t2t_lite.layers.recomputation import recomputed
from t2t_lite.layers.relative_attention import RelativeSelfAttention
from t2t_lite.layers.residual import LayerSteps, Residual
from t2t_lite.models.seq2seq import (
    Attentive,
    DecodeState,
    Features,
    Seq2Seq,
    Watch,
    shift_right,
)

# Rows of T2T's target-space embedding, and the one that it uses for translation problems.
_TARGET_SPACES, _TARGET_SPACE_ID = 32, 0


class _Parts:
    """Makes the sub-layers of one model from its hparams and its one seed generator."""

    def __init__(self, hparams: TransformerHParams, seeds: keras.random.SeedGenerator) -> None:
        self.hparams = hparams
        self.seeds = seeds
        self.attention = AttentionConfig(
            channels=hparams.hidden_size,
            heads=hparams.num_heads,
            key_channels=hparams.key_channels,
            value_channels=hparams.value_channels,
            dropout=hparams.attention_dropout,
            gain=hparams.initializer_gain,
            neighborhood=hparams.attention_neighborhood,
        )

    def steps(self, sequence: str) -> LayerSteps:
        h = self.hparams
        return LayerSteps(
            sequence, h.hidden_size, h.layer_prepostprocess_dropout, h.norm_epsilon, self.seeds
        )

    def residual(self) -> Residual:
        h = self.hparams
        return Residual(
            self.steps(h.layer_preprocess_sequence), self.steps(h.layer_postprocess_sequence)
        )

    def self_attention(self) -> SelfAttention:
        kind = self.hparams.self_attention_type
        if kind == "dot_product":
            return SelfAttention(self.attention, self.seeds)
        if kind == "dot_product_relative":
            largest = self.hparams.max_relative_position
            return RelativeSelfAttention(self.attention, self.seeds, largest)
        raise UsageError(
            f"hparam self_attention_type={kind!r}: expected dot_product or dot_product_relative"
        )

    def encoder_decoder_attention(self) -> EncoderDecoderAttention:
        return EncoderDecoderAttention(self.attention, self.seeds)

    def feed_forward(self) -> FeedForward | ParameterAttention:
        h = self.hparams
        if h.ffn_layer == "dense_relu_dense":
            return FeedForward(
                h.hidden_size, h.filter_size, h.relu_dropout, h.initializer_gain, self.seeds
            )
        if h.ffn_layer == "parameter_attention":
            config = dataclasses.replace(
                self.attention,
                heads=h.parameter_attention_heads or h.num_heads,
                key_channels=h.parameter_attention_key_channels or h.hidden_size,
                value_channels=h.parameter_attention_value_channels or h.hidden_size,
            )
            return ParameterAttention(config, h.filter_size, self.seeds)
        raise UsageError(
            f"hparam ffn_layer={h.ffn_layer!r}: expected dense_relu_dense or parameter_attention"
        )


class EncoderLayer(Layer):
    """Self-attention and feed-forward network, each in its residual steps."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__()
        self.attention = parts.self_attention()
        self.attention_residual = parts.residual()
        self.feed_forward = parts.feed_forward()
        self.feed_forward_residual = parts.residual()

    def call(
        self, x: keras.KerasTensor, bias: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """Maps `x` [B, S, D] to [B, S, D]; `bias` [B, 1, 1, S] hides padding."""
        x = self.attention_residual(
            x, sublayer=lambda y: self.attention(y, bias, training=training), training=training
        )
        return self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, training=training), training=training
        )


class DecoderLayer(Layer):
    """Self-attention, attention to the source, and feed-forward network."""

    def __init__(self, parts: _Parts) -> None:
        super().__init__()
        self.attention = parts.self_attention()
        self.attention_residual = parts.residual()
        self.source_attention = parts.encoder_decoder_attention()
        self.source_residual = parts.residual()
        self.feed_forward = parts.feed_forward()
        self.feed_forward_residual = parts.residual()

    def call(
        self,
        x: keras.KerasTensor,
        causal: keras.KerasTensor,
        encoder_output: keras.KerasTensor,
        padding: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, T, D] to [B, T, D].

        Args:
            x: the layer's input.
            causal: [1, 1, T, T], hides the future.
            encoder_output: [B, S, D].
            padding: [B, 1, 1, S], hides the source's padding.
            training: whether dropout is on.
        """
        x = self.attention_residual(
            x, sublayer=lambda y: self.attention(y, causal, training=training), training=training
        )
        memory = self.source_attention.memory(encoder_output)
        return self._source_and_feed_forward(x, memory, padding, training)

    def step(
        self,
        x: keras.KerasTensor,
        cache: KeysValues,
        step: keras.KerasTensor,
        memory: KeysValues,
        padding: keras.KerasTensor,
    ) -> tuple[keras.KerasTensor, KeysValues]:
        """One position `x` [B, K, D] of every hypothesis; returns [B, K, D] and the cache."""

        def attend(y: keras.KerasTensor) -> keras.KerasTensor:
            nonlocal cache
            y, cache = self.attention.step(y, cache, step)
            return y

        x = self.attention_residual(x, sublayer=attend)
        return self._source_and_feed_forward(x, memory, padding, training=False), cache

    def _source_and_feed_forward(
        self,
        x: keras.KerasTensor,
        memory: KeysValues,
        padding: keras.KerasTensor,
        training: bool,
    ) -> keras.KerasTensor:
        x = self.source_residual(
            x,
            sublayer=lambda y: self.source_attention(y, memory, padding, training=training),
            training=training,
        )
        return self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, training=training), training=training
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class Transformer(Seq2Seq):
    """Encoder and decoder stacks of attention and feed-forward layers.

    Example:
        >>> model = Transformer(registry.hparams("transformer_tiny"), 8000, 8000)
        >>> logits = model({"inputs": inputs, "targets": targets})  # [B, T, V]

    Args:
        hparams: a `TransformerHParams`.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
    """

    hparams_class: ClassVar[type[BasicHParams]] = TransformerHParams

    def __init__(
        self,
        hparams: TransformerHParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, inputs_vocab_size, targets_vocab_size, **kwargs)
        with default_policy(self.dtype_policy):
            self._make_layers(hparams)

    def _make_layers(self, hparams: TransformerHParams) -> None:
        parts = _Parts(hparams, self.seeds)
        positions = (hparams.pos, hparams.hidden_size, hparams.max_length)
        self.inputs_position = Position(*positions)
        self.targets_position = Position(*positions)
        self.recompute = hparams.recompute_activations
        self.dropout = Dropout(hparams.layer_prepostprocess_dropout, self.seeds)
        self.encoder_layers = Stack(EncoderLayer(parts) for _ in range(hparams.encoder_layers))
        self.decoder_layers = Stack(DecoderLayer(parts) for _ in range(hparams.decoder_layers))
        # Pre-norm stacks end in a normalisation of their own; post-norm ones have one already.
        self.encoder_end = parts.steps(hparams.layer_preprocess_sequence)
        self.decoder_end = parts.steps(hparams.layer_preprocess_sequence)
        self.target_space = (
            self.add_weight(
                shape=(_TARGET_SPACES, hparams.hidden_size),
                initializer="glorot_uniform",
                name="target_space",
            )
            if hparams.use_target_space_embedding
            else None
        )

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns [B, S, D] and the padding bias [B, 1, 1, S]."""
        padding = padding_bias(inputs)
        x = self.inputs_embedding(inputs)
        if self.target_space is not None:
            x = x + ops.cast(self.target_space[_TARGET_SPACE_ID], x.dtype)
        x = self.inputs_position(x, ops.arange(ops.shape(inputs)[1]))
        x = self.dropout(x, training=training)
        for layer in self.encoder_layers:
            x = self._run(layer, training)(x, padding)
        return self.encoder_end(x, x, training=training), padding

    def decode(
        self,
        targets: keras.KerasTensor,
        encoder_output: keras.KerasTensor,
        padding: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `targets` [B, T] to [B, T, D], given `encode`'s results."""
        length = ops.shape(targets)[1]
        x = shift_right(self.targets_embedding(targets))
        x = self.targets_position(x, ops.arange(length))
        x = self.dropout(x, training=training)
        causal = causal_bias(length)
        for layer in self.decoder_layers:
            x = self._run(layer, training)(x, causal, encoder_output, padding)
        return self.decoder_end(x, x, training=training)

    def _run(self, layer: keras.layers.Layer, training: bool) -> Callable[..., keras.KerasTensor]:
        """Returns what maps a layer's tensors to its output."""
        run = functools.partial(layer, training=training)
        return recomputed(run, self.seeds) if training and self.recompute else run

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        encoder_output, padding = self.encode(features["inputs"], training)
        return self.decode(features["targets"], encoder_output, padding, training)

    @contextlib.contextmanager
    def watching(self, watch: Watch) -> Iterator[None]:
        """Shows `watch` the last layer's attention to the source; see `Seq2Seq.watching`."""
        attention = self.decoder_layers[-1].source_attention
        attention.watch = lambda weights: watch(ops.mean(ops.cast(weights, "float32"), axis=1))
        try:
            yield
        finally:
            attention.watch = None

    def attention_layers(self) -> Mapping[str, Sequence[Attentive]]:
        """Returns the attention of all layers; see `Seq2Seq.attention_layers`."""
        return {
            "encoder": [layer.attention for layer in self.encoder_layers],
            "decoder": [layer.attention for layer in self.decoder_layers],
            "encoder_decoder": [layer.source_attention for layer in self.decoder_layers],
        }

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; keys and values of the source are made here, once."""
        encoder_output, padding = self.encode(inputs)
        batch = ops.shape(inputs)[0]
        return DecodeState(
            sentence={
                "memory": [
                    layer.source_attention.memory(encoder_output) for layer in self.decoder_layers
                ],
                "padding": padding,
            },
            hypothesis=[
                layer.attention.empty_cache(batch, beams, length) for layer in self.decoder_layers
            ],
            weights=self.softmax_kernel(),
        )

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Lengthens every cache [B, K, H, L, d] to `length` positions."""

        def lengthen(cache: keras.KerasTensor) -> keras.KerasTensor:
            missing = length - ops.shape(cache)[3]
            return ops.pad(cache, [[0, 0], [0, 0], [0, 0], [0, missing], [0, 0]])

        caches = [KeysValues(*map(lengthen, cache)) for cache in state.hypothesis]
        return state._replace(hypothesis=caches)

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        padding = state.sentence["padding"]
        # All beams [B, K, D] of a sentence stand at the same position.
        x = self.targets_position(self._embed_step(ids, step), ops.reshape(step, (1,)))
        caches = []
        for layer, cache, memory in zip(
            self.decoder_layers, state.hypothesis, state.sentence["memory"], strict=True
        ):
            x, cache = layer.step(x, cache, step, memory, padding)
            caches.append(cache)
        logits = self.project(self.decoder_end(x, x), state.weights)
        return logits, state._replace(hypothesis=caches)
