"""The layers of ConvS2S (Gehring et al. 2017, "Convolutional Sequence to Sequence Learning")."""

from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.attention import MASKED, AttentionHook
from t2t_lite.layers.base import Dropout, Layer, seeds_or_new
from t2t_lite.systems.convolution import Convolution, glu

# The sum of two numbers of equal variance keeps that variance (section 3.4).
HALVED = 0.5**0.5


def normal(variance: float) -> keras.initializers.Initializer:
    """Returns the initializer of a normal distribution with mean 0."""
    return keras.initializers.RandomNormal(stddev=variance**0.5)


def dense(inputs: int, channels: int, gain: float = 1.0, **kwargs: Any) -> Convolution:
    """Returns a weight-normed dense layer, whose outputs have `gain` times the inputs' variance."""
    return Convolution(
        inputs, channels, 1, weight_norm=True, initializer=normal(gain / inputs), **kwargs
    )


def scale_gradient(x: keras.KerasTensor, factor: float) -> keras.KerasTensor:
    """Returns `x` itself; the gradient that flows back through it is multiplied by `factor`."""
    constant = ops.stop_gradient(x)
    return constant + factor * (x - constant)


class ConvS2SMemory(NamedTuple):
    """What the decoder attends to, shared by all beams of a sentence."""

    keys: keras.KerasTensor  # z: the encoder's output [B, S, D], 0 at padding
    values: keras.KerasTensor  # (z + e)·√½ [B, S, D], with the encoder's embeddings e
    bias: keras.KerasTensor  # [B, 1, S], hides padding
    scale: keras.KerasTensor  # [B, 1, 1], √m for m tokens

    @classmethod
    def of(
        cls, keys: keras.KerasTensor, embedded: keras.KerasTensor, mask: keras.KerasTensor
    ) -> "ConvS2SMemory":
        """Returns the memory of `keys` and `embedded` [B, S, D]; `mask` [B, S]: no padding."""
        # The paper's m·√(1/m): m for the mean's sum, the root for the variance of a mean.
        scale = ops.sqrt(ops.sum(ops.cast(mask, keys.dtype), axis=1))[:, None, None]
        bias = ops.where(mask, 0.0, MASKED)[:, None]
        return cls(keys, (keys + embedded) * HALVED, bias, scale)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2SAttention(Layer):
    """Attention of one decoder layer to the source (section 3.3).

    Args:
        channels: C, features of the decoder layer.
        embedding_size: D, features of embeddings and of the encoder's output.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(
        self, channels: int, embedding_size: int, gain: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.embedding_size = embedding_size
        self.gain = gain
        policy = self.dtype_policy
        self.query = dense(channels, embedding_size, gain, dtype=policy)
        self.output_projection = dense(embedding_size, channels, gain, dtype=policy)
        self.attention_hook: AttentionHook | None = None  # receives the weights [B, 1, Q, S]

    def flops_per_pair(self) -> float:
        """Returns the operations for one query and one key: the score and the weighted mean."""
        return 4.0 * self.embedding_size

    def step_kernels(self) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Returns the kernels in the form that every step needs."""
        return self.query.step_kernel(), self.output_projection.step_kernel()

    def call(
        self,
        x: keras.KerasTensor,
        embedded: keras.KerasTensor,
        memory: ConvS2SMemory,
        kernels: tuple[keras.KerasTensor, keras.KerasTensor] | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, C] to [B, N, C].

        N is T in training and K in search: the K beams of a sentence are K queries to one memory.

        Args:
            x: the decoder layer's features, after its GLU.
            embedded: the decoder's embeddings [B, N, D].
            memory: what to attend to.
            kernels: the result of `step_kernels` (default: computed here).
        """
        for_query, for_output = kernels or (None, None)
        x, embedded = (ops.cast(part, self.compute_dtype) for part in (x, embedded))
        query = (self.query(x, kernel=for_query) + embedded) * HALVED
        scores = ops.matmul(query, ops.transpose(memory.keys, (0, 2, 1)))  # [B, N, S]
        weights = ops.softmax(ops.cast(scores, "float32") + memory.bias)
        if self.attention_hook is not None:
            self.attention_hook(weights[:, None])
        context = ops.matmul(ops.cast(weights, x.dtype), memory.values) * memory.scale
        return (self.output_projection(context, kernel=for_output) + x) * HALVED


@keras.saving.register_keras_serializable(package="t2t_lite")
class ConvS2SLayer(Layer):
    """Dropout, convolution, GLU, attention if there is one, and a residual connection.

    Args:
        inputs: features of the input.
        channels: C, features of the output.
        kernel_size: k.
        causal: whether positions see only earlier ones, as in the decoder.
        residual: features of what the residual connection adds; 0: there is none.
        attention: attention to the source (default: none).
        dropout_rate: p, dropout of the input.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        kernel_size: int,
        *,
        causal: bool = False,
        residual: int = 0,
        attention: ConvS2SAttention | None = None,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.kernel_size = kernel_size
        self.causal = causal
        self.residual = residual
        self.attention = attention
        self.dropout_rate = dropout_rate
        self.gain = gain
        policy = self.dtype_policy
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=policy)
        self.convolution = Convolution(
            inputs,
            2 * channels,
            kernel_size,
            causal=causal,
            weight_norm=True,
            # A GLU quarters the variance of its input, dropout divides it by 1 - p (section 3.5).
            initializer=normal(4.0 * gain * (1.0 - dropout_rate) / (kernel_size * inputs)),
            dtype=policy,
        )
        self.shortcut = (
            dense(residual, channels, gain, dtype=policy) if residual not in (0, channels) else None
        )

    def call(
        self,
        x: keras.KerasTensor,
        residual: keras.KerasTensor,
        mask: keras.KerasTensor | None = None,
        embedded: keras.KerasTensor | None = None,
        memory: ConvS2SMemory | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, inputs] to [B, N, C].

        Args:
            x: the output of the layer below.
            residual: what to add, [B, N, residual].
            mask: [B, N], False at padding, which the convolution does not see.
            embedded: the decoder's embeddings [B, N, D], for attention.
            memory: what to attend to.
            training: whether dropout is on.
        """
        y = glu(self.convolution(self.dropout(x, training=training), mask=mask))
        return self._attend_and_add(y, residual, embedded, memory, (None, None))

    def step_kernels(self) -> dict[str, Any]:
        """Returns the kernels in the form that every step needs; a search calls this once."""
        others = (
            self.shortcut.step_kernel() if self.shortcut is not None else (),
            self.attention.step_kernels() if self.attention is not None else (),
        )
        return {"convolution": self.convolution.step_kernel(), "others": others}

    def step(
        self,
        x: keras.KerasTensor,
        residual: keras.KerasTensor,
        window: keras.KerasTensor,
        kernels: dict[str, Any],
        embedded: keras.KerasTensor,
        memory: ConvS2SMemory,
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Processes one position of every hypothesis.

        Args:
            x: [B, K, inputs].
            residual: [B, K, residual].
            window: the last inputs, see `Convolution.step`.
            kernels: the result of `step_kernels`.
            embedded: [B, K, D].
            memory: what to attend to.

        Returns:
            [B, K, C] and the next window.
        """
        y, window = self.convolution.step(x, window, kernels["convolution"])
        return self._attend_and_add(glu(y), residual, embedded, memory, kernels["others"]), window

    def _attend_and_add(
        self,
        y: keras.KerasTensor,
        residual: keras.KerasTensor,
        embedded: keras.KerasTensor | None,
        memory: ConvS2SMemory | None,
        kernels: Any,
    ) -> keras.KerasTensor:
        for_shortcut, for_attention = kernels
        if self.attention is not None:
            y = self.attention(y, embedded, memory, for_attention)
        if self.shortcut is not None:
            residual = self.shortcut(residual, kernel=for_shortcut)
        return (y + ops.cast(residual, y.dtype)) * HALVED if self.residual else y
