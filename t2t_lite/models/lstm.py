"""Recurrent encoders and decoders, with attention or without, under T2T's names."""

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.embedding import Embedding
from t2t_lite.layers.recurrent import CELLS, State, run_cell, supports_jit
from t2t_lite.layers.recurrent_attention import ATTENTION, SourceMemory
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import make_embedding, require_choice
from t2t_lite.models.lstm_encoder import (
    BidirectionalLSTMEncoder,
    LSTMEncoder,
    ReversedLSTMEncoder,
)
from t2t_lite.models.recurrent import RecurrentSeq2Seq, WithAttention, repeat_states
from t2t_lite.models.seq2seq import DecodeState, Features, shift_right


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

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        require_choice(self.hparams, "cell", *CELLS)
        super().make_layers()
        self._make_decoder()

    @property
    def channels(self) -> int:
        """Features of the encoder's output and of the decoder's layers."""
        return self.encoder_class.directions * self.hparams.hidden_size

    def _make_softmax_embedding(self) -> Embedding:
        return make_embedding(self.hparams, self.targets_vocab_size, self.channels)

    def _make_decoder(self) -> None:
        self.decoder_cells = self._cells(self.hparams.hidden_size)
        self.supports_jit = supports_jit(self.decoder_cells[0])
        narrow = self.softmax_embedding.channels
        # Two directions are too wide for a softmax matrix that embeddings share.
        self.output_layer = (
            None
            if narrow == self.channels
            else Projection(self.channels, (narrow,), self.hparams.initializer_gain)
        )

    def _cells(self, inputs: int) -> Stack:
        """Makes the decoder's cells; the first has that many inputs."""
        make, wide, gain = CELLS[self.hparams.cell], self.channels, self.hparams.initializer_gain
        layers = range(self.hparams.num_hidden_layers)
        return Stack(make(wide if i else inputs, wide, gain) for i in layers)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        _, final = self._encoder_view.encode(features["inputs"], training)
        x = shift_right(self.targets_embedding(features["targets"]))
        for cell, state in zip(self.decoder_cells, final, strict=True):
            x, _ = run_cell(cell, self.dropout(x, training=training), state=state)
        return self._output(x)

    def _output(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return x if self.output_layer is None else self.output_layer(x)

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        output = flops_per_token(self.softmax_embedding)
        if self.output_layer is not None:
            output += flops_per_token(self.output_layer)
        return ForwardFlops(
            source=self._encoder_view.flops_per_token(),
            target=flops_per_token(self.decoder_cells) + output,
        )

    def _start(self, inputs: keras.KerasTensor, beams: int, training: bool) -> tuple[Any, Any]:
        _, final = self._encoder_view.encode(inputs, training)
        return (), repeat_states(final, beams)

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        x = self._embed_step(ids, step)
        states: list[State] = []
        for cell, before in zip(self.decoder_cells, state.hypothesis, strict=True):
            states.append(cell(x, before))
            x = states[-1].output
        logits = self.output_projection(self._output(x), state.weights)
        return logits, state._replace(hypothesis=states)


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
class LSTMSeq2SeqAttention(WithAttention, LSTMSeq2Seq):
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

    def _make_softmax_embedding(self) -> Embedding:
        return make_embedding(self.hparams, self.targets_vocab_size)

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        require_choice(self.hparams, "attention_mechanism", *ATTENTION)
        super().make_layers()

    def _make_decoder(self) -> None:
        self.output_layer = None
        h = self.hparams
        self.decoder_cells = self._cells(2 * h.hidden_size)
        self.attention = ATTENTION[h.attention_mechanism](
            self.channels, h.initializer_gain, h.hidden_size, h.attention_window
        )

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[SourceMemory, list[State]]:
        """Encodes `inputs` [B, S]; returns what to attend to, and each layer's state [B, D]."""
        x, final = self._encoder_view.encode(inputs, training)
        return self.attention.memory(x, ops.not_equal(inputs, 0)), final

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the attentional output [B, T, D]."""
        # Training takes the steps of a search with one beam and known tokens.
        source, memory = self._start(features["inputs"], 1, training)
        x = shift_right(self.targets_embedding(features["targets"]))
        x = ops.swapaxes(self.dropout(x, training=training), 0, 1)[:, :, None]  # [T, B, 1, D]
        # The first cell's product with the embeddings needs no loop.
        parts = [self.decoder_cells[0].project(x)]
        if training:
            # Masks are drawn before the loop, because a compiled loop would not advance the seeds.
            ones = (ops.ones((*ops.shape(x)[:3], width), x.dtype) for width in self._fed_widths())
            parts += [self.dropout(part, training=True) for part in ones]
        advance = self._stepper(source)
        borders = list(itertools.accumulate(part.shape[-1] for part in parts[:-1]))

        def step(
            memory: DecoderMemory, now: keras.KerasTensor
        ) -> tuple[DecoderMemory, DecoderMemory]:
            projected, *masks = ops.split(now, borders, axis=-1) if borders else [now]
            memory = advance(projected, memory, masks)
            return memory, memory

        # Packed: `scan` takes only one tensor of unknown length.
        _, memories = ops.scan(step, memory, ops.concatenate(parts, axis=-1))
        self.attention.call_hook(ops.swapaxes(memories.layers[-1].output[:, :, 0], 0, 1), source)
        return ops.swapaxes(memories.attended[:, :, 0], 0, 1)  # [T, B, 1, D] -> [B, T, D]

    def _fed_widths(self) -> list[int]:
        """Returns the features that each layer reads from the one below, the embedding aside."""
        return [self.hparams.hidden_size, *[self.channels] * (len(self.decoder_cells) - 1)]

    def _stepper(self, source: SourceMemory) -> Callable[..., DecoderMemory]:
        """Returns a function that processes one position of every hypothesis.

        It takes the first cell's product with the embeddings, [B, K, gates · D], the state after
        the previous position, and a dropout mask for each layer's other inputs, or none.
        """
        first, *others = self.decoder_cells
        steps = [first.stepper(self.hparams.hidden_size), *(cell.stepper(0) for cell in others)]

        def advance(
            projected: keras.KerasTensor,
            memory: DecoderMemory,
            masks: Sequence[keras.KerasTensor] = (),
        ) -> DecoderMemory:
            layers: list[State] = []
            fed = memory.attended
            for i, (cell_step, state) in enumerate(zip(steps, memory.layers, strict=True)):
                fed = fed * masks[i] if masks else fed
                layers.append(cell_step(None if i else projected, state, fed))
                fed = layers[-1].output
            return DecoderMemory(layers, self.attention(fed, source))

        return advance

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        flops = super().forward_flops()
        query = sum(map(flops_per_token, self.attention.query_layers()))
        return dataclasses.replace(
            flops,
            source=flops.source + sum(map(flops_per_token, self.attention.key_layers())),
            target=flops.target + query,
            target_source=self.attention.flops_per_pair(),
        )

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        projected = self.decoder_cells[0].project(self._embed_step(ids, step))
        memory = self._stepper(state.sentence)(projected, state.hypothesis)
        self.attention.call_hook(memory.layers[-1].output, state.sentence)
        return self.output_projection(memory.attended, state.weights), state._replace(
            hypothesis=memory
        )

    def _start(
        self, inputs: keras.KerasTensor, beams: int, training: bool
    ) -> tuple[SourceMemory, DecoderMemory]:
        source, final = self.encode(inputs, training)
        layers = repeat_states(final, beams)
        nothing = ops.zeros_like(layers[-1].output[..., : self.hparams.hidden_size])
        return source, DecoderMemory(layers, nothing)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2SeqAttentionBidirectionalEncoder(LSTMSeq2SeqAttention):
    """`LSTMSeq2SeqAttention` with encoders of both directions and a decoder twice as wide."""

    encoder_class = BidirectionalLSTMEncoder
