"""LSTMs with mixtures of experts between them (Shazeer et al. 2017, appendices E and G)."""

from typing import ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.moe_lstm import MoELSTMHParams
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.recurrent import LSTMCell, LSTMState, Recurrent, run_cell
from t2t_lite.layers.recurrent_attention import FactoredAttention, SourceMemory
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import HParamsModel, make_mixture
from t2t_lite.models.model_part import Encoder
from t2t_lite.models.recurrent import RecurrentSeq2Seq, WithAttention
from t2t_lite.models.seq2seq import DecodeState, Features, shift_right


def _cell(hparams: MoELSTMHParams, inputs: int) -> LSTMCell:
    return LSTMCell(inputs, hparams.hidden_size, hparams.initializer_gain, cells=hparams.lstm_cells)


def _mixture(owner: HParamsModel) -> MixtureOfExperts:
    h = owner.hparams
    assert isinstance(h, MoELSTMHParams)
    return make_mixture(h, h.hidden_size, 0.0, owner.seeds)


@keras.saving.register_keras_serializable(package="t2t_lite")
class MoELSTMEncoder(Encoder):
    """Three LSTMs with experts between the second and the third: ids [B, S] -> [B, S, D].

    The first two read the embeddings in both directions, as in GNMT's first layer, and their
    outputs are added: all layers have D features.

    Args:
        hparams: a `MoELSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: a `MoELSTM` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = MoELSTMHParams
    hparams: MoELSTMHParams
    shared_names: ClassVar[tuple[str, ...]] = (
        "inputs_embedding",
        "dropout",
        "forward_layer",
        "backward_layer",
        "encoder_experts",
        "top_layer",
    )

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        h = owner.hparams
        assert isinstance(h, MoELSTMHParams)
        owner.dropout = Dropout(h.dropout, owner.seeds)
        owner.forward_layer = Recurrent(_cell(h, h.hidden_size))
        owner.backward_layer = Recurrent(_cell(h, h.hidden_size), backward=True)
        owner.encoder_experts = _mixture(owner)
        owner.top_layer = Recurrent(_cell(h, h.hidden_size))

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D]."""
        present = ops.not_equal(inputs, 0)
        x = self.dropout(self.inputs_embedding(inputs), training=training)
        both = [layer(x, mask=present)[0] for layer in (self.forward_layer, self.backward_layer)]
        x = x + self.dropout(ops.add(*both), training=training)
        y = ops.sigmoid(self.encoder_experts(x, mask=present, training=training))
        x = x + self.dropout(y, training=training)
        return x + self.dropout(self.top_layer(x, mask=present)[0], training=training)


@keras.saving.register_keras_serializable(package="t2t_lite")
class MoELSTM(WithAttention, RecurrentSeq2Seq):
    """A small GNMT with a mixture of experts in the encoder and one in the decoder.

    The first of two decoder LSTMs reads the context that the attention finds with its output of
    the step before; the experts and the second LSTM follow. Around every LSTM and every mixture
    there is a residual connection; mixtures have a sigmoid at their output. States start at 0. The
    paper's strictly balanced gating (appendix F), which depends on the batch, is replaced by that
    of its sections 2 to 4.

    Args:
        hparams: a `MoELSTMHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = MoELSTMHParams
    hparams: MoELSTMHParams
    encoder_class = MoELSTMEncoder

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        super().make_layers()
        h, d = self.hparams, self.hparams.hidden_size
        self.bottom_cell, self.top_cell = _cell(h, 2 * d), _cell(h, d)
        self.decoder_experts = _mixture(self)
        self.attention = FactoredAttention(d, h.initializer_gain, outputs=0)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        source, states = self._start(features["inputs"], 1, training)
        targets = features["targets"]
        x = self.dropout(shift_right(self.targets_embedding(targets)), training=training)
        y = self._attend(x, source, states[0])
        self.attention.call_hook(shift_right(y), source)
        x = x + self.dropout(y, training=training)
        x = x + self._experts(x, training, counted=ops.not_equal(targets, 0))
        return x + self.dropout(run_cell(self.top_cell, x)[0], training=training)

    def _attend(
        self, x: keras.KerasTensor, source: SourceMemory, state: LSTMState
    ) -> keras.KerasTensor:
        """Runs the first LSTM on `x` [B, T, D], from `state` [B, 1, D]; returns its outputs."""
        advance = self.bottom_cell.stepper(x.shape[-1])

        def step(state: LSTMState, now: keras.KerasTensor) -> tuple[LSTMState, LSTMState]:
            state = advance(now, state, self.attention(state.output, source))
            return state, state

        now = ops.swapaxes(self.bottom_cell.project(x), 0, 1)[:, :, None]  # [T, B, 1, 4H]
        _, states = ops.scan(step, state, now)
        return ops.swapaxes(states.output[:, :, 0], 0, 1)

    def _experts(
        self,
        x: keras.KerasTensor,
        training: bool = False,
        counted: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Applies the mixture to `x` [B, T, D]; its losses count the tokens `counted` [B, T]."""
        y = self.decoder_experts(x, counted=counted, training=training)
        return self.dropout(ops.sigmoid(y), training=training)

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        source = [self.forward_layer, self.backward_layer, self.encoder_experts, self.top_layer]
        target = [self.bottom_cell, self.decoder_experts, self.top_cell, self.softmax_embedding]
        return ForwardFlops(
            source=sum(map(flops_per_token, [*source, *self.attention.key_layers()])),
            target=sum(map(flops_per_token, [*target, *self.attention.query_layers()])),
            target_source=self.attention.flops_per_pair(),
        )

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        source, (bottom, top) = state.sentence, state.hypothesis
        x = self._embed_step(ids, step)
        self.attention.call_hook(bottom.output, source)
        context = self.attention(bottom.output, source)
        bottom = self.bottom_cell(ops.concatenate([x, context], axis=-1), bottom)
        x = x + bottom.output
        x = x + self._experts(x)
        top = self.top_cell(x, top)
        logits = self.output_projection(x + top.output, state.weights)
        return logits, state._replace(hypothesis=[bottom, top])

    def _start(
        self, inputs: keras.KerasTensor, beams: int, training: bool
    ) -> tuple[SourceMemory, list[LSTMState]]:
        x = self._encoder_view(inputs, training=training)
        source = self.attention.memory(x, ops.not_equal(inputs, 0))
        zeros = ops.repeat(ops.zeros_like(x[:, :1]), beams, axis=1)  # [B, K, D]
        return source, [cell.initial_state(zeros) for cell in (self.bottom_cell, self.top_cell)]
