"""A layer of the Transformer's encoder and of its decoder (paper, section 3.1)."""

from typing import Any

import keras
from keras import ops

from t2t_lite.layers.attention import (
    EncoderDecoderAttention,
    KeysValues,
    SelfAttention,
    causal_bias,
    mask_bias,
)
from t2t_lite.layers.base import Layer, seeds_or_new
from t2t_lite.layers.residual import LayerSteps, Residual


class TransformerLayer(Layer):
    """Base of both kinds of layer: the steps around each sub-layer.

    A subclass has the layers `feed_forward`, which takes the same arguments in every form, and
    `feed_forward_residual`.

    Args:
        before: steps before each sub-layer, see `LayerSteps`; "n": pre-norm, "none": post-norm.
        after: steps after each sub-layer; "da": pre-norm, "dan": post-norm.
        dropout_rate: dropout rate of step `d`.
        epsilon: added to the variance in step `n`.
        **kwargs: see `Layer`.
    """

    feed_forward: keras.layers.Layer
    feed_forward_residual: Residual

    def __init__(
        self,
        *,
        before: str = "n",
        after: str = "da",
        dropout_rate: float = 0.0,
        epsilon: float = 1e-6,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.before = before
        self.after = after
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon

    def _residual(self, channels: int, seeds: keras.random.SeedGenerator) -> Residual:
        policy = self.dtype_policy
        sizes = (channels, self.dropout_rate, self.epsilon, seeds)
        before, after = (
            LayerSteps(steps, *sizes, dtype=policy) for steps in (self.before, self.after)
        )
        return Residual(before, after, dtype=policy)

    def _feed_forward(
        self, x: keras.KerasTensor, training: bool, **masks: keras.KerasTensor | None
    ) -> keras.KerasTensor:
        """Applies the feed-forward network; masks: [B, L], see `MixtureOfExperts.call`."""
        return self.feed_forward_residual(
            x,
            sublayer=lambda y: self.feed_forward(y, training=training, **masks),
            training=training,
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class EncoderLayer(TransformerLayer):
    """Self-attention and feed-forward network, each with its residual steps.

    Examples:
        >>> layer = EncoderLayer(SelfAttention(512, 8), FeedForward(512, 2048), dropout_rate=0.1)
        >>> y = layer(Embedding(32000, 512)(ids))  # [B, S, D]; the embedding's mask hides padding

    Args:
        attention: self-attention of the source.
        feed_forward: a `FeedForward`, a `ParameterAttention` or a similar layer.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `TransformerLayer`.
    """

    def __init__(
        self,
        attention: SelfAttention,
        feed_forward: keras.layers.Layer,
        *,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        seeds = seeds_or_new(seeds)
        self.attention = attention
        self.attention_residual = self._residual(attention.channels, seeds)
        self.feed_forward = feed_forward
        self.feed_forward_residual = self._residual(attention.channels, seeds)

    @property
    def self_attentions(self) -> list[SelfAttention]:
        """The layers of self-attention, from the bottom."""
        return [self.attention]

    def call(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, S, D] to [B, S, D].

        Args:
            x: the layer's input.
            bias: [B, 1, 1, S], hides padding (default: computed from `mask`).
            training: whether dropout is on.
            mask: [B, S], False at padding; Keras passes the mask of `x`.
        """
        x = ops.cast(x, self.compute_dtype)
        bias = mask_bias(mask) if bias is None else bias
        x = self.attention_residual(
            x, sublayer=lambda y: self.attention(y, bias, training=training), training=training
        )
        return self._feed_forward(x, training, mask=mask)


@keras.saving.register_keras_serializable(package="t2t_lite")
class DecoderLayer(TransformerLayer):
    """Self-attention, attention to the source, and feed-forward network.

    Args:
        attention: self-attention of the target.
        source_attention: attention from the target to the encoder's output; None in a language
            model, which has no source.
        feed_forward: a `FeedForward`, a `ParameterAttention` or a similar layer.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `TransformerLayer`.
    """

    def __init__(
        self,
        attention: SelfAttention,
        source_attention: EncoderDecoderAttention | None,
        feed_forward: keras.layers.Layer,
        *,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        seeds = seeds_or_new(seeds)
        self.attention = attention
        self.attention_residual = self._residual(attention.channels, seeds)
        self.source_attention = source_attention
        if source_attention is not None:
            self.source_residual = self._residual(attention.channels, seeds)
        self.feed_forward = feed_forward
        self.feed_forward_residual = self._residual(attention.channels, seeds)

    def call(
        self,
        x: keras.KerasTensor,
        encoder_output: keras.KerasTensor | KeysValues,
        causal: keras.KerasTensor | None = None,
        padding: keras.KerasTensor | None = None,
        training: bool = False,
        encoder_output_mask: keras.KerasTensor | None = None,
        x_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, T, D] to [B, T, D].

        Args:
            x: the layer's input.
            encoder_output: [B, S, D], or the result of the method `memory`; ignored without
                `source_attention`.
            causal: [1, 1, T, T], hides the future (default: computed here).
            padding: [B, 1, 1, S], hides the source's padding (default: computed from its mask).
            training: whether dropout is on.
            encoder_output_mask: [B, S], False at padding; Keras passes it if there is one.
            x_mask: [B, T], False at positions that predict padding, which auxiliary losses do not
                count.
        """
        x = ops.cast(x, self.compute_dtype)
        causal = causal_bias(ops.shape(x)[1]) if causal is None else causal
        padding = mask_bias(encoder_output_mask) if padding is None else padding
        x = self.attention_residual(
            x, sublayer=lambda y: self.attention(y, causal, training=training), training=training
        )
        is_memory = isinstance(encoder_output, KeysValues)
        memory = encoder_output if is_memory else self.memory(encoder_output)
        return self._source_and_feed_forward(x, memory, padding, training, x_mask)

    @property
    def self_attentions(self) -> list[SelfAttention]:
        """The layers of self-attention, from the bottom."""
        return [self.attention]

    @property
    def source_attentions(self) -> list[EncoderDecoderAttention]:
        """The layers of attention to the source, from the bottom."""
        return [] if self.source_attention is None else [self.source_attention]

    def memory(self, encoder_output: keras.KerasTensor) -> Any:
        """Returns the `KeysValues` of the encoder's output [B, S, D] that the layer attends to."""
        if self.source_attention is None:
            return ()
        return self.source_attention.memory(encoder_output)

    def empty_cache(self, batch: keras.KerasTensor, beams: int, length: int) -> Any:
        """Returns the `KeysValues` of `step` before the first of `length` steps, empty."""
        return self.attention.empty_cache(batch, beams, length)

    def step(
        self,
        x: keras.KerasTensor,
        cache: KeysValues,
        step: keras.KerasTensor,
        memory: KeysValues,
        padding: keras.KerasTensor,
    ) -> tuple[keras.KerasTensor, KeysValues]:
        """Processes one position `x` [B, K, D] of every hypothesis; returns it and the cache."""

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
        counted: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        attention = self.source_attention
        if attention is not None:
            x = self.source_residual(
                x,
                sublayer=lambda y: attention(y, memory, padding, training=training),
                training=training,
            )
        # Not the mask that Keras keeps with `x`: no output may depend on what its own position
        # will hold, and in a search, an id of 0 is not padding.
        everywhere = ops.ones_like(x[..., 0], dtype="bool")
        return self._feed_forward(x, training, mask=everywhere, counted=counted)
