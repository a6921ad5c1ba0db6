"""Multi-head attention (paper, section 3.2): over whole sequences, and step by step."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.layers.base import Dropout, Layer, seeds_or_new
from t2t_lite.layers.dense import Projection, sizes
from t2t_lite.tensor_sizes import shape_of, split

# Added to the scores of positions that must not be seen: their softmax weight becomes 0.
MASKED = -1e9


def padding_bias(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Hides padding: [B, S] ids -> [B, 1, 1, S], 0 at tokens and `MASKED` at id 0."""
    return mask_bias(ops.not_equal(ids, 0))


def causal_bias(length: int | keras.KerasTensor) -> keras.KerasTensor:
    """Hides the future: [1, 1, T, T], query position t sees key positions up to t."""
    positions = ops.arange(length)
    future = positions[None, :] > positions[:, None]  # [query, key]
    return ops.where(future, MASKED, 0.0)[None, None]


def future_bias(ids: keras.KerasTensor) -> keras.KerasTensor:
    """Hides the future of targets: [B, T] ids -> [1, 1, T, T], see `causal_bias`."""
    return causal_bias(ops.shape(ids)[1])


def split_heads(x: keras.KerasTensor, heads: int) -> keras.KerasTensor:
    """[B, N, H·d] -> [B, H, N, d]."""
    parts = (*sizes(x)[:2], heads, x.shape[-1] // heads)
    return ops.transpose(ops.reshape(x, parts), (0, 2, 1, 3))


def merge_heads(x: keras.KerasTensor) -> keras.KerasTensor:
    """[B, H, N, d] -> [B, N, H·d]."""
    if x.shape[2] != 1:  # nothing to exchange if each head has one position
        x = ops.transpose(x, (0, 2, 1, 3))
        return ops.reshape(x, (*sizes(x)[:2], x.shape[2] * x.shape[3]))
    return ops.reshape(x, (-1, 1, x.shape[1] * x.shape[3]))


def mask_bias(mask: keras.KerasTensor | None) -> keras.KerasTensor:
    """Hides positions where a Keras mask [B, N] is False: [B, 1, 1, N]; no mask hides nothing."""
    return ops.zeros(()) if mask is None else ops.where(mask, 0.0, MASKED)[:, None, None, :]


# Callback that receives attention weights.
AttentionHook = Callable[[keras.KerasTensor], None]


class KeysValues(NamedTuple):
    """The keys and values that queries attend to."""

    keys: keras.KerasTensor  # [..., H, N, d_k]
    values: keras.KerasTensor  # [..., H, N, d_v]

    def grown(self, length: int) -> "KeysValues":
        """Returns a cache [B, K, H, N, d] with room for `length` positions, keeping its content."""

        def lengthen(cache: keras.KerasTensor) -> keras.KerasTensor:
            missing = length - ops.shape(cache)[3]
            return ops.pad(cache, [[0, 0], [0, 0], [0, 0], [0, missing], [0, 0]])

        return KeysValues(*map(lengthen, self))


class MultiHeadAttention(Layer):
    """Base of all attention layers: sizes, the weighted mean, the output projection.

    Args:
        channels: D.
        heads: H.
        key_channels: features of the keys, all heads together (paper: h × d_k); default: D.
        value_channels: features of the values, all heads together (paper: h × d_v); default: D.
        dropout_rate: dropout of the attention weights.
        gain: scale of the initial variance.
        use_bias: whether queries, keys, values and outputs get biases, initially 0.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.

    Raises:
        UsageError: the features of keys or values are not divisible by the heads.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        key_channels: int | None = None,
        value_channels: int | None = None,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        use_bias: bool = False,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.heads = heads
        self.key_channels = channels if key_channels is None else key_channels
        self.value_channels = channels if value_channels is None else value_channels
        self.dropout_rate = dropout_rate
        self.gain = gain
        self.use_bias = use_bias
        for name in ("key_channels", "value_channels"):
            if getattr(self, name) % heads:
                raise UsageError(
                    f"{name}={getattr(self, name)} cannot be split over {heads} heads: choose a "
                    f"multiple (hparam attention_{name}, or hidden_size), or change num_heads"
                )
        # 1 / √d_k. Scaling queries before their heads are split is deliberate: next to the product
        # with the keys, inside a loop, TensorFlow 2.21 with oneDNN fuses it into a broken graph.
        self.scale = (self.key_channels // heads) ** -0.5
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=self.dtype_policy)
        self.attention_hook: AttentionHook | None = None  # receives the weights [B, H, Q, N]
        self.output_projection = self._projection(self.value_channels, channels)

    def _projection(self, inputs: int, *widths: int) -> Projection:
        return Projection(inputs, widths, self.gain, self.use_bias, dtype=self.dtype_policy)

    def flops_per_pair(self) -> float:
        """Returns the operations of all heads for one query and one key."""
        return 2.0 * (self.key_channels + self.value_channels)

    def attention_weights(
        self, queries: keras.KerasTensor, keys: keras.KerasTensor, bias: keras.KerasTensor
    ) -> keras.KerasTensor:
        """softmax(Q Kᵀ), Q scaled: [B, H, Q, d_k], [B, H, N, d_k] -> [B, H, Q, N].

        The softmax is computed in float32; the result has the dtype of the keys.
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
        self.observe(weights)
        mixed = ops.matmul(self.dropout(weights, training=training), memory.values)
        return self.output_projection(merge_heads(mixed))

    def observe(self, weights: keras.KerasTensor) -> None:
        """Passes the weights [B, H, Q, N] to the hook, if there is one."""
        if self.attention_hook is not None:
            self.attention_hook(weights)


@keras.saving.register_keras_serializable(package="t2t_lite")
class SelfAttention(MultiHeadAttention):
    """Queries, keys and values from one sequence, by one fused projection.

    Args:
        channels: D.
        heads: H.
        neighborhood: r, the number of positions that each position sees (see `restrict`); 0: all.
        **kwargs: see `MultiHeadAttention`.

    Raises:
        UsageError: the features are not divisible by the heads, or `neighborhood` is negative.
    """

    def __init__(
        self,
        channels: int,
        heads: int,
        *,
        neighborhood: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(channels, heads, **kwargs)
        if neighborhood < 0:
            raise UsageError(
                f"hparam attention_neighborhood={neighborhood}: expected at least 1 "
                "position, or 0 for all"
            )
        self.neighborhood = neighborhood
        keys, values = self.key_channels, self.value_channels
        self.qkv = self._projection(channels, keys, keys, values)

    def _project(self, x: keras.KerasTensor) -> tuple[keras.KerasTensor, KeysValues]:
        widths = (self.key_channels, self.key_channels, self.value_channels)
        queries, keys, values = split(self.qkv(x), widths)
        return queries * self.scale, KeysValues(keys, values)

    def call(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D].

        Args:
            x: queries, keys and values.
            bias: added to the scores, broadcasts to [B, H, N, N] (default: hides padding).
            training: whether dropout is on.
            mask: [B, N], False at padding; Keras passes the mask of `x`.
        """
        bias = mask_bias(mask) if bias is None else bias
        queries, (keys, values) = self._project(x)
        memory = KeysValues(split_heads(keys, self.heads), split_heads(values, self.heads))
        positions = ops.arange(shape_of(x)[1])
        return self._attend_at(split_heads(queries, self.heads), memory, bias, positions, training)

    def _attend_at(
        self,
        queries: keras.KerasTensor,
        memory: KeysValues,
        bias: keras.KerasTensor,
        positions: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Does what `attend` does, for queries [B, H, Q, d_k] at `positions` [Q]."""
        if self.neighborhood:
            bias = self.restrict(bias, positions, ops.arange(shape_of(memory.keys)[2]))
        return self.attend(queries, memory, bias, training)

    def restrict(
        self, bias: keras.KerasTensor, queries: keras.KerasTensor, keys: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Hides positions outside the neighbourhood (paper, section 4).

        The neighbourhood is r positions with the query in the middle; if r is even, one more lies
        before the query than after it.

        Args:
            bias: broadcasts to [B, H, Q, N].
            queries: their positions [Q].
            keys: their positions [N].
        """
        size = self.neighborhood
        first = queries[:, None] - size // 2  # [Q, 1]
        seen = (keys >= first) & (keys < first + size)  # [Q, N]
        return bias + ops.where(seen, 0.0, MASKED)

    def empty_cache(self, batch: keras.KerasTensor, beams: int, length: int) -> KeysValues:
        """Returns an empty cache for `length` steps: [B, K, H, length, d]."""
        places = (batch, beams, self.heads, length)
        return KeysValues(
            ops.zeros((*places, self.key_channels // self.heads), self.compute_dtype),
            ops.zeros((*places, self.value_channels // self.heads), self.compute_dtype),
        )

    def step(
        self, x: keras.KerasTensor, cache: KeysValues, step: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, KeysValues]:
        """Processes one position of every hypothesis, which sees the cache up to and with itself.

        Args:
            x: [B, K, D].
            cache: [B, K, H, L, d].
            step: position, a scalar below L.

        Returns:
            [B, K, D] and the cache with this position filled in.
        """
        queries, new = self._project(x)  # [B, K, H·d]
        cache, flat = self._store(cache, new, step)
        positions = ops.arange(shape_of(flat.keys)[2])
        bias = ops.where(positions > step, MASKED, 0.0)  # [L]
        queries = ops.reshape(queries, (-1, self.heads, 1, self.key_channels // self.heads))
        mixed = self._attend_at(queries, flat, bias, ops.reshape(step, (1,)))  # [B·K, 1, D]
        return ops.reshape(mixed, sizes(x)), cache

    def _store(
        self, cache: KeysValues, new: KeysValues, step: keras.KerasTensor
    ) -> tuple[KeysValues, KeysValues]:
        """Writes `new` [B, K, H·d] at position `step` of `cache` [B, K, H, L, d].

        Returns:
            The new cache, and the same as [B·K, H, L, d].
        """
        batch, beams, heads, length = shape_of(cache.keys)[:4]
        rows = ops.arange(batch * (beams * heads))
        places = (rows * length + step)[:, None]  # among all positions of all rows

        def write(cache: keras.KerasTensor, new: keras.KerasTensor) -> keras.KerasTensor:
            # Unlike `slice_update`, this does not call XLA in every step.
            width = cache.shape[-1]
            stored = ops.reshape(cache, (-1, width))
            return ops.scatter_update(stored, places, ops.reshape(new, (-1, width)))

        written = [write(*pair) for pair in zip(cache, new, strict=True)]
        return (
            KeysValues(*(ops.reshape(x, (-1, beams, heads, length, x.shape[-1])) for x in written)),
            KeysValues(*(ops.reshape(x, (-1, heads, length, x.shape[-1])) for x in written)),
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class EncoderDecoderAttention(MultiHeadAttention):
    """Queries from the decoder, keys and values from the encoder's output.

    Args:
        channels: D.
        heads: H.
        **kwargs: see `MultiHeadAttention`.
    """

    def __init__(self, channels: int, heads: int, **kwargs: Any) -> None:
        super().__init__(channels, heads, **kwargs)
        self.query = self._projection(channels, self.key_channels)
        self.kv = self._projection(channels, self.key_channels, self.value_channels)

    def alignment(self, weights: keras.KerasTensor) -> keras.KerasTensor:
        """Returns which source positions queries look at: the mean over heads [B, H, Q, S]."""
        return ops.mean(ops.cast(weights, "float32"), axis=1)  # [B, Q, S]

    def memory(self, encoder_output: keras.KerasTensor) -> KeysValues:
        """Returns keys and values [B, H, S, d] of the encoder's output [B, S, D]."""
        keys, values = split(self.kv(encoder_output), (self.key_channels, self.value_channels))
        return KeysValues(split_heads(keys, self.heads), split_heads(values, self.heads))

    def call(
        self,
        x: keras.KerasTensor,
        memory: KeysValues | keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        training: bool = False,
        memory_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D].

        N is T in training and K in search: the K beams of a sentence are K queries to the same
        memory, which is never copied.

        Args:
            x: queries.
            memory: the encoder's output [B, S, D], or the result of the method `memory`.
            bias: [B, 1, 1, S], added to the scores (default: hides padding).
            training: whether dropout is on.
            memory_mask: [B, S], False at padding; Keras passes the mask of `memory`.
        """
        is_projected = isinstance(memory, KeysValues)
        if bias is None:
            bias = mask_bias(None if is_projected else memory_mask)
        if not is_projected:
            memory = self.memory(memory)
        queries = split_heads(self.query(x) * self.scale, self.heads)
        return self.attend(queries, memory, bias, training)
