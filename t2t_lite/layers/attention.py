"""Multi-head attention (paper, section 3.2): over whole sequences, and step by step."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout

# Added to the scores of positions that must not be seen: their softmax weight becomes 0.
MASKED = -1e9


def padding_bias(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Hides padding: [B, S] ids -> [B, 1, 1, S], 0 at tokens and `MASKED` at id 0."""
    return ops.where(ops.equal(ids, 0), MASKED, 0.0)[:, None, None, :]


def causal_bias(length: int | keras.KerasTensor) -> keras.KerasTensor:
    """Hides the future: [1, 1, T, T], query position t sees key positions up to t."""
    positions = ops.arange(length)
    future = positions[None, :] > positions[:, None]  # [query, key]
    return ops.where(future, MASKED, 0.0)[None, None]


def split_heads(x: keras.KerasTensor, heads: int) -> keras.KerasTensor:
    """[B, N, H·d] -> [B, H, N, d]."""
    batch, length, width = ops.shape(x)[0], ops.shape(x)[1], x.shape[-1]
    return ops.transpose(ops.reshape(x, (batch, length, heads, width // heads)), (0, 2, 1, 3))


def merge_heads(x: keras.KerasTensor) -> keras.KerasTensor:
    """[B, H, N, d] -> [B, N, H·d]."""
    batch, length = ops.shape(x)[0], ops.shape(x)[2]
    width = x.shape[1] * x.shape[3]
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (batch, length, width))


class KeysValues(NamedTuple):
    """What attention looks at."""

    keys: keras.KerasTensor  # [..., H, N, d_k]
    values: keras.KerasTensor  # [..., H, N, d_v]


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
    """Sizes of an attention layer."""

    channels: int  # D
    heads: int  # H
    key_channels: int  # features of the keys of all heads together (paper: h × d_k)
    value_channels: int  # features of the values of all heads together (paper: h × d_v)
    dropout: float = 0.0  # rate, of the attention weights
    gain: float = 1.0  # scale of the initial variance
    neighborhood: int = 0  # r: positions that self-attention sees, see `restrict`; 0: all


class _Attention(Layer):
    """What both kinds of attention share: sizes, the weighted mean, the output projection."""

    def __init__(self, config: AttentionConfig, seeds: keras.random.SeedGenerator) -> None:
        super().__init__()
        for name in ("key_channels", "value_channels"):
            if getattr(config, name) % config.heads:
                raise UsageError(
                    f"{name}={getattr(config, name)} cannot be split over {config.heads} heads: "
                    "choose a multiple of num_heads"
                )
        if config.neighborhood < 0:
            raise UsageError(
                f"hparam attention_neighborhood={config.neighborhood}: expected at least 1 "
                "position, or 0 for all"
            )
        self.config = config
        self.heads = config.heads
        # 1 / √d_k. Scaling queries before their heads are split is deliberate: next to the product
        # with the keys, inside a loop, TensorFlow 2.21 with oneDNN fuses it into a broken graph.
        self.scale = (config.key_channels // config.heads) ** -0.5
        self.dropout = Dropout(config.dropout, seeds)
        # Called with the weights [B, H, Q, N] wherever it is set: for looking at them.
        self.watch: Callable[[keras.KerasTensor], None] | None = None
        self.output_projection = Projection(
            config.value_channels, config.channels, gain=config.gain
        )

    def attention_weights(
        self, queries: keras.KerasTensor, keys: keras.KerasTensor, bias: keras.KerasTensor
    ) -> keras.KerasTensor:
        """softmax(Q Kᵀ), Q scaled: [B, H, Q, d_k], [B, H, N, d_k] -> [B, H, Q, N].

        The softmax is in float32, the result in the dtype of the keys.
        """
        scores = ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))
        return ops.cast(ops.softmax(ops.cast(scores, "float32") + bias), keys.dtype)

    def attend(
        self,
        queries: keras.KerasTensor,
        memory: KeysValues,
        bias: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Equation 1 for all heads, then the output projection: -> [B, Q, D]."""
        weights = self.attention_weights(queries, memory.keys, bias)
        if self.watch is not None:
            self.watch(weights)
        mixed = ops.matmul(self.dropout(weights, training=training), memory.values)
        return self.output_projection(merge_heads(mixed))


class SelfAttention(_Attention):
    """Queries, keys and values from one sequence, by one fused projection without bias.

    Args:
        config: sizes.
        seeds: the model's seed generator.
    """

    def __init__(self, config: AttentionConfig, seeds: keras.random.SeedGenerator) -> None:
        super().__init__(config, seeds)
        keys, values = config.key_channels, config.value_channels
        self.qkv = Projection(config.channels, keys, keys, values, gain=config.gain)

    def _project(self, x: keras.KerasTensor) -> tuple[keras.KerasTensor, KeysValues]:
        keys = self.config.key_channels
        borders = (keys, 2 * keys)
        queries, keys, values = ops.split(self.qkv(x), borders, axis=-1)
        return queries * self.scale, KeysValues(keys, values)

    def call(
        self, x: keras.KerasTensor, bias: keras.KerasTensor, training: bool = False
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D]; `bias` broadcasts to [B, H, N, N]."""
        positions = ops.arange(ops.shape(x)[1])
        bias = self.restrict(bias, positions, positions)
        queries, (keys, values) = self._project(x)
        memory = KeysValues(split_heads(keys, self.heads), split_heads(values, self.heads))
        return self.attend(split_heads(queries, self.heads), memory, bias, training)

    def restrict(
        self, bias: keras.KerasTensor, queries: keras.KerasTensor, keys: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Hides what lies outside the neighbourhood (paper, section 4), if there is one.

        It has r positions with the query's in their middle; if r is even, one more before it than
        behind.

        Args:
            bias: broadcasts to [B, H, Q, N].
            queries: their positions [Q].
            keys: their positions [N].
        """
        size = self.config.neighborhood
        if not size:
            return bias
        first = queries[:, None] - size // 2  # [Q, 1]
        seen = (keys >= first) & (keys < first + size)  # [Q, N]
        return bias + ops.where(seen, 0.0, MASKED)

    def empty_cache(self, batch: keras.KerasTensor, beams: int, length: int) -> KeysValues:
        """A cache for `length` steps: [B, K, H, length, d]."""
        shape = (batch, beams, self.heads, length)
        return KeysValues(
            ops.zeros((*shape, self.config.key_channels // self.heads), self.compute_dtype),
            ops.zeros((*shape, self.config.value_channels // self.heads), self.compute_dtype),
        )

    def step(
        self, x: keras.KerasTensor, cache: KeysValues, step: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, KeysValues]:
        """One position of every hypothesis: sees the cache up to and including itself.

        Args:
            x: [B, K, D].
            cache: [B, K, H, L, d].
            step: position, a scalar below L.

        Returns:
            [B, K, D] and the cache with this position filled in.
        """
        batch, beams, channels = ops.shape(x)[0], x.shape[1], x.shape[2]
        queries, new = self._project(x)  # [B, K, H·d]
        cache = KeysValues(*(self._store(*pair, step) for pair in zip(cache, new, strict=True)))
        length = ops.shape(cache.keys)[3]
        positions = ops.arange(length)
        bias = ops.where(positions > step, MASKED, 0.0)  # [L]
        bias = self.restrict(bias, ops.reshape(step, (1,)), positions)
        rows = batch * beams
        flat = KeysValues(
            *(ops.reshape(part, (rows, self.heads, length, part.shape[-1])) for part in cache)
        )
        queries = ops.reshape(
            queries, (rows, self.heads, 1, self.config.key_channels // self.heads)
        )
        mixed = self.attend(queries, flat, bias)  # [B·K, 1, D]
        return ops.reshape(mixed, (batch, beams, channels)), cache

    def _store(
        self, cache: keras.KerasTensor, new: keras.KerasTensor, step: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Writes `new` [B, K, H·d] at position `step` of `cache` [B, K, H, L, d]."""
        batch, beams, width = ops.shape(new)[0], new.shape[1], cache.shape[-1]
        column = ops.reshape(new, (batch, beams, self.heads, 1, width))
        return ops.slice_update(cache, (0, 0, 0, step, 0), column)


class EncoderDecoderAttention(_Attention):
    """Queries from the decoder, keys and values from the encoder's output.

    Args:
        config: sizes.
        seeds: the model's seed generator.
    """

    def __init__(self, config: AttentionConfig, seeds: keras.random.SeedGenerator) -> None:
        super().__init__(config, seeds)
        keys, values = config.key_channels, config.value_channels
        self.query = Projection(config.channels, keys, gain=config.gain)
        self.kv = Projection(config.channels, keys, values, gain=config.gain)

    def memory(self, encoder_output: keras.KerasTensor) -> KeysValues:
        """Keys and values [B, H, S, d] of the encoder's output [B, S, D], made once a sentence."""
        keys, values = ops.split(self.kv(encoder_output), (self.config.key_channels,), axis=-1)
        return KeysValues(split_heads(keys, self.heads), split_heads(values, self.heads))

    def call(
        self,
        x: keras.KerasTensor,
        memory: KeysValues,
        bias: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D]; `bias` [B, 1, 1, S] hides the source's padding.

        N is T in training. In search it is K: the beams of a sentence are so many queries to the
        same memory, which is never copied for them.
        """
        queries = split_heads(self.query(x) * self.scale, self.heads)
        return self.attend(queries, memory, bias, training)


class ParameterAttention(_Attention):
    """Attention of each position to learned keys and values: AOP, in place of a feed-forward layer.

    From the section "Two Feed-Forward Layers = Attention over Parameters" of the paper's first
    version: `softmax(q K'ᵀ / √d_k) V'` in each head, K' and V' the parameters times √D. T2T's
    `parameter_attention` has √H in place of √D / √d_k, which is the same if H·d_k = D, and biases
    in both projections, which the paper's count of parameters leaves out.

    Args:
        config: sizes.
        pairs: N, keys and values of each head.
        seeds: the model's seed generator.
    """

    def __init__(
        self, config: AttentionConfig, pairs: int, seeds: keras.random.SeedGenerator
    ) -> None:
        super().__init__(config, seeds)
        self.query = Projection(config.channels, config.key_channels, gain=config.gain)
        initializer = keras.initializers.RandomNormal(stddev=config.channels**-0.5)
        self.keys, self.values = (
            self.add_weight(shape=(pairs, channels), initializer=initializer.clone(), name=name)
            for name, channels in (("keys", config.key_channels), ("values", config.value_channels))
        )

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D]."""
        queries = split_heads(self.query(x) * self.scale, self.heads)
        keys, values = (
            split_heads(ops.cast(part * self.config.channels**0.5, x.dtype)[None], self.heads)
            for part in (self.keys, self.values)  # [1, H, pairs, d]
        )
        return self.attend(queries, KeysValues(keys, values), ops.zeros(()), training)
