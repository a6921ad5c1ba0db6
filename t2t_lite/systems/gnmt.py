"""Google's neural machine translation system (Wu et al. 2016), in the forms of tf/nmt."""

from typing import ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.gnmt import GNMTHParams
from t2t_lite.layers.base import Dropout, Stack
from t2t_lite.layers.dense import OutputProjection
from t2t_lite.layers.recurrent import LSTMCell, LSTMState, Recurrent, run_cell, supports_jit
from t2t_lite.layers.recurrent_attention import ATTENTION, SourceMemory
from t2t_lite.models.hparams_model import Encoder
from t2t_lite.models.recurrent import (
    AttentiveDecoder,
    AttentiveSeq2Seq,
    Encoded,
    repeat_states,
    scan_steps,
)
from t2t_lite.models.seq2seq import DecodeState, shift_right

# Layers with this number and above add their input to their output, counted from 0.
_FIRST_RESIDUAL = 2


def _cell(hparams: GNMTHParams, inputs: int) -> LSTMCell:
    return LSTMCell(
        inputs,
        hparams.hidden_size,
        hparams.initializer_gain,
        hparams.forget_bias,
        hparams.second_bias,
    )


@keras.saving.register_keras_serializable(package="t2t_lite")
class GNMTEncoder(Encoder):
    """A layer in both directions, then layers that read left to right: ids [B, S] -> [B, S, D].

    Args:
        hparams: a `GNMTHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = GNMTHParams
    hparams: GNMTHParams

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        h, d = self.hparams, self.hparams.hidden_size
        if h.num_hidden_layers < 2:
            raise UsageError(
                f"hparam num_hidden_layers={h.num_hidden_layers}: expected at least 2, since the "
                "first encoder layer reads in both directions"
            )
        self.dropout = Dropout(h.dropout, self.seeds)
        self.forward_layer = Recurrent(_cell(h, d))
        self.backward_layer = Recurrent(_cell(h, d), backward=True)
        widths = [2 * d, *[d] * (h.num_hidden_layers - 2)]
        self.stack = Stack(Recurrent(_cell(h, width)) for width in widths)

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """Encodes `inputs` [B, S]; see `Encoder.encode`. Outputs are zero at padding.

        The final state of the first layer is the backward one's, as in tf/nmt.
        """
        present = ops.not_equal(inputs, 0)
        x = self.dropout(self.embedding(inputs), training=training)
        forward, _ = self.forward_layer(x, mask=present)
        backward, state = self.backward_layer(x, mask=present)
        x, final = ops.concatenate([forward, backward], axis=-1), [state]
        for number, layer in enumerate(self.stack, start=1):
            y, state = layer(self.dropout(x, training=training), mask=present)
            x = x + y if number >= _FIRST_RESIDUAL else y
            final.append(state)
        return Encoded(x, present, final)


class DecoderMemory(NamedTuple):
    """The state that the decoder passes to its next step."""

    layers: list[LSTMState]  # each [B, K, D]
    context: keras.KerasTensor  # [B, K, D], of the step before


@keras.saving.register_keras_serializable(package="t2t_lite")
class GNMTDecoder(AttentiveDecoder):
    """Layers of which the first is the query, and all others read the context that it finds.

    Only the first has to wait for the attention of the step before; the others read whole
    sequences.

    Args:
        hparams: a `GNMTHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = GNMTHParams
    hparams: GNMTHParams

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        h, d = self.hparams, self.hparams.hidden_size
        self.require_known(h.start_id, "start_id")
        self.dropout = Dropout(h.dropout, self.seeds)
        first = 2 * d if h.input_feeding else d
        widths = [first, *[2 * d] * (h.num_hidden_layers - 1)]
        self.cells = Stack(_cell(h, width) for width in widths)
        self.attention = ATTENTION[h.attention_mechanism](d, h.initializer_gain, outputs=0)
        if not h.input_feeding:
            self.supports_jit = supports_jit(self.cells[0])

    def call(
        self, targets: keras.KerasTensor, memory: Encoded, training: bool = False
    ) -> keras.KerasTensor:
        """See `Decoder.call`."""
        source, before = self._start(memory, 1)
        start = ops.full_like(targets[:, :1], self.hparams.start_id)
        x = self.embedding(ops.concatenate([start, targets[:, :-1]], axis=1))
        x, contexts = self._attend(self.dropout(x, training=training), source, before, training)
        self.attention.call_hook(x, source)
        if self.hparams.attention_architecture == "gnmt":
            contexts = shift_right(contexts)
        for number, cell in enumerate(self.cells):
            if number:
                both = self.dropout(ops.concatenate([x, contexts], axis=-1), training=training)
                y, _ = run_cell(cell, both, state=_of_one_beam(before.layers[number]))
                x = x + y if number >= _FIRST_RESIDUAL else y
        return x

    def _attend(
        self,
        x: keras.KerasTensor,
        source: SourceMemory,
        before: DecoderMemory,
        training: bool,
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Runs the first layer on `x` [B, T, D]; returns its outputs and contexts [B, T, D]."""
        cell = self.cells[0]
        if not self.hparams.input_feeding:
            x, _ = run_cell(cell, x, state=_of_one_beam(before.layers[0]))
            return x, self.attention(x, source)
        advance = cell.stepper(x.shape[-1])

        def step(
            before: tuple[LSTMState, keras.KerasTensor],
            projected: keras.KerasTensor,
            mask: keras.KerasTensor,
        ) -> tuple[LSTMState, keras.KerasTensor]:
            state, context = before
            state = advance(projected, state, context * mask)
            return state, self.attention(state.output, source)

        masks = self.dropout(ops.ones_like(x), training=training)
        start = before.layers[0], before.context
        states, contexts = scan_steps(step, start, cell.project(x), masks)
        return states.output, contexts

    def _start(self, memory: Encoded, beams: int) -> tuple[SourceMemory, DecoderMemory]:
        layers = repeat_states(memory.states, beams)
        if not self.hparams.pass_hidden_state:
            layers = keras.tree.map_structure(ops.zeros_like, layers)
        source = self.attention.memory(memory.output, memory.present)
        return source, DecoderMemory(layers, ops.zeros_like(layers[0].output))

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        source, memory = state.sentence, state.hypothesis
        x = self.embedding.step(ids, step, self.hparams.start_id)
        context = memory.context
        layers: list[LSTMState] = []
        for number, cell in enumerate(self.cells):
            alone = number == 0 and not self.hparams.input_feeding
            read = x if alone else ops.concatenate([x, context], axis=-1)
            layers.append(cell(read, memory.layers[number]))
            y = layers[-1].output
            x = x + y if number >= _FIRST_RESIDUAL else y
            if number == 0:
                after = self.attention(x, source)
                self.attention.call_hook(x, source)
                if self.hparams.attention_architecture == "gnmt_v2":
                    context = after
        return x, state._replace(hypothesis=DecoderMemory(layers, after))


def _of_one_beam(state: LSTMState) -> LSTMState:
    """Returns a state [B, 1, D] as [B, D]."""
    return LSTMState(*(part[:, 0] for part in state))


@keras.saving.register_keras_serializable(package="t2t_lite")
class GNMT(AttentiveSeq2Seq):
    """Deep LSTMs with residual connections; the first decoder layer attends for all others.

    The output of the first decoder layer is the query, and the context goes to all decoder layers
    with the output of the layer below.

    Args:
        hparams: a `GNMTHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = GNMTHParams
    hparams: GNMTHParams
    encoder_class = GNMTEncoder
    decoder_class = GNMTDecoder

    def _make_output_projection(self) -> OutputProjection:
        return OutputProjection(self.softmax_embedding, self.hparams.softmax_bias)
