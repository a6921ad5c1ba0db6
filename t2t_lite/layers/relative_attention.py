"""Self-attention with relative positions (Shaw et al. 2018)."""

from typing import Any

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import KeysValues, SelfAttention, merge_heads
from t2t_lite.layers.dense import unit_scaling
from t2t_lite.tensor_sizes import shape_of


@keras.saving.register_keras_serializable(package="t2t_lite")
class RelativeSelfAttention(SelfAttention):
    """Self-attention with a learned key and value for each distance: T2T's `dot_product_relative`.

    Each key and value is the sum of one for the position and one for its distance from the query
    (equations 3 and 4). Distances beyond the maximum are clipped to it (section 3.2). All heads
    share the vectors of distances.

    Args:
        channels: D.
        heads: H.
        max_relative_position: the maximum distance, in either direction.
        **kwargs: see `SelfAttention`.

    Raises:
        UsageError: the maximum distance is below 1.
    """

    def __init__(
        self, channels: int, heads: int, max_relative_position: int, **kwargs: Any
    ) -> None:
        super().__init__(channels, heads, **kwargs)
        if max_relative_position < 1:
            raise UsageError(
                f"hparam max_relative_position={max_relative_position}: "
                "self_attention_type=dot_product_relative needs at least 1"
            )
        self.max_relative_position = max_relative_position
        self.relative_keys = self._table("relative_keys", self.key_channels)
        self.relative_values = self._table("relative_values", self.value_channels)

    def _table(self, name: str, channels: int) -> keras.Variable:
        """Creates [2·max + 1, d]: a row per distance, starting with the farthest to the left."""
        return self.add_weight(
            shape=(2 * self.max_relative_position + 1, channels // self.heads),
            initializer=unit_scaling(self.gain),
            name=name,
        )

    def flops_per_pair(self) -> float:
        """Returns twice the usual number: each distance also has a key and a value."""
        return 2.0 * super().flops_per_pair()

    def _attend_at(
        self,
        queries: keras.KerasTensor,
        memory: KeysValues,
        bias: keras.KerasTensor,
        positions: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """See `SelfAttention._attend_at`."""
        largest = self.max_relative_position
        seen = ops.arange(shape_of(memory.keys)[2])  # [N]
        if self.neighborhood:
            bias = self.restrict(bias, positions, seen)
        distances = ops.clip(seen[None, :] - positions[:, None], -largest, largest)  # [Q, N]
        keys, values = (
            ops.take(ops.cast(table, self.compute_dtype), distances + largest, axis=0)  # [Q, N, d]
            for table in (self.relative_keys, self.relative_values)
        )
        by_distance = _by_query(queries, ops.transpose(keys, [0, 2, 1]))
        bias = bias + ops.cast(by_distance, "float32")
        weights = self.attention_weights(queries, memory.keys, bias)
        if self.attention_hook is not None:
            self.attention_hook(weights)
        weights = self.dropout(weights, training=training)
        mixed = ops.matmul(weights, memory.values)
        mixed = mixed + _by_query(weights, values)
        return self.output_projection(merge_heads(mixed))


def _by_query(rows: keras.KerasTensor, matrices: keras.KerasTensor) -> keras.KerasTensor:
    """Multiplies the rows of each query, of all sentences and heads, with the query's matrix.

    `ops.einsum` computes the same, but its gradient transposes the rows again, so that forward and
    backward pass take twice as long.

    Args:
        rows: [B, H, Q, m].
        matrices: [Q, m, n].

    Returns:
        [B, H, Q, n].
    """
    sizes = shape_of(rows)
    queries_first = ops.transpose(ops.reshape(rows, [-1, *sizes[2:]]), [1, 0, 2])  # [Q, B·H, m]
    products = ops.transpose(ops.matmul(queries_first, matrices), [1, 0, 2])
    return ops.reshape(products, [*sizes[:3], shape_of(matrices)[-1]])


def of_hparams(hparams: TransformerHParams, heads: int, **sizes: Any) -> RelativeSelfAttention:
    """Creates the layer according to the hparams; `sizes` as `SelfAttention` takes them."""
    largest = hparams.max_relative_position
    return RelativeSelfAttention(hparams.hidden_size, heads, largest, **sizes)
