"""Positions, residual steps, and a layer of the Transformer's encoder and of its decoder."""

import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.attention import (
    EncoderDecoderAttention,
    KeysValues,
    SelfAttention,
    causal_bias,
    mask_bias,
)
from t2t_lite.layers.base import Dropout, Gradient, Layer, seeds_or_new


def sinusoids(
    positions: keras.KerasTensor, channels: int, paper: bool = False
) -> keras.KerasTensor:
    """Sines in the first half of the features, cosines in the second, as in T2T.

    The wavelengths form a geometric series from 2π to 20,000π. (The paper interleaves sines and
    cosines, which is the same up to the order of features.) An odd last feature is 0.

    Args:
        positions: [N], counted from 0.
        channels: D.
        paper: whether wavelengths are the paper's, 2π · 10,000^(2i/D), which end before 20,000π.

    Returns:
        [N, D], float32.
    """
    half = channels // 2
    step = math.log(10_000.0) / (half if paper else max(half - 1, 1))
    rates = ops.exp(ops.arange(half, dtype="float32") * -step)  # [D/2]
    angles = ops.cast(positions, "float32")[:, None] * rates[None, :]  # [N, D/2]
    signal = ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=1)
    return ops.pad(signal, [[0, 0], [0, channels - 2 * half]])


@keras.saving.register_keras_serializable(package="t2t_lite")
class Position(Layer):
    """Adds a position vector to each embedding.

    Args:
        kind: "timing" (sinusoids), "timing_paper" (see `sinusoids`), "emb" (learned) or "none".
        channels: D.
        max_length: rows of the learned table; later positions share the last row.
        offset: position of the first symbol, for sinusoids.
        stddev: standard deviation of the table's initial values (default: Glorot's uniform).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        kind: str,
        channels: int,
        max_length: int = 256,
        offset: int = 0,
        stddev: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if kind not in ("timing", "timing_paper", "emb", "none"):
            raise UsageError(f"hparam pos={kind!r}: expected timing, timing_paper, emb or none")
        if kind == "emb" and max_length < 1:
            raise UsageError(
                f"hparam pos=emb learns a vector for each of max_length={max_length} positions: "
                "set max_length"
            )
        self.kind = kind
        self.channels = channels
        self.max_length = max_length
        self.offset = offset
        self.stddev = stddev
        if kind == "emb":
            self.table = self.add_weight(
                shape=(max_length, channels),
                initializer=(
                    "glorot_uniform"
                    if stddev is None
                    else keras.initializers.RandomNormal(stddev=stddev)
                ),
                name="table",
            )

    def call(
        self, x: keras.KerasTensor, positions: keras.KerasTensor | None = None
    ) -> keras.KerasTensor:
        """Adds position vectors.

        Args:
            x: [B, N, D].
            positions: [N], counted from 0 (default: 0 to N - 1).
        """
        if positions is None:
            positions = ops.arange(ops.shape(x)[1])
        if self.kind == "none":
            return x
        if self.kind == "emb":
            signal = ops.take(self.table, ops.minimum(positions, self.max_length - 1), axis=0)
        else:
            paper = self.kind == "timing_paper"
            signal = sinusoids(positions + self.offset, self.channels, paper)
        return x + ops.cast(signal, x.dtype)[None]  # [1, N, D]


class LayerNormalization(keras.layers.LayerNormalization):
    """Keras's layer over the last axis, with fewer arrays and, in training, its own gradient.

    Differentiated automatically, it would keep more arrays for the backward pass, and read them
    more often.
    """

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Normalises `x` [..., D], in float32 at least."""
        dtype = keras.backend.result_type(x.dtype, "float32")
        features, gamma, beta = (ops.cast(one, dtype) for one in (x, self.gamma, self.beta))
        if training:
            outputs = _normalised(features, gamma, beta, self.epsilon)
        else:
            outputs = _units(features, self.epsilon)[0] * gamma + beta
        return ops.cast(outputs, x.dtype)


def _units(x: keras.KerasTensor, epsilon: float) -> tuple[keras.KerasTensor, keras.KerasTensor]:
    """Returns (`x` - mean) / √(variance + ε) [..., D], and that divisor's inverse [..., 1]."""
    centred = x - ops.mean(x, axis=-1, keepdims=True)
    variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
    inverse = ops.rsqrt(variance + epsilon)
    return centred * inverse, inverse


def _normalised(
    x: keras.KerasTensor, gamma: keras.KerasTensor, beta: keras.KerasTensor, epsilon: float
) -> keras.KerasTensor:
    """Returns the units of `x` [..., D], times `gamma` [D], plus `beta` [D]."""

    @ops.custom_gradient
    def run(
        x: keras.KerasTensor, gamma: keras.KerasTensor, beta: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, Gradient]:
        units, inverse = _units(x, epsilon)

        def gradient(
            *arguments: keras.KerasTensor, upstream: keras.KerasTensor | None = None
        ) -> tuple[keras.KerasTensor, ...]:
            by_output = arguments[-1] if upstream is None else upstream
            by_gamma, by_units = by_output * units, by_output * gamma
            # What moves the mean or the length of the features changes nothing.
            moving = ops.mean(by_units, axis=-1, keepdims=True)
            stretching = ops.mean(by_units * units, axis=-1, keepdims=True)
            by_x = (by_units - moving - units * stretching) * inverse
            rows = tuple(range(len(x.shape) - 1))
            return by_x, ops.sum(by_gamma, axis=rows), ops.sum(by_output, axis=rows)

        return units * gamma + beta, gradient

    return run(x, gamma, beta)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LayerSteps(Layer):
    """A T2T sequence of steps: `n` normalise, `d` dropout, `a` add the sub-layer's input.

    Args:
        sequence: such as "dan"; "none" and "" do nothing.
        channels: D.
        dropout_rate: dropout rate of step `d`.
        epsilon: added to the variance in step `n`.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        sequence: str,
        channels: int,
        dropout_rate: float = 0.0,
        epsilon: float = 1e-6,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.sequence = "" if sequence == "none" else sequence
        if not set(self.sequence) <= set("nda"):
            raise UsageError(f"layer sequence {sequence!r}: expected letters n, d, a, or none")
        self.channels = channels
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=self.dtype_policy)
        if "n" in self.sequence:
            self.norm = LayerNormalization(epsilon=epsilon, dtype=self.dtype_policy)
            self.norm.build((None, None, channels))

    def call(
        self, x: keras.KerasTensor, before: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """Applies the steps to `x` [B, N, D]; step `a` adds `before` [B, N, D]."""
        for step in self.sequence:
            if step == "n":
                x = self.norm(x, training=training)
            elif step == "d":
                x = self.dropout(x, training=training)
            else:
                x = before + x
        return x


@keras.saving.register_keras_serializable(package="t2t_lite")
class Residual(Layer):
    """Wraps one sub-layer in its steps before and after.

    Post-norm (paper, section 3.1; T2T's v1) is `LayerNorm(x + Dropout(f(x)))`: "none" before,
    "dan" after. Pre-norm (v2, v3) is `x + Dropout(f(LayerNorm(x)))`: "n" before, "da" after.

    Args:
        before: steps applied to the sub-layer's input.
        after: steps applied to its output.
        **kwargs: see `Layer`.
    """

    def __init__(self, before: LayerSteps, after: LayerSteps, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.before = before
        self.after = after

    def call(
        self,
        x: keras.KerasTensor,
        *,
        sublayer: Callable[[keras.KerasTensor], keras.KerasTensor],
        training: bool = False,
    ) -> keras.KerasTensor:
        """Applies the sub-layer and its steps to `x` [B, N, D]."""
        y = sublayer(self.before(x, x, training=training))
        return self.after(y, x, training=training)


class TransformerLayer(Layer):
    """Base of both kinds of layer: the steps around each sub-layer.

    A subclass has the layers `feed_forward` and `feed_forward_residual`.

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

    def _feed_forward(self, x: keras.KerasTensor, training: bool) -> keras.KerasTensor:
        """Applies the feed-forward network to `x` [B, L, D]."""
        return self.feed_forward_residual(
            x, sublayer=lambda y: self.feed_forward(y, training=training), training=training
        )

    def mask_arguments(self, mask: keras.KerasTensor) -> dict[str, keras.KerasTensor]:
        """Returns the arguments of a call that tell which positions [B, L] are not padding.

        They are for layers whose feed-forward network, or loss, has to know; by default, none.
        """
        return {}


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
        return self._feed_forward(self._attended(x, bias, training, mask), training)

    def _attended(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None,
        training: bool,
        mask: keras.KerasTensor | None,
    ) -> keras.KerasTensor:
        """Applies the attention; arguments as `call` takes them."""
        x = ops.cast(x, self.compute_dtype)
        bias = mask_bias(mask) if bias is None else bias
        return self.attention_residual(
            x, sublayer=lambda y: self.attention(y, bias, training=training), training=training
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class DecoderLayer(TransformerLayer):
    """Self-attention, attention to the source, and feed-forward network.

    Args:
        attention: self-attention of the target, or an `SSRU` in its place.
        source_attention: attention from the target to the encoder's output; None in a language
            model, which has no source.
        feed_forward: a `FeedForward`, a `ParameterAttention` or a similar layer.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `TransformerLayer`.
    """

    def __init__(
        self,
        attention: keras.layers.Layer,
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
        """
        x = self._attended(x, encoder_output, causal, padding, training, encoder_output_mask)
        return self._feed_forward(x, training)

    def _attended(
        self,
        x: keras.KerasTensor,
        encoder_output: keras.KerasTensor | KeysValues,
        causal: keras.KerasTensor | None,
        padding: keras.KerasTensor | None,
        training: bool,
        encoder_output_mask: keras.KerasTensor | None,
    ) -> keras.KerasTensor:
        """Applies both attentions; arguments as `call` takes them."""
        x = ops.cast(x, self.compute_dtype)
        causal = causal_bias(ops.shape(x)[1]) if causal is None else causal
        padding = mask_bias(encoder_output_mask) if padding is None else padding
        x = self.attention_residual(
            x, sublayer=lambda y: self.attention(y, causal, training=training), training=training
        )
        is_memory = isinstance(encoder_output, KeysValues)
        memory = encoder_output if is_memory else self.memory(encoder_output)
        return self._with_source(x, memory, padding, training)

    @property
    def self_attentions(self) -> list[SelfAttention]:
        """The layers of self-attention, from the bottom."""
        return [self.attention] if isinstance(self.attention, SelfAttention) else []

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
        """Returns what `step` remembers before the first of `length` steps: nothing."""
        return self.attention.empty_cache(batch, beams, length)

    def step(
        self,
        x: keras.KerasTensor,
        cache: Any,
        step: keras.KerasTensor,
        memory: KeysValues,
        padding: keras.KerasTensor,
    ) -> tuple[keras.KerasTensor, Any]:
        """Processes one position `x` [B, K, D] of every hypothesis; returns it and the cache."""

        def attend(y: keras.KerasTensor) -> keras.KerasTensor:
            nonlocal cache
            y, cache = self.attention.step(y, cache, step)
            return y

        x = self.attention_residual(x, sublayer=attend)
        x = self._with_source(x, memory, padding, training=False)
        return self._feed_forward(x, training=False), cache

    def _with_source(
        self,
        x: keras.KerasTensor,
        memory: KeysValues,
        padding: keras.KerasTensor,
        training: bool,
    ) -> keras.KerasTensor:
        """Applies the attention to the source, if there is one."""
        attention = self.source_attention
        if attention is None:
            return x
        return self.source_residual(
            x,
            sublayer=lambda y: attention(y, memory, padding, training=training),
            training=training,
        )
