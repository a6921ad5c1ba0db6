"""The Evolved Transformer (So et al. 2019)."""

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import (
    MASKED,
    EncoderDecoderAttention,
    KeysValues,
    SelfAttention,
    causal_bias,
    mask_bias,
)
from t2t_lite.layers.base import Dropout, Layer, Stack, seeds_or_new
from t2t_lite.layers.dense import FeedForward, Projection, unit_scaling
from t2t_lite.layers.transformer_layers import DecoderLayer, EncoderLayer, LayerSteps
from t2t_lite.models.hparams_model import Decoder, Encoder
from t2t_lite.models.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerEncoder,
    TransformerPart,
)
from t2t_lite.systems.convolution import Convolution, SeparableConvolution, glu


def _added(wide: keras.KerasTensor, narrow: keras.KerasTensor) -> keras.KerasTensor:
    """Adds `narrow` [..., n] to the first n features of `wide` [..., w]."""
    missing = wide.shape[-1] - narrow.shape[-1]
    return wide + ops.pad(narrow, [[0, 0]] * (len(wide.shape) - 1) + [[0, missing]])


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedFeedForward(Layer):
    """The decoder's feed-forward network: swish, then normalisation, between the dense layers.

    Args:
        channels: D.
        filter_size: hidden features.
        before: steps on the hidden features, see `LayerSteps`; "n": pre-norm, "none": post-norm.
        dropout_rate: dropout of the hidden features.
        epsilon: added to the variance in step `n`.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        filter_size: int,
        *,
        before: str = "n",
        dropout_rate: float = 0.0,
        epsilon: float = 1e-6,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.filter_size = filter_size
        self.before = before
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon
        self.gain = gain
        policy, seeds = self.dtype_policy, seeds_or_new(seeds)
        self.expand = Projection(channels, (filter_size,), gain, use_bias=True, dtype=policy)
        self.dropout = Dropout(dropout_rate, seeds, dtype=policy)
        self.middle = LayerSteps(before, filter_size, dropout_rate, epsilon, seeds, dtype=policy)
        self.contract = Projection(filter_size, (channels,), gain, use_bias=True, dtype=policy)

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Maps `x` [..., D] to [..., D]; see `FeedForward.call`."""
        x = self.dropout(ops.silu(self.expand(x)), training=training)
        return self.contract(self.middle(x, x, training=training))


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedEncoderLayer(EncoderLayer):
    """A gated linear unit, two convolutions side by side, then a layer of the Transformer.

    Args:
        attention: self-attention of the source.
        feed_forward: a `FeedForward` or a similar layer.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `TransformerLayer`.
    """

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: keras.layers.Layer,
        *,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        seeds = seeds_or_new(seeds)
        super().__init__(attention, feed_forward, seeds=seeds, **kwargs)
        self.gain = gain
        policy, d = self.dtype_policy, attention.channels
        options: dict[str, Any] = {"initializer": unit_scaling(gain), "dtype": policy}
        sizes = (self.dropout_rate, self.epsilon, seeds)
        self.dropout = Dropout(self.dropout_rate, seeds, dtype=policy)
        self.gated = Projection(d, (d, d), gain, use_bias=True, dtype=policy)  # values, gates
        self.gated_residual = self._residual(d, seeds)
        self.wide = Projection(d, (4 * d,), gain, use_bias=True, dtype=policy)
        self.narrow = Convolution(d, d // 2, 3, **options)
        self.middle = LayerSteps(self.before, 4 * d, *sizes, dtype=policy)
        self.joined = SeparableConvolution(4 * d, d // 2, 9, **options)
        self.branches_residual = self._residual(d, seeds)

    def call(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, S, D] to [B, S, D]; see `EncoderLayer.call`."""
        x = ops.cast(x, self.compute_dtype)
        if mask is None and bias is not None:
            mask = bias[:, 0, 0] > MASKED / 2  # [B, S]
        x = self.gated_residual(x, sublayer=lambda y: glu(self.gated(y)), training=training)
        x = self.branches_residual(
            x, sublayer=lambda y: self._branches(y, mask, training), training=training
        )
        return super().call(x, bias, training, mask)

    def _branches(
        self, x: keras.KerasTensor, mask: keras.KerasTensor | None, training: bool
    ) -> keras.KerasTensor:
        wide = self.dropout(ops.relu(self.wide(x)), training=training)
        narrow = self.dropout(ops.relu(self.narrow(x, mask=mask)), training=training)
        y = _added(wide, narrow)
        y = self.joined(self.middle(y, y, training=training), mask=mask)
        return _added(ops.zeros_like(x), y)


class EvolvedMemory(NamedTuple):
    """Keys and values of the source, for both layers that attend to it."""

    first: KeysValues
    second: KeysValues


class EvolvedCache(NamedTuple):
    """What a decoder layer keeps of the positions before."""

    wide: KeysValues  # of the self-attention with more heads
    own: KeysValues  # of the other self-attention
    inputs: keras.KerasTensor  # [B, K, 10, D], of the convolutions side by side
    joined: keras.KerasTensor  # [B, K, 6, 2D], of the convolution after them

    def grown(self, length: int) -> "EvolvedCache":
        """Returns the cache with room for `length` positions, keeping its content."""
        return self._replace(wide=self.wide.grown(length), own=self.own.grown(length))


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedDecoderLayer(DecoderLayer):
    """Attention to target and source side by side, convolutions, then a Transformer's layer.

    Args:
        attention: self-attention of the target.
        source_attention: attention from the target to the encoder's output.
        feed_forward: an `EvolvedFeedForward` or a similar layer.
        wide_attention: the self-attention at the bottom, with more heads.
        first_source_attention: the attention to the source at the bottom.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `TransformerLayer`.
    """

    attention: SelfAttention
    source_attention: EncoderDecoderAttention  # there is always one

    def __init__(
        self,
        attention: SelfAttention,
        source_attention: EncoderDecoderAttention,
        feed_forward: keras.layers.Layer,
        *,
        wide_attention: SelfAttention,
        first_source_attention: EncoderDecoderAttention,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        seeds = seeds_or_new(seeds)
        super().__init__(attention, source_attention, feed_forward, seeds=seeds, **kwargs)
        self.wide_attention = wide_attention
        self.first_source_attention = first_source_attention
        self.gain = gain
        policy, d = self.dtype_policy, attention.channels
        options: dict[str, Any] = {
            "causal": True,
            "initializer": unit_scaling(gain),
            "dtype": policy,
        }
        sizes = (self.dropout_rate, self.epsilon, seeds)
        self.dropout = Dropout(self.dropout_rate, seeds, dtype=policy)
        self.first = LayerSteps(self.before, d, *sizes, dtype=policy)
        self.wide = SeparableConvolution(d, 2 * d, 11, **options)
        self.narrow = SeparableConvolution(d, d // 2, 7, **options)
        self.middle = LayerSteps(self.before, 2 * d, *sizes, dtype=policy)
        self.joined = SeparableConvolution(2 * d, d, 7, **options)
        self.branches_residual = self._residual(d, seeds)

    @property
    def self_attentions(self) -> list[SelfAttention]:
        """The layers of self-attention, from the bottom."""
        return [self.wide_attention, self.attention]

    @property
    def source_attentions(self) -> list[EncoderDecoderAttention]:
        """The layers of attention to the source, from the bottom."""
        return [self.first_source_attention, self.source_attention]

    def memory(self, encoder_output: keras.KerasTensor) -> EvolvedMemory:
        """Returns what the layer attends to: keys and values of the encoder's output [B, S, D]."""
        return EvolvedMemory(*(layer.memory(encoder_output) for layer in self.source_attentions))

    def empty_cache(self, batch: keras.KerasTensor, beams: int, length: int) -> EvolvedCache:
        """Returns the cache of `step` before the first of `length` steps."""
        return EvolvedCache(
            self.wide_attention.empty_cache(batch, beams, length),
            self.attention.empty_cache(batch, beams, length),
            self.wide.empty_window(batch, beams),
            self.joined.empty_window(batch, beams),
        )

    def call(
        self,
        x: keras.KerasTensor,
        encoder_output: Any,
        causal: keras.KerasTensor | None = None,
        padding: keras.KerasTensor | None = None,
        training: bool = False,
        encoder_output_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, T, D] to [B, T, D]; see `DecoderLayer.call`."""
        x = ops.cast(x, self.compute_dtype)
        causal = causal_bias(ops.shape(x)[1]) if causal is None else causal
        padding = mask_bias(encoder_output_mask) if padding is None else padding
        is_memory = isinstance(encoder_output, EvolvedMemory)
        memory = encoder_output if is_memory else self.memory(encoder_output)
        y = self.first(x, x, training=training)
        target = self.wide_attention(y, causal, training=training)
        source = self.first_source_attention(y, memory.first, padding, training=training)
        x = x + self.dropout(target, training=training) + self.dropout(source, training=training)

        def branches(y: keras.KerasTensor) -> keras.KerasTensor:
            return self.joined(self._added(self.wide(y), self.narrow(y), training))

        x = self.branches_residual(x, sublayer=branches, training=training)
        return super().call(x, memory.second, causal, padding, training)

    def step(
        self,
        x: keras.KerasTensor,
        cache: Any,
        step: keras.KerasTensor,
        memory: Any,
        padding: keras.KerasTensor,
    ) -> tuple[keras.KerasTensor, Any]:
        """Processes one position `x` [B, K, D] of every hypothesis; returns it and the cache."""
        y = self.first(x, x)
        target, wide_cache = self.wide_attention.step(y, cache.wide, step)
        x = x + target + self.first_source_attention(y, memory.first, padding)
        inputs, joined = cache.inputs, cache.joined

        def branches(y: keras.KerasTensor) -> keras.KerasTensor:
            nonlocal inputs, joined
            narrow, _ = self.narrow.step(y, inputs[:, :, -self.narrow.margin :])
            wide, inputs = self.wide.step(y, inputs)
            y, joined = self.joined.step(self._added(wide, narrow), joined)
            return y

        x = self.branches_residual(x, sublayer=branches)
        x, own = super().step(x, cache.own, step, memory.second, padding)
        return x, EvolvedCache(wide_cache, own, inputs, joined)

    def _added(
        self, wide: keras.KerasTensor, narrow: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """Joins the outputs of the convolutions side by side, for the one after them."""
        wide = self.dropout(ops.relu(wide), training=training)
        y = _added(wide, self.dropout(narrow, training=training))
        return self.middle(y, y, training=training)


# Heads of the decoder's first self-attention: twice as many as elsewhere, up to this number.
_MAX_HEADS = 16


def _evolved(part: TransformerPart) -> dict[str, Any]:
    """Returns what all layers of encoder and decoder take."""
    return {**part._layer_arguments(), "gain": part.hparams.initializer_gain}


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedEncoder(TransformerEncoder):
    """The encoder: ids [B, S] -> [B, S, D]; see `TransformerEncoder`."""

    def _make_stack(self) -> Stack:
        h = self.hparams
        sizes = (h.hidden_size, 4 * h.hidden_size, h.layer_prepostprocess_dropout)
        return Stack(
            EvolvedEncoderLayer(
                self._self_attention(),
                FeedForward(*sizes, h.initializer_gain, self.seeds),
                **_evolved(self),
            )
            for _ in range(h.encoder_layers)
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedDecoder(TransformerDecoder):
    """The decoder: ids [B, T] and the encoder's output -> [B, T, D]; see `TransformerDecoder`."""

    def _make_stack(self) -> Stack:
        h = self.hparams
        if h.decoder_self != "attention":
            raise UsageError(
                f"hparam decoder_self={h.decoder_self}: the layers of an Evolved Transformer have "
                "self-attention; set decoder_self=attention"
            )
        heads = max(min(2 * h.num_heads, _MAX_HEADS), h.num_heads)
        return Stack(
            EvolvedDecoderLayer(
                self._self_attention(),
                self._source_attention(),
                self._evolved_feed_forward(),
                wide_attention=self._self_attention(heads),
                first_source_attention=self._source_attention(),
                **_evolved(self),
            )
            for _ in range(h.decoder_layers)
        )

    def _evolved_feed_forward(self) -> EvolvedFeedForward:
        h = self.hparams
        return EvolvedFeedForward(
            h.hidden_size,
            4 * h.hidden_size,
            before=h.layer_preprocess_sequence,
            dropout_rate=h.layer_prepostprocess_dropout,
            epsilon=h.norm_epsilon,
            gain=h.initializer_gain,
            seeds=self.seeds,
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedTransformer(Transformer):
    """A Transformer whose layers an architecture search found; they have convolutions, too.

    It takes the Transformer's hparams. As in T2T, `filter_size`, `ffn_layer` and `relu_dropout`
    play no part: feed-forward layers have four times the features, and dropout of their own.

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    encoder_class: ClassVar[type[Encoder]] = EvolvedEncoder
    decoder_class: ClassVar[type[Decoder]] = EvolvedDecoder
    can_lack_inputs: ClassVar[bool] = False
