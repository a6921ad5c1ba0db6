"""Recurrent encoders and decoders, with attention or without, under T2T's names."""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.base import Dropout, Stack
from t2t_lite.layers.dense import Embedding, Projection
from t2t_lite.layers.recurrent import CELLS, Recurrent, State, run_cell, supports_jit
from t2t_lite.layers.recurrent_attention import ATTENTION, SourceMemory
from t2t_lite.models.hparams_model import Decoder, Encoder, make_embedding
from t2t_lite.models.recurrent import (
    AttentiveDecoder,
    AttentiveSeq2Seq,
    Encoded,
    RecurrentSeq2Seq,
    repeat_states,
    scan_steps,
)
from t2t_lite.models.seq2seq import DecodeState, shift_right


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMEncoder(Encoder):
    """Recurrent layers: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0).

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams
    backward: ClassVar[bool] = False  # whether `stack` reads right to left
    directions: ClassVar[int] = 1  # the output is that many times as wide as a layer

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        self.dropout = Dropout(self.hparams.dropout, self.seeds)
        self.stack = self._make_stack(self.backward)

    def _make_stack(self, backward: bool) -> Stack:
        h = self.hparams
        if not h.num_hidden_layers:
            raise UsageError("hparam num_hidden_layers=0: a recurrent model needs at least 1")
        d, make = h.hidden_size, CELLS[h.cell]
        cells = (make(d, d, h.initializer_gain) for _ in range(h.num_hidden_layers))
        return Stack(Recurrent(cell, backward) for cell in cells)

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """Encodes `inputs` [B, S]; see `Encoder.encode`. Outputs are zero at padding."""
        return self._read(self.stack, inputs, training)

    def _read(self, stack: Stack, inputs: keras.KerasTensor, training: bool) -> Encoded:
        x, present = self.embedding(inputs), ops.not_equal(inputs, 0)
        final = []
        for layer in stack:
            x, state = layer(self.dropout(x, training=training), mask=present)
            final.append(state)
        return Encoded(x, present, final)


@keras.saving.register_keras_serializable(package="t2t_lite")
class ReversedLSTMEncoder(LSTMEncoder):
    """An `LSTMEncoder` that reads from the last token to the first (Sutskever et al. 2014)."""

    backward = True


@keras.saving.register_keras_serializable(package="t2t_lite")
class BidirectionalLSTMEncoder(LSTMEncoder):
    """Two stacks, one for each direction; outputs and states stand side by side, 2D features."""

    directions = 2

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        self.backward_stack = self._make_stack(backward=True)

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """See `LSTMEncoder.encode`."""
        forward = self._read(self.stack, inputs, training)
        backward = self._read(self.backward_stack, inputs, training)
        pairs = ((forward.output, forward.states), (backward.output, backward.states))
        output, states = keras.tree.map_structure(_side_by_side, *pairs)
        return Encoded(output, forward.present, states)


def _side_by_side(*parts: Any) -> keras.KerasTensor:
    return ops.concatenate(parts, axis=-1)


class _Decoder(Decoder):
    """Base of LSTM decoders.

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        channels: features of each layer, those of the encoder's output.
        outputs: features of the output.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams

    def __init__(
        self,
        hparams: BasicHParams | str,
        embedding: int | Embedding,
        *,
        channels: int,
        outputs: int,
        **kwargs: Any,
    ) -> None:
        self.channels = channels  # before the layers, which depend on it
        self.outputs = outputs
        super().__init__(hparams, embedding, **kwargs)

    def _make_cells(self, inputs: int) -> Stack:
        """Makes the cells; the first has that many inputs."""
        h, wide = self.hparams, self.channels
        widths = [inputs, *[wide] * (h.num_hidden_layers - 1)]
        return Stack(CELLS[h.cell](width, wide, h.initializer_gain) for width in widths)

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {**super().get_config(), "channels": self.channels, "outputs": self.outputs}


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMDecoder(_Decoder):
    """Recurrent layers that start from the encoder's final states, and see nothing else of it."""

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        self.dropout = Dropout(self.hparams.dropout, self.seeds)
        self.cells = self._make_cells(self.hparams.hidden_size)
        self.supports_jit = supports_jit(self.cells[0])
        # Two directions are too wide for a softmax matrix that embeddings share.
        self.output_layer = (
            None
            if self.outputs == self.channels
            else Projection(self.channels, (self.outputs,), self.hparams.initializer_gain)
        )

    def call(
        self, targets: keras.KerasTensor, memory: Encoded, training: bool = False
    ) -> keras.KerasTensor:
        """See `Decoder.call`."""
        x = shift_right(self.embedding(targets))
        for cell, state in zip(self.cells, memory.states, strict=True):
            x, _ = run_cell(cell, self.dropout(x, training=training), state=state)
        return self._output(x)

    def _output(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return x if self.output_layer is None else self.output_layer(x)

    def start(self, memory: Encoded, beams: int, length: int) -> DecodeState:
        """See `Decoder.start`."""
        return DecodeState((), repeat_states(memory.states, beams))

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        x = self.embedding.step(ids, step)
        states: list[State] = []
        for cell, before in zip(self.cells, state.hypothesis, strict=True):
            states.append(cell(x, before))
            x = states[-1].output
        return self._output(x), state._replace(hypothesis=states)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2Seq(RecurrentSeq2Seq):
    """An LSTM encoder that reads the source right to left, and an LSTM decoder (T2T).

    Nothing but the encoder's final state reaches the decoder (Sutskever et al. 2014).

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams
    encoder_class: ClassVar[type[LSTMEncoder]] = ReversedLSTMEncoder
    decoder_class: ClassVar[type[Decoder]] = LSTMDecoder

    @property
    def channels(self) -> int:
        """Features of the encoder's output and of the decoder's layers."""
        return self.encoder_class.directions * self.hparams.hidden_size

    def _make_softmax_embedding(self) -> Embedding:
        return make_embedding(self.hparams, self.targets_vocab_size, self.channels)

    def _decoder_arguments(self) -> dict[str, Any]:
        return {"channels": self.channels, "outputs": self.softmax_embedding.channels}


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2SeqBidirectionalEncoder(LSTMSeq2Seq):
    """Encoders of both directions; the decoder starts from both final states, side by side (T2T).

    The decoder is twice as wide as the encoder of one direction.
    """

    encoder_class = BidirectionalLSTMEncoder


class DecoderMemory(NamedTuple):
    """The state that a decoder with attention passes to its next step."""

    layers: list[State]  # each [B, K, D]
    attended: keras.KerasTensor  # [B, K, D], the attentional output


@keras.saving.register_keras_serializable(package="t2t_lite")
class AttentiveLSTMDecoder(_Decoder, AttentiveDecoder):
    """Recurrent layers below an attention layer, whose output the first of them reads, too."""

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        h = self.hparams
        self.dropout = Dropout(h.dropout, self.seeds)
        self.cells = self._make_cells(2 * h.hidden_size)
        self.attention = ATTENTION[h.attention_mechanism](
            self.channels, h.initializer_gain, self.outputs, h.attention_window
        )

    def call(
        self, targets: keras.KerasTensor, memory: Encoded, training: bool = False
    ) -> keras.KerasTensor:
        """Returns the attentional output [B, T, D]; see `Decoder.call`."""
        source, start = self._start(memory, 1)
        x = self.dropout(shift_right(self.embedding(targets)), training=training)
        # The first cell's product with the embeddings needs no loop.
        known = [self.cells[0].project(x)]
        if training:
            # What each layer reads from the one below, or the first from the step before.
            fed = [self.outputs, *[self.channels] * (len(self.cells) - 1)]
            ones = (ops.ones((*ops.shape(x)[:2], width), x.dtype) for width in fed)
            known += [self.dropout(part, training=True) for part in ones]
        steps = scan_steps(self._stepper(source), start, *known)
        self.attention.call_hook(steps.layers[-1].output, source)
        return steps.attended

    def _stepper(self, source: SourceMemory) -> Callable[..., DecoderMemory]:
        """Returns a function that processes one position of every hypothesis.

        It takes the state after the previous position, the first cell's product with the
        embeddings, [B, K, gates · D], and a dropout mask for each layer's other inputs, or none.
        """
        first, *others = self.cells
        steps = [first.stepper(self.hparams.hidden_size), *(cell.stepper(0) for cell in others)]

        def advance(
            memory: DecoderMemory, projected: keras.KerasTensor, *masks: keras.KerasTensor
        ) -> DecoderMemory:
            layers: list[State] = []
            fed = memory.attended
            for i, (cell_step, state) in enumerate(zip(steps, memory.layers, strict=True)):
                fed = fed * masks[i] if masks else fed
                layers.append(cell_step(None if i else projected, state, fed))
                fed = layers[-1].output
            return DecoderMemory(layers, self.attention(fed, source))

        return advance

    def _start(self, memory: Encoded, beams: int) -> tuple[SourceMemory, DecoderMemory]:
        layers = repeat_states(memory.states, beams)
        nothing = ops.zeros_like(layers[-1].output[..., : self.outputs])
        source = self.attention.memory(memory.output, memory.present)
        return source, DecoderMemory(layers, nothing)

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        projected = self.cells[0].project(self.embedding.step(ids, step))
        memory = self._stepper(state.sentence)(state.hypothesis, projected)
        self.attention.call_hook(memory.layers[-1].output, state.sentence)
        return memory.attended, state._replace(hypothesis=memory)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2SeqAttention(AttentiveSeq2Seq, LSTMSeq2Seq):
    """An LSTM encoder that reads the source left to right, and an LSTM decoder with attention.

    The decoder starts from the encoder's state after the last token. Its first layer reads the
    embedding and the attentional output of the previous step (input feeding, Luong et al. 2015,
    section 3.3). T2T's model of this name reads the source from right to left instead.

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    encoder_class = LSTMEncoder
    decoder_class = AttentiveLSTMDecoder

    def _make_softmax_embedding(self) -> Embedding:
        return make_embedding(self.hparams, self.targets_vocab_size)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2SeqAttentionBidirectionalEncoder(LSTMSeq2SeqAttention):
    """`LSTMSeq2SeqAttention` with encoders of both directions and a decoder twice as wide."""

    encoder_class = BidirectionalLSTMEncoder
