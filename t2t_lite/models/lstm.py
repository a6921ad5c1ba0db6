"""An LSTM encoder and decoder with attention: a second, unlike model behind the same protocol."""

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.attention import MASKED
from t2t_lite.layers.base import Layer
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.dropout import Dropout
from t2t_lite.models.seq2seq import DecodeState, Features, Seq2Seq, shift_right

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
        self.inputs = inputs
        self.gates = Projection(inputs + channels, *[channels] * 4, gain=gain, use_bias=True)

    def call(self, x: keras.KerasTensor, state: LSTMState) -> LSTMState:
        """Maps `x` [..., inputs] and the state before to the state after."""
        gates = self.gates(ops.concatenate([x, state.output], axis=-1))  # [..., 4D]
        write, forget, new, read = ops.split(gates, 4, axis=-1)
        kept = ops.sigmoid(forget + _FORGET_BIAS) * state.cell
        cell = kept + ops.sigmoid(write) * ops.tanh(new)
        return LSTMState(ops.sigmoid(read) * ops.tanh(cell), cell)


class LSTMStack(Layer):
    """Layers of cells, each reading the output of the one below through dropout.

    Args:
        inputs: features of the input of the first layer.
        hparams: the model's.
        seeds: the model's seed generator.
    """

    def __init__(
        self, inputs: int, hparams: LSTMHParams, seeds: keras.random.SeedGenerator
    ) -> None:
        super().__init__()
        d = hparams.hidden_size
        widths = [inputs] + [d] * (hparams.num_hidden_layers - 1)
        self.cells = [LSTMCell(width, d, hparams.initializer_gain) for width in widths]
        self.dropout = Dropout(hparams.dropout, seeds)

    def dropout_masks(
        self, shape: tuple[int | keras.KerasTensor, ...], training: bool
    ) -> list[keras.KerasTensor]:
        """Factors [*shape, inputs] for the inputs of each layer; none unless `training`.

        They are drawn for all steps at once: seeds may not change inside a compiled loop.
        """
        if not training:
            return []
        return [
            self.dropout(ops.ones((*shape, cell.inputs), self.compute_dtype), training=True)
            for cell in self.cells
        ]

    def call(
        self,
        x: keras.KerasTensor,
        states: list[LSTMState],
        masks: list[keras.KerasTensor],
    ) -> list[LSTMState]:
        """One step of all layers: `x` [..., inputs], `masks` those of this step."""
        after = []
        for i, (cell, state) in enumerate(zip(self.cells, states, strict=True)):
            after.append(cell(x * masks[i] if masks else x, state))
            x = after[-1].output
        return after


class _Attention(Layer):
    """The weighted mean of the encoder's output, joined with the query.

    Args:
        channels: D.
        gain: scale of the initial variance.
    """

    def __init__(self, channels: int, gain: float) -> None:
        super().__init__()
        self.key = Projection(channels, channels, gain=gain)
        self.join = Projection(2 * channels, channels, gain=gain)

    def scores(self, query: keras.KerasTensor, keys: keras.KerasTensor) -> keras.KerasTensor:
        """How well [B, K, D] fits to [B, S, D]: [B, K, S]."""
        raise NotImplementedError

    def call(self, query: keras.KerasTensor, sentence: Sentence) -> keras.KerasTensor:
        """Returns tanh(W [context; query]) [B, K, D] (Luong et al. 2015, equation 5).

        The K beams of a sentence are so many queries to the same memory.
        """
        scores = self.scores(query, sentence.keys)
        weights = ops.softmax(scores + ops.cast(sentence.bias, scores.dtype))
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
        d = hparams.hidden_size
        self.encoder = LSTMStack(d, hparams, self.seeds)
        self.decoder = LSTMStack(2 * d, hparams, self.seeds)
        self.attention = _ATTENTION[hparams.attention_mechanism](d, hparams.initializer_gain)

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[Sentence, list[LSTMState]]:
        """Encodes `inputs` [B, S]; returns what to attend to, and each layer's state [B, D]."""
        batch, length = ops.shape(inputs)[0], ops.shape(inputs)[1]
        present = ops.not_equal(inputs, 0)
        x = self.inputs_embedding(inputs)
        masks = self.encoder.dropout_masks((length, batch), training)
        zeros = ops.zeros((batch, x.shape[-1]), x.dtype)

        def read(
            states: list[LSTMState], token: tuple[Any, ...]
        ) -> tuple[list[LSTMState], list[LSTMState]]:
            x, present, masks = token
            after = self.encoder(x, states, masks)
            # Padding leaves every state as it is.
            after = keras.tree.map_structure(
                lambda new, old: ops.where(present[:, None], new, old), after, states
            )
            return after, after

        final, states = ops.scan(
            read,
            [LSTMState(zeros, zeros) for _ in self.encoder.cells],
            (ops.swapaxes(x, 0, 1), ops.swapaxes(present, 0, 1), masks),
        )
        values = ops.swapaxes(states[-1].output, 0, 1)  # [S, B, D] -> [B, S, D]
        bias = ops.where(present, 0.0, MASKED)[:, None]
        return Sentence(values, self.attention.key(values), bias), final

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the attentional output [B, T, D]."""
        targets = features["targets"]
        batch, length = ops.shape(targets)[0], ops.shape(targets)[1]
        # Training is a search with one beam whose tokens are known.
        sentence, memory = self._start(features["inputs"], 1, training)
        x = shift_right(self.targets_embedding(targets))
        masks = self.decoder.dropout_masks((length, batch, 1), training)

        def write(
            memory: DecoderMemory, token: tuple[Any, ...]
        ) -> tuple[DecoderMemory, DecoderMemory]:
            x, masks = token
            memory = self._step(x, memory, sentence, masks)
            return memory, memory

        tokens = ops.swapaxes(x, 0, 1)[:, :, None]  # [B, T, D] -> [T, B, 1, D]
        _, memories = ops.scan(write, memory, (tokens, masks))
        return ops.swapaxes(memories.attended[:, :, 0], 0, 1)  # [T, B, 1, D] -> [B, T, D]

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; the state has one size whatever the `length`."""
        return self._start(inputs, beams, training=False)

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
        memory = self._step(x, state.hypothesis, state.sentence, masks=[])
        return self.project(memory.attended), DecodeState(state.sentence, memory)

    def _start(self, inputs: keras.KerasTensor, beams: int, training: bool) -> DecodeState:
        sentence, final = self.encode(inputs, training)
        layers = keras.tree.map_structure(
            lambda state: ops.repeat(state[:, None], beams, axis=1), final  # [B, K, D]
        )
        return DecodeState(sentence, DecoderMemory(layers, ops.zeros_like(layers[-1].output)))

    def _step(
        self,
        x: keras.KerasTensor,
        memory: DecoderMemory,
        sentence: Sentence,
        masks: list[keras.KerasTensor],
    ) -> DecoderMemory:
        """One position `x` [B, K, D] of every hypothesis."""
        fed = ops.concatenate([x, memory.attended], axis=-1)
        layers = self.decoder(fed, memory.layers, masks)
        return DecoderMemory(layers, self.attention(layers[-1].output, sentence))
