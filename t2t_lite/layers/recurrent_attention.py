"""Attention of a recurrent decoder to its source, in Bahdanau's and Luong's forms."""

import abc
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.attention import MASKED, AttentionHook
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection


class SourceMemory(NamedTuple):
    """What the decoder attends to, shared by all beams of a sentence."""

    values: keras.KerasTensor  # [B, S, M], the encoder's output
    keys: keras.KerasTensor  # [B, S, D], its projection
    bias: keras.KerasTensor  # [B, 1, S], hides padding


class RecurrentAttention(Layer, abc.ABC):
    """The weighted mean of the encoder's output, joined with the query.

    With a window, attention is local (Luong et
    al. 2015, section 3.2, local-p): a query predicts a position p of its sentence, sees the
    positions at most `window` from it, and prefers those near it.

    Args:
        channels: D, features of queries and keys.
        gain: scale of the initial variance.
        outputs: features of the result; 0: the result is the weighted mean itself; default: D.
        window: positions visible on either side of the predicted one; 0: all positions.
        memory_channels: features M of the encoder's output (default: D).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        gain: float = 1.0,
        outputs: int | None = None,
        window: int = 0,
        memory_channels: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.gain = gain
        self.outputs = channels if outputs is None else outputs
        self.window = window
        self.memory_channels = channels if memory_channels is None else memory_channels
        self._make_key()
        if self.outputs:
            self.join = self._projection(self.memory_channels + channels, self.outputs)
        if window:
            self.position = self._projection(channels, channels)
            self.position_score = self._projection(channels, 1)
        self._make_score()
        self.attention_hook: AttentionHook | None = None  # receives the weights [B, 1, Q, S]

    def _projection(self, inputs: int, width: int) -> Projection:
        return Projection(inputs, (width,), self.gain, dtype=self.dtype_policy)

    def _make_key(self) -> None:
        self.key = self._projection(self.memory_channels, self.channels)

    def _make_score(self) -> None:
        """Creates the layers of the score, if any."""

    def memory(self, values: keras.KerasTensor, present: keras.KerasTensor) -> SourceMemory:
        """Prepares the encoder's output [B, S, M]; `present` [B, S] is False at padding."""
        bias = ops.where(present, 0.0, MASKED)[:, None]  # [B, 1, S]
        return SourceMemory(values, self.keys(values), bias)

    def keys(self, values: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the keys [B, S, D] of the encoder's output [B, S, M]."""
        return self.key(values)

    def key_layers(self) -> list[Projection]:
        """Returns the layers applied to each position of the source."""
        return [self.key]

    def query_layers(self) -> list[Projection]:
        """Returns the layers applied to each query, without the score vector."""
        layers = [self.join] if self.outputs else []
        return [*layers, self.position, self.position_score] if self.window else layers

    def flops_per_pair(self) -> float:
        """Returns the operations for one query and one key: the score and the weighted mean."""
        return 2.0 * self.channels + 2.0 * self.memory_channels

    def attention_weights(
        self, query: keras.KerasTensor, memory: SourceMemory
    ) -> keras.KerasTensor:
        """Returns how much `query` [B, K, D] attends to each position: [B, K, S], float32."""
        scores = ops.cast(self.scores(query, memory.keys), "float32") + memory.bias
        if not self.window:
            return ops.softmax(scores)
        distance = self._distance(query, memory)
        weights = ops.softmax(ops.where(ops.abs(distance) > self.window, MASKED, scores))
        # Standard deviation: half the window (Luong et al. 2015, equation 10).
        return weights * ops.exp(-2.0 * ops.square(distance / self.window))

    def _distance(self, query: keras.KerasTensor, memory: SourceMemory) -> keras.KerasTensor:
        """Returns each position's distance from the predicted one, [B, K, S] (equation 9)."""
        predicted = self.position_score(ops.tanh(self.position(query)))  # [B, K, 1]
        lengths = ops.sum(ops.cast(memory.bias >= 0.0, "float32"), axis=-1)  # [B, 1]
        share = ops.sigmoid(ops.cast(predicted, "float32"))
        positions = ops.arange(ops.shape(memory.bias)[-1], dtype="float32")
        return positions - lengths[..., None] * share

    def call_hook(self, query: keras.KerasTensor, memory: SourceMemory) -> None:
        """Passes the weights to the hook, as one head; the training loop cannot do it itself."""
        if self.attention_hook is not None:
            self.attention_hook(self.attention_weights(query, memory)[:, None])

    @abc.abstractmethod
    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """Scores `query` [B, K, D] against `keys` [B, S, D]: [B, K, S]."""

    def call(self, query: keras.KerasTensor, memory: SourceMemory) -> keras.KerasTensor:
        """Returns tanh(W [context; query]) [B, K, D] (Luong et al. 2015, equation 5).

        The K beams of a sentence are K queries to the same memory.
        """
        weights = ops.cast(self.attention_weights(query, memory), memory.values.dtype)
        context = ops.matmul(weights, memory.values)
        if not self.outputs:
            return context
        return ops.tanh(self.join(ops.concatenate([context, query], axis=-1)))


@keras.saving.register_keras_serializable(package="t2t_lite")
class AdditiveAttention(RecurrentAttention):
    """Scores v · tanh(W query + U key) (Bahdanau et al. 2015, appendix A.1.2).

    Luong's "concat", v · tanh(W [query; key]), is the same function (2015, equation 8).
    """

    def _make_score(self) -> None:
        self.query = self._projection(self.channels, self.channels)
        self.score = self._projection(self.channels, 1)

    def query_layers(self) -> list[Projection]:
        """See `RecurrentAttention.query_layers`."""
        return [self.query, *super().query_layers()]

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `RecurrentAttention.scores`."""
        return self.score(ops.tanh(self._pairs(query, keys)))[..., 0]

    def _pairs(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        return self.query(query)[:, :, None] + keys[:, None]  # [B, K, S, D]


@keras.saving.register_keras_serializable(package="t2t_lite")
class NormedAdditiveAttention(AdditiveAttention):
    """Scores g v / |v| · tanh(W query + U key + b), as tf/nmt's `normed_bahdanau`.

    The score vector is in weight normalisation (Salimans & Kingma 2016); g is √(1/D) at first.
    """

    def _make_score(self) -> None:
        super()._make_score()
        start = keras.initializers.Constant(self.channels**-0.5)
        self.scale = self.add_weight((1,), start, name="scale")
        self.bias = self.add_weight((self.channels,), "zeros", name="bias")

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `RecurrentAttention.scores`."""
        norm = ops.sqrt(ops.sum(ops.square(ops.cast(self.score.matrix(), "float32"))))
        pairs = self._pairs(query, keys) + ops.cast(self.bias, keys.dtype)
        scores = self.score(ops.tanh(pairs))[..., 0]
        return scores * ops.cast(self.scale / norm, scores.dtype)


@keras.saving.register_keras_serializable(package="t2t_lite")
class FactoredAttention(AdditiveAttention):
    """Scores Σ v · tanh(W query) · tanh(U key): a matrix product (Shazeer et al. 2017, app. G)."""

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `RecurrentAttention.scores`."""
        weights = ops.cast(self.score.matrix(), keys.dtype)[:, 0]  # [D]
        weighted = ops.tanh(self.query(query)) * weights
        return ops.matmul(weighted, ops.transpose(ops.tanh(keys), (0, 2, 1)))


@keras.saving.register_keras_serializable(package="t2t_lite")
class MultiplicativeAttention(RecurrentAttention):
    """Scores query · W key (Luong et al. 2015, equation 8, "general")."""

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `RecurrentAttention.scores`."""
        return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))


@keras.saving.register_keras_serializable(package="t2t_lite")
class DotAttention(MultiplicativeAttention):
    """Scores query · key, where the key is the encoder's output (Luong et al. 2015, "dot").

    Queries and encoder output have the same width.
    """

    def _make_key(self) -> None:
        """There is nothing to project."""

    def key_layers(self) -> list[Projection]:
        """See `RecurrentAttention.key_layers`."""
        return []

    def keys(self, values: keras.KerasTensor) -> keras.KerasTensor:
        """See `RecurrentAttention.keys`."""
        return values


# By the value of the hparam `attention_mechanism`.
ATTENTION: dict[str, type[RecurrentAttention]] = {
    "bahdanau": AdditiveAttention,
    "luong": MultiplicativeAttention,
    "luong_concat": AdditiveAttention,
    "luong_dot": DotAttention,
    "normed_bahdanau": NormedAdditiveAttention,
    "factored": FactoredAttention,
}
