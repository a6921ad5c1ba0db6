"""Attention to learned keys and values, in place of a feed-forward layer."""

from typing import Any

import keras
from keras import ops

from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import KeysValues, MultiHeadAttention, split_heads


@keras.saving.register_keras_serializable(package="t2t_lite")
class ParameterAttention(MultiHeadAttention):
    """Attention to learned keys and values (AOP), in place of a feed-forward layer.

    From the section "Two Feed-Forward Layers = Attention over Parameters" of the paper's first
    version: `softmax(q K'ᵀ / √d_k) V'` in each head, where K' and V' are the parameters times √D.
    T2T's `parameter_attention` has √H in place of √D / √d_k, which is the same if H·d_k = D. It
    also has biases in both projections, which the paper's parameter count leaves out.

    Args:
        channels: D.
        heads: H.
        pairs: N, key-value pairs of each head.
        **kwargs: see `MultiHeadAttention`.
    """

    def __init__(self, channels: int, heads: int, pairs: int, **kwargs: Any) -> None:
        super().__init__(channels, heads, **kwargs)
        self.pairs = pairs
        self.query = self._projection(channels, self.key_channels)
        initializer = keras.initializers.RandomNormal(stddev=channels**-0.5)
        self.keys, self.values = (
            self.add_weight(shape=(pairs, width), initializer=initializer.clone(), name=name)
            for name, width in (("keys", self.key_channels), ("values", self.value_channels))
        )

    def call(self, x: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Maps `x` [B, N, D] to [B, N, D]."""
        queries = split_heads(self.query(x) * self.scale, self.heads)
        keys, values = (
            split_heads(ops.cast(part * self.channels**0.5, x.dtype)[None], self.heads)
            for part in (self.keys, self.values)  # [1, H, pairs, d]
        )
        return self.attend(queries, KeysValues(keys, values), ops.zeros(()), training)


def of_hparams(
    hparams: TransformerHParams, seeds: keras.random.SeedGenerator
) -> ParameterAttention:
    """Creates the layer according to the hparams."""
    h = hparams
    return ParameterAttention(
        h.hidden_size,
        h.parameter_attention_heads or h.num_heads,
        h.filter_size,
        key_channels=h.parameter_attention_key_channels or h.hidden_size,
        value_channels=h.parameter_attention_value_channels or h.hidden_size,
        dropout_rate=h.attention_dropout,
        gain=h.initializer_gain,
        use_bias=h.attention_bias,
        seeds=seeds,
    )
