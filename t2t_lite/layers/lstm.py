"""LSTM layers, and attention between them, in T2T's and Luong's forms."""

import abc
from typing import Any, NamedTuple

import keras
from keras import ops

from t2t_lite.layers.attention import AttentionHook
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection

# Added to the forget gate, so that an untrained cell remembers (Jozefowicz et al. 2015).
_FORGET_BIAS = 1.0


class LSTMState(NamedTuple):
    """The state that an LSTM cell passes to its next step."""

    output: keras.KerasTensor  # h, [..., D]
    cell: keras.KerasTensor  # c, [..., D]


class SourceMemory(NamedTuple):
    """What the decoder attends to, shared by all beams of a sentence."""

    values: keras.KerasTensor  # [B, S, D], the encoder's output
    keys: keras.KerasTensor  # [B, S, D], its projection
    bias: keras.KerasTensor  # [B, 1, S], hides padding


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMCell(Layer):
    """One step of one layer (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000).

    Args:
        inputs: features of the input.
        channels: D, features of output and cell.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(self, inputs: int, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.gain = gain
        self.gates = Projection(
            inputs + channels, [channels] * 4, gain, use_bias=True, dtype=self.dtype_policy
        )

    def call(self, x: keras.KerasTensor, state: LSTMState) -> LSTMState:
        """Maps `x` [..., inputs] and the previous state to the next state."""
        gates = self.gates(ops.concatenate([x, state.output], axis=-1))  # [..., 4D]
        write, forget, new, read = ops.split(gates, 4, axis=-1)
        kept = ops.sigmoid(forget + _FORGET_BIAS) * state.cell
        cell = kept + ops.sigmoid(write) * ops.tanh(new)
        return LSTMState(ops.sigmoid(read) * ops.tanh(cell), cell)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTM(Layer):
    """One layer that reads whole sequences from left to right.

    Args:
        channels: D, of inputs and outputs.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(self, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.gain = gain
        # TensorFlow's XLA cannot differentiate a loop of unknown length.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self.cell = LSTMCell(channels, channels, gain, dtype=self.dtype_policy)

    def call(self, x: keras.KerasTensor) -> LSTMState:
        """Maps `x` [B, N, D] to the states after each position, [B, N, D]."""
        x = ops.cast(x, self.compute_dtype)
        zeros = ops.zeros_like(x[:, 0])

        def step(state: LSTMState, x: keras.KerasTensor) -> tuple[LSTMState, LSTMState]:
            state = self.cell(x, state)
            return state, state

        _, states = ops.scan(step, LSTMState(zeros, zeros), ops.swapaxes(x, 0, 1))
        return LSTMState(*(ops.swapaxes(part, 0, 1) for part in states))


class _Attention(Layer, abc.ABC):
    """The weighted mean of the encoder's output, joined with the query.

    Args:
        channels: D.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(self, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.gain = gain
        self.key = self._projection(channels, channels)
        self.join = self._projection(2 * channels, channels)
        self.attention_hook: AttentionHook | None = None  # receives the weights [B, 1, Q, S]

    def _projection(self, inputs: int, width: int) -> Projection:
        return Projection(inputs, (width,), self.gain, dtype=self.dtype_policy)

    def query_layers(self) -> list[Projection]:
        """Returns the layers applied to each query, without the score vector."""
        return [self.join]

    def flops_per_pair(self) -> float:
        """Returns the operations for one query and one key: the score and the weighted mean."""
        return 2.0 * self.channels + 2.0 * self.channels

    def attention_weights(
        self, query: keras.KerasTensor, memory: SourceMemory
    ) -> keras.KerasTensor:
        """Returns how much `query` [B, K, D] attends to each position: [B, K, S], float32."""
        scores = self.scores(query, memory.keys)
        return ops.softmax(ops.cast(scores, "float32") + memory.bias)

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
        return ops.tanh(self.join(ops.concatenate([context, query], axis=-1)))


@keras.saving.register_keras_serializable(package="t2t_lite")
class AdditiveAttention(_Attention):
    """Scores v · tanh(W query + U key) (Bahdanau et al. 2015, appendix A.1.2)."""

    def __init__(self, channels: int, gain: float = 1.0, **kwargs: Any) -> None:
        super().__init__(channels, gain, **kwargs)
        self.query = self._projection(channels, channels)
        self.score = self._projection(channels, 1)

    def query_layers(self) -> list[Projection]:
        """See `_Attention.query_layers`."""
        return [self.query, self.join]

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `_Attention.scores`."""
        pairs = self.query(query)[:, :, None] + keys[:, None]  # [B, K, S, D]
        return self.score(ops.tanh(pairs))[..., 0]


@keras.saving.register_keras_serializable(package="t2t_lite")
class MultiplicativeAttention(_Attention):
    """Scores query · W key (Luong et al. 2015, equation 8, "general")."""

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `_Attention.scores`."""
        return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))
