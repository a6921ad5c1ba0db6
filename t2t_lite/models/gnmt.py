"""Google's neural machine translation system (Wu et al. 2016), in the forms of tf/nmt."""

from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.gnmt import GNMTHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.recurrent import LSTMCell, LSTMState, Recurrent, run_cell, supports_jit
from t2t_lite.layers.recurrent_attention import ATTENTION, SourceMemory
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import HParamsModel, require_choice
from t2t_lite.models.model_part import Encoder
from t2t_lite.models.output_projection import OutputProjection
from t2t_lite.models.recurrent import RecurrentSeq2Seq, WithAttention, repeat_states
from t2t_lite.models.seq2seq import DecodeState, Features

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
        layers_of: a `GNMT` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = GNMTHParams
    hparams: GNMTHParams
    shared_names: ClassVar[tuple[str, ...]] = (
        "inputs_embedding",
        "dropout",
        "forward_layer",
        "backward_layer",
        "encoder_layers",
    )

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        h = owner.hparams
        assert isinstance(h, GNMTHParams)
        d = h.hidden_size
        owner.dropout = Dropout(h.dropout, owner.seeds)
        owner.forward_layer = Recurrent(_cell(h, d))
        owner.backward_layer = Recurrent(_cell(h, d), backward=True)
        widths = [2 * d, *[d] * (h.num_hidden_layers - 2)]
        owner.encoder_layers = Stack(Recurrent(_cell(h, width)) for width in widths)

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D], zero at padding."""
        return self.encode(inputs, training)[0]

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, list[LSTMState]]:
        """Encodes `inputs` [B, S]; returns [B, S, D], and each layer's final state [B, D].

        That of the first layer is the backward one's, as in tf/nmt.
        """
        present = ops.not_equal(inputs, 0)
        x = self.dropout(self.inputs_embedding(inputs), training=training)
        forward, _ = self.forward_layer(x, mask=present)
        backward, state = self.backward_layer(x, mask=present)
        x, final = ops.concatenate([forward, backward], axis=-1), [state]
        for number, layer in enumerate(self.encoder_layers, start=1):
            y, state = layer(self.dropout(x, training=training), mask=present)
            x = x + y if number >= _FIRST_RESIDUAL else y
            final.append(state)
        return x, final

    def flops_per_token(self) -> float:
        """Returns the operations of all layers for one token."""
        layers = (self.forward_layer, self.backward_layer, self.encoder_layers)
        return sum(map(flops_per_token, layers))


class DecoderMemory(NamedTuple):
    """The state that the decoder passes to its next step."""

    layers: list[LSTMState]  # each [B, K, D]
    context: keras.KerasTensor  # [B, K, D], of the step before


@keras.saving.register_keras_serializable(package="t2t_lite")
class GNMT(WithAttention, RecurrentSeq2Seq):
    """Deep LSTMs with residual connections; the first decoder layer attends for all others.

    The output of the first decoder layer is the query, and the context goes to all decoder layers
    with the output of the layer below. Only the first has to wait for the attention of the step
    before; the others read whole sequences.

    Args:
        hparams: a `GNMTHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = GNMTHParams
    hparams: GNMTHParams
    encoder_class = GNMTEncoder

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        h = self.hparams
        require_choice(h, "attention_mechanism", *ATTENTION)
        require_choice(h, "attention_architecture", "gnmt", "gnmt_v2")
        if h.num_hidden_layers < 2:
            raise UsageError(
                f"hparam num_hidden_layers={h.num_hidden_layers}: expected at least 2, since the "
                "first encoder layer reads in both directions"
            )
        if h.start_id >= self.targets_vocab_size:
            raise UsageError(
                f"hparam start_id={h.start_id}: expected an id of the target vocabulary, which has "
                f"{self.targets_vocab_size}"
            )
        super().make_layers()
        d = h.hidden_size
        first = 2 * d if h.input_feeding else d
        widths = [first, *[2 * d] * (h.num_hidden_layers - 1)]
        self.decoder_cells = Stack(_cell(h, width) for width in widths)
        self.attention = ATTENTION[h.attention_mechanism](d, h.initializer_gain, outputs=0)
        if not h.input_feeding:
            self.supports_jit = supports_jit(self.decoder_cells[0])
        if h.softmax_bias:
            rows = (self.targets_vocab_size,)
            self.softmax_bias = self.add_weight(rows, "zeros", name="softmax_bias")
            self.output_projection = OutputProjection(self.softmax_embedding, self.softmax_bias)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        source, memory = self._start(features["inputs"], 1, training)
        targets = features["targets"]
        start = ops.full_like(targets[:, :1], self.hparams.start_id)
        x = self.targets_embedding(ops.concatenate([start, targets[:, :-1]], axis=1))
        x, contexts = self._attend(self.dropout(x, training=training), source, memory, training)
        self.attention.call_hook(x, source)
        if self.hparams.attention_architecture == "gnmt":
            contexts = ops.pad(contexts, [[0, 0], [1, 0], [0, 0]])[:, :-1]
        for number, cell in enumerate(self.decoder_cells):
            if number:
                both = self.dropout(ops.concatenate([x, contexts], axis=-1), training=training)
                state = keras.tree.map_structure(lambda part: part[:, 0], memory.layers[number])
                y, _ = run_cell(cell, both, state=state)
                x = x + y if number >= _FIRST_RESIDUAL else y
        return x

    def _attend(
        self,
        x: keras.KerasTensor,
        source: SourceMemory,
        memory: DecoderMemory,
        training: bool,
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Runs the first layer on `x` [B, T, D]; returns its outputs and contexts [B, T, D]."""
        cell = self.decoder_cells[0]
        if not self.hparams.input_feeding:
            state = keras.tree.map_structure(lambda part: part[:, 0], memory.layers[0])
            x, _ = run_cell(cell, x, state=state)
            return x, self.attention(x, source)
        # [T, B, 1, 4D], and a dropout mask of the context, drawn before the loop; packed, because
        # `scan` takes only one tensor of unknown length.
        x = ops.swapaxes(x, 0, 1)[:, :, None]
        now = ops.concatenate(
            [cell.project(x), self.dropout(ops.ones_like(x), training=training)], axis=-1
        )
        advance = cell.stepper(x.shape[-1])

        def step(
            before: tuple[LSTMState, keras.KerasTensor], now: keras.KerasTensor
        ) -> tuple[Any, Any]:
            state, context = before
            projected, mask = ops.split(now, [4 * cell.channels], axis=-1)
            state = advance(projected, state, context * mask)
            after = state, self.attention(state.output, source)
            return after, after

        _, (states, contexts) = ops.scan(step, (memory.layers[0], memory.context), now)
        return tuple(ops.swapaxes(part[:, :, 0], 0, 1) for part in (states.output, contexts))

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        keys, query = self.attention.key_layers(), self.attention.query_layers()
        target = [self.decoder_cells, *query, self.softmax_embedding]
        return ForwardFlops(
            source=self._encoder_view.flops_per_token() + sum(map(flops_per_token, keys)),
            target=sum(map(flops_per_token, target)),
            target_source=self.attention.flops_per_pair(),
        )

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        source, memory = state.sentence, state.hypothesis
        start = ops.full_like(ids, self.hparams.start_id)
        x = self.targets_embedding(ops.where(ops.equal(step, 0), start, ids))
        context = memory.context
        layers: list[LSTMState] = []
        for number, cell in enumerate(self.decoder_cells):
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
        logits = self.output_projection(x, state.weights)
        return logits, state._replace(hypothesis=DecoderMemory(layers, after))

    def _start(
        self, inputs: keras.KerasTensor, beams: int, training: bool
    ) -> tuple[SourceMemory, DecoderMemory]:
        x, final = self._encoder_view.encode(inputs, training)
        source = self.attention.memory(x, ops.not_equal(inputs, 0))
        layers = repeat_states(final, beams)
        if not self.hparams.pass_hidden_state:
            layers = keras.tree.map_structure(ops.zeros_like, layers)
        return source, DecoderMemory(layers, ops.zeros_like(layers[0].output))
