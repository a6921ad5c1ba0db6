"""LSTMs with mixtures of experts between them (Shazeer et al. 2017, appendices E and G)."""

from typing import ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.moe_lstm import MoELSTMHParams
from t2t_lite.layers.base import Dropout
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts, make_mixture
from t2t_lite.layers.recurrent import LSTMCell, LSTMState, Recurrent, run_cell
from t2t_lite.layers.recurrent_attention import FactoredAttention, SourceMemory
from t2t_lite.models.hparams_model import Encoder, ModelPart
from t2t_lite.models.recurrent import AttentiveDecoder, AttentiveSeq2Seq, Encoded, scan_steps
from t2t_lite.models.seq2seq import DecodeState, shift_right


class _MoELSTMPart(ModelPart):
    """Base of encoder and decoder.

    Args:
        hparams: a `MoELSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = MoELSTMHParams
    hparams: MoELSTMHParams

    def _make_cell(self, inputs: int) -> LSTMCell:
        h = self.hparams
        return LSTMCell(inputs, h.hidden_size, h.initializer_gain, cells=h.lstm_cells)

    def _make_mixture(self) -> MixtureOfExperts:
        return make_mixture(self.hparams, self.hparams.hidden_size, 0.0, self.seeds)


@keras.saving.register_keras_serializable(package="t2t_lite")
class MoELSTMEncoder(_MoELSTMPart, Encoder):
    """Three LSTMs with experts between the second and the third: ids [B, S] -> [B, S, D].

    The first two read the embeddings in both directions, as in GNMT's first layer, and their
    outputs are added: all layers have D features.
    """

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        d = self.hparams.hidden_size
        self.dropout = Dropout(self.hparams.dropout, self.seeds)
        self.forward_layer = Recurrent(self._make_cell(d))
        self.backward_layer = Recurrent(self._make_cell(d), backward=True)
        self.experts = self._make_mixture()
        self.top_layer = Recurrent(self._make_cell(d))

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """Encodes `inputs` [B, S]; see `Encoder.encode`."""
        present = ops.not_equal(inputs, 0)
        x = self.dropout(self.embedding(inputs), training=training)
        both = [layer(x, mask=present)[0] for layer in (self.forward_layer, self.backward_layer)]
        x = x + self.dropout(ops.add(*both), training=training)
        y = ops.sigmoid(self.experts(x, mask=present, training=training))
        x = x + self.dropout(y, training=training)
        x = x + self.dropout(self.top_layer(x, mask=present)[0], training=training)
        return Encoded(x, present)


@keras.saving.register_keras_serializable(package="t2t_lite")
class MoELSTMDecoder(_MoELSTMPart, AttentiveDecoder):
    """Two LSTMs with experts between them; states start at 0.

    The first LSTM reads the context that the attention finds with its output of the step before.
    """

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        d = self.hparams.hidden_size
        self.dropout = Dropout(self.hparams.dropout, self.seeds)
        self.bottom_cell, self.top_cell = self._make_cell(2 * d), self._make_cell(d)
        self.experts = self._make_mixture()
        self.attention = FactoredAttention(d, self.hparams.initializer_gain, outputs=0)

    def call(
        self, targets: keras.KerasTensor, memory: Encoded, training: bool = False
    ) -> keras.KerasTensor:
        """See `Decoder.call`."""
        source, states = self._start(memory, 1)
        x = self.dropout(shift_right(self.embedding(targets)), training=training)
        y = self._attend(x, source, states[0])
        self.attention.call_hook(shift_right(y), source)
        x = x + self.dropout(y, training=training)
        x = x + self._mix(x, training, counted=ops.not_equal(targets, 0))
        return x + self.dropout(run_cell(self.top_cell, x)[0], training=training)

    def _attend(
        self, x: keras.KerasTensor, source: SourceMemory, state: LSTMState
    ) -> keras.KerasTensor:
        """Runs the first LSTM on `x` [B, T, D], from `state` [B, 1, D]; returns its outputs."""
        advance = self.bottom_cell.stepper(x.shape[-1])

        def step(state: LSTMState, projected: keras.KerasTensor) -> LSTMState:
            return advance(projected, state, self.attention(state.output, source))

        return scan_steps(step, state, self.bottom_cell.project(x)).output

    def _mix(
        self,
        x: keras.KerasTensor,
        training: bool = False,
        counted: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Applies the mixture to `x` [B, T, D]; its losses count the tokens `counted` [B, T]."""
        y = self.experts(x, counted=counted, training=training)
        return self.dropout(ops.sigmoid(y), training=training)

    def _start(self, memory: Encoded, beams: int) -> tuple[SourceMemory, list[LSTMState]]:
        source = self.attention.memory(memory.output, memory.present)
        zeros = ops.repeat(ops.zeros_like(memory.output[:, :1]), beams, axis=1)  # [B, K, D]
        return source, [cell.initial_state(zeros) for cell in (self.bottom_cell, self.top_cell)]

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        source, (bottom, top) = state.sentence, state.hypothesis
        x = self.embedding.step(ids, step)
        self.attention.call_hook(bottom.output, source)
        context = self.attention(bottom.output, source)
        bottom = self.bottom_cell(ops.concatenate([x, context], axis=-1), bottom)
        x = x + bottom.output
        x = x + self._mix(x)
        top = self.top_cell(x, top)
        return x + top.output, state._replace(hypothesis=[bottom, top])


@keras.saving.register_keras_serializable(package="t2t_lite")
class MoELSTM(AttentiveSeq2Seq):
    """A small GNMT with a mixture of experts in the encoder and one in the decoder.

    Around every LSTM and every mixture there is a residual connection; mixtures have a sigmoid at
    their output. The paper's strictly balanced gating (appendix F), which depends on the batch, is
    replaced by that of its sections 2 to 4.

    Args:
        hparams: a `MoELSTMHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = MoELSTMHParams
    hparams: MoELSTMHParams
    encoder_class = MoELSTMEncoder
    decoder_class = MoELSTMDecoder
