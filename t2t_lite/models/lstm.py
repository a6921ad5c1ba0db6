"""An LSTM encoder and decoder with attention: a second, unlike model behind the same protocol."""

import abc
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.attention import MASKED
from t2t_lite.layers.base import Layer, Stack, default_policy
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout
from t2t_lite.models.seq2seq import (
    Attentive,
    DecodeState,
    Features,
    Seq2Seq,
    Watch,
    shift_right,
)

# Added to the forget gate, so that a fresh cell remembers (Jozefowicz et al. 2015).
_FORGET_BIAS = 1.0


class LSTMState(NamedTuple):
    """What an LSTM cell hands to its next step."""

    output: keras.KerasTensor  # h, [..., D]
    cell: keras.KerasTensor  # c, [..., D]


class DecoderMemory(NamedTuple):
    """What the decoder hands to its next step."""

    layers: list[LSTMState]  # each [B, K, D]
    attended: keras.KerasTensor  # [B, K, D], the attentional output


class Sentence(NamedTuple):
    """What the decoder attends to; one for all beams of a sentence."""

    values: keras.KerasTensor  # [B, S, D], the encoder's output
    keys: keras.KerasTensor  # [B, S, D], its projection
    bias: keras.KerasTensor  # [B, 1, S], hides padding


class LSTMCell(Layer):
    """One step of one layer (Hochreiter & Schmidhuber 1997; forget gate: Gers et al. 2000).

    Args:
        inputs: features of the input.
        channels: D, features of output and cell.
        gain: scale of the initial variance.
    """

    def __init__(self, inputs: int, channels: int, gain: float) -> None:
        super().__init__()
        self.gates = Projection(inputs + channels, *[channels] * 4, gain=gain, use_bias=True)

    def call(self, x: keras.KerasTensor, state: LSTMState) -> LSTMState:
        """Maps `x` [..., inputs] and the state before to the state after."""
        gates = self.gates(ops.concatenate([x, state.output], axis=-1))  # [..., 4D]
        write, forget, new, read = ops.split(gates, 4, axis=-1)
        kept = ops.sigmoid(forget + _FORGET_BIAS) * state.cell
        cell = kept + ops.sigmoid(write) * ops.tanh(new)
        return LSTMState(ops.sigmoid(read) * ops.tanh(cell), cell)


class LSTM(Layer):
    """One layer that reads whole sequences from left to right.

    Args:
        channels: D, of inputs and outputs.
        gain: scale of the initial variance.
    """

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__()
        self.cell = LSTMCell(channels, channels, gain)

    def call(self, x: keras.KerasTensor) -> LSTMState:
        """Maps `x` [B, N, D] to the states after each position, [B, N, D]."""
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
    """

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__()
        self.key = Projection(channels, channels, gain=gain)
        self.join = Projection(2 * channels, channels, gain=gain)
        # Called with the weights [B, 1, Q, S] by `show` wherever it is set: for looking at them.
        self.watch: Watch | None = None

    def attention_weights(self, query: keras.KerasTensor, sentence: Sentence) -> keras.KerasTensor:
        """Returns how much `query` [B, K, D] attends to each position: [B, K, S], float32."""
        scores = self.scores(query, sentence.keys)
        return ops.softmax(ops.cast(scores, "float32") + sentence.bias)

    def show(self, query: keras.KerasTensor, sentence: Sentence) -> None:
        """Tells `watch` the weights, as those of one head: the loop of training cannot do it."""
        if self.watch is not None:
            self.watch(self.attention_weights(query, sentence)[:, None])

    @abc.abstractmethod
    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """How well [B, K, D] fits to [B, S, D]: [B, K, S]."""

    def call(self, query: keras.KerasTensor, sentence: Sentence) -> keras.KerasTensor:
        """Returns tanh(W [context; query]) [B, K, D] (Luong et al. 2015, equation 5).

        The K beams of a sentence are so many queries to the same memory.
        """
        weights = ops.cast(self.attention_weights(query, sentence), sentence.values.dtype)
        context = ops.matmul(weights, sentence.values)
        return ops.tanh(self.join(ops.concatenate([context, query], axis=-1)))


class AdditiveAttention(_Attention):
    """Scores v · tanh(W query + U key) (Bahdanau et al. 2015, appendix A.1.2)."""

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__(channels, gain)
        self.query = Projection(channels, channels, gain=gain)
        self.score = Projection(channels, 1, gain=gain)

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `_Attention.scores`."""
        pairs = self.query(query)[:, :, None] + keys[:, None]  # [B, K, S, D]
        return self.score(ops.tanh(pairs))[..., 0]


class MultiplicativeAttention(_Attention):
    """Scores query · W key (Luong et al. 2015, equation 8, "general")."""

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """See `_Attention.scores`."""
        return ops.matmul(query, ops.transpose(keys, (0, 2, 1)))


_ATTENTION = {"bahdanau": AdditiveAttention, "luong": MultiplicativeAttention}


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2SeqAttention(Seq2Seq):
    """LSTM layers that read the source left to right, and LSTM layers that attend to it.

    The decoder starts from the encoder's state after the last token. Its first layer reads the
    embedding and the attentional output of the step before (input feeding, Luong et al. 2015,
    section 3.3). T2T's model of this name reads the source from right to left instead.

    Args:
        hparams: an `LSTMHParams`.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams

    def __init__(
        self,
        hparams: LSTMHParams,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, inputs_vocab_size, targets_vocab_size, **kwargs)
        if hparams.attention_mechanism not in _ATTENTION:
            raise UsageError(
                f"hparam attention_mechanism={hparams.attention_mechanism!r}: "
                f"expected {' or '.join(_ATTENTION)}"
            )
        # TensorFlow's XLA cannot differentiate a loop of unknown length.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        d, gain = hparams.hidden_size, hparams.initializer_gain
        layers = range(hparams.num_hidden_layers)
        with default_policy(self.dtype_policy):
            self.dropout = Dropout(hparams.dropout, self.seeds)
            self.encoder_layers = Stack(LSTM(d, gain) for _ in layers)
            self.decoder_cells = Stack(LSTMCell(d if i else 2 * d, d, gain) for i in layers)
            self.attention = _ATTENTION[hparams.attention_mechanism](d, gain)

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[Sentence, list[LSTMState]]:
        """Encodes `inputs` [B, S]; returns what to attend to, and each layer's state [B, D]."""
        x = self.inputs_embedding(inputs)
        present = ops.not_equal(inputs, 0)
        # Padding comes last, so that nothing before it depends on it.
        last = ops.maximum(ops.sum(ops.cast(present, "int32"), axis=1) - 1, 0)[:, None, None]
        final = []
        for layer in self.encoder_layers:
            states = layer(self.dropout(x, training=training))
            final.append(
                LSTMState(*(ops.take_along_axis(part, last, axis=1)[:, 0] for part in states))
            )
            x = states.output
        bias = ops.where(present, 0.0, MASKED)[:, None]
        return Sentence(x, self.attention.key(x), bias), final

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the attentional output [B, T, D]."""
        # Training is a search with one beam whose tokens are known.
        sentence, memory = self._start(features["inputs"], 1, training)
        x = shift_right(self.targets_embedding(features["targets"]))
        x = ops.swapaxes(self.dropout(x, training=training), 0, 1)[:, None, :, None]
        # Masks are drawn before the loop: compiled, it would not advance the seeds.
        length, _, batch, _, channels = ops.shape(x)
        masks = ops.ones((length, len(self.decoder_cells), batch, 1, channels), x.dtype)
        masks = self.dropout(masks, training=training)
        # One tensor [T, 1 + layers, B, 1, D], as `scan` takes only one of unknown length.
        steps = ops.concatenate([x, masks], axis=1)

        def step(
            memory: DecoderMemory, now: keras.KerasTensor
        ) -> tuple[DecoderMemory, DecoderMemory]:
            x, *masks = ops.unstack(now, len(self.decoder_cells) + 1)
            memory = self._step(x, memory, sentence, masks)
            return memory, memory

        _, memories = ops.scan(step, memory, steps)
        self.attention.show(ops.swapaxes(memories.layers[-1].output[:, :, 0], 0, 1), sentence)
        return ops.swapaxes(memories.attended[:, :, 0], 0, 1)  # [T, B, 1, D] -> [B, T, D]

    @contextlib.contextmanager
    def watching(self, watch: Watch) -> Iterator[None]:
        """Shows `watch` the attention to the source; see `Seq2Seq.watching`."""
        self.attention.watch = lambda weights: watch(weights[:, 0])
        try:
            yield
        finally:
            self.attention.watch = None

    def attention_layers(self) -> Mapping[str, Sequence[Attentive]]:
        """Returns the one layer that attends, which has one head."""
        return {"encoder_decoder": [self.attention]}

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; the state has one size whatever the `length`."""
        return DecodeState(*self._start(inputs, beams, training=False), self.softmax_kernel())

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Returns `state`: there is always room."""
        return state

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        x = self._embed_step(ids, step)
        no_masks = [1.0] * len(self.decoder_cells)
        memory = self._step(x, state.hypothesis, state.sentence, no_masks)
        self.attention.show(memory.layers[-1].output, state.sentence)
        return self.project(memory.attended, state.weights), state._replace(hypothesis=memory)

    def _start(
        self, inputs: keras.KerasTensor, beams: int, training: bool
    ) -> tuple[Sentence, DecoderMemory]:
        sentence, final = self.encode(inputs, training)
        layers = keras.tree.map_structure(
            lambda state: ops.repeat(state[:, None], beams, axis=1),
            final,  # [B, K, D]
        )
        return sentence, DecoderMemory(layers, ops.zeros_like(layers[-1].output))

    def _step(
        self,
        x: keras.KerasTensor,
        memory: DecoderMemory,
        sentence: Sentence,
        masks: list[Any],
    ) -> DecoderMemory:
        """One position of every hypothesis.

        Args:
            x: [B, K, D], embeddings.
            memory: as the step before left it.
            sentence: what to attend to.
            masks: dropout of what each layer reads beside `x`, factors that broadcast to [B, K, D].
        """
        layers: list[LSTMState] = []
        fed = memory.attended
        for cell, state, mask in zip(self.decoder_cells, memory.layers, masks, strict=True):
            fed = fed * mask
            below = fed if layers else ops.concatenate([x, fed], axis=-1)
            layers.append(cell(below, state))
            fed = layers[-1].output
        return DecoderMemory(layers, self.attention(fed, sentence))
