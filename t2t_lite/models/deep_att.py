"""Deep-Att: deep LSTMs with fast-forward connections (Zhou et al. 2016)."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.deep_att import DeepAttHParams
from t2t_lite.layers.base import Stack
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.fast_forward import FastForward
from t2t_lite.layers.recurrent import LSTMState
from t2t_lite.layers.recurrent_attention import AdditiveAttention, SourceMemory
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import HParamsModel
from t2t_lite.models.model_part import Encoder
from t2t_lite.models.recurrent import RecurrentSeq2Seq, WithAttention, repeat_states
from t2t_lite.models.seq2seq import DecodeState, Features, shift_right

_COLUMNS = 2


def _column(owner: HParamsModel, layers: int, inputs: int, *backward: bool) -> Stack:
    """Makes a column whose layers take turns in reading in the directions `backward`."""
    h = owner.hparams
    assert isinstance(h, DeepAttHParams)
    above = h.fast_forward_size + h.lstm_size
    return Stack(
        FastForward(
            above if number else inputs,
            h.lstm_size,
            h.fast_forward_size,
            backward[number % len(backward)],
            h.dropout,
            h.initializer_gain,
            owner.seeds,
        )
        for number in range(layers)
    )


@keras.saving.register_keras_serializable(package="t2t_lite")
class DeepAttEncoder(Encoder):
    """Two columns of layers, whose directions alternate: ids [B, S] -> [B, S, attention_size].

    One column begins forward and the other backward ("interleaved", section 3.2).

    Args:
        hparams: a `DeepAttHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: a `DeepAtt` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = DeepAttHParams
    hparams: DeepAttHParams
    shared_names: ClassVar[tuple[str, ...]] = (
        "inputs_embedding",
        "first_column",
        "second_column",
        "encoder_end",
    )

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        h = owner.hparams
        assert isinstance(h, DeepAttHParams)
        owner.first_column = _column(owner, h.num_encoder_layers, h.hidden_size, False, True)
        owner.second_column = _column(owner, h.num_encoder_layers, h.hidden_size, True, False)
        features = _COLUMNS * (h.fast_forward_size + h.lstm_size)
        owner.encoder_end = Projection(features, (h.attention_size,), h.initializer_gain)

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, attention_size], zero at padding."""
        present = ops.not_equal(inputs, 0)
        columns = []
        for column in (self.first_column, self.second_column):
            x = self.inputs_embedding(inputs)
            for layer in column:
                x = layer(x, mask=present, training=training)
            columns.append(x)
        return self.encoder_end(ops.concatenate(columns, axis=-1))


@keras.saving.register_keras_serializable(package="t2t_lite")
class DeepAtt(WithAttention, RecurrentSeq2Seq):
    """Deep columns of LSTMs beside linear paths, with attention in the first decoder layer.

    The query is the output of the first decoder layer at the step before; that layer reads the
    embedding and the context. All decoder layers start from zeros.

    Args:
        hparams: a `DeepAttHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = DeepAttHParams
    hparams: DeepAttHParams
    encoder_class = DeepAttEncoder

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        super().make_layers()
        h = self.hparams
        inputs = h.hidden_size + h.attention_size
        self.decoder_layers = _column(self, h.num_decoder_layers, inputs, False)
        self.attention = AdditiveAttention(
            h.lstm_size, h.initializer_gain, outputs=0, memory_channels=h.attention_size
        )
        features = h.fast_forward_size + h.lstm_size
        self.decoder_end = Projection(features, (h.hidden_size,), h.initializer_gain)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]."""
        source, layers = self._start(features["inputs"], 1, training)
        x = shift_right(self.targets_embedding(features["targets"]))
        for number, layer in enumerate(self.decoder_layers):
            if number:
                x = layer(x, training=training)
            else:
                x = self._attend(x, source, layers[0], training)
        return self.decoder_end(x)

    def _attend(
        self, x: keras.KerasTensor, source: SourceMemory, state: LSTMState, training: bool
    ) -> keras.KerasTensor:
        """Runs the first layer on embeddings `x` [B, T, D]: [B, T, F + lstm_size]."""
        layer: FastForward = self.decoder_layers[0]
        kernel = ops.cast(layer.linear.matrix(), self.compute_dtype)
        known = x.shape[-1]
        # [T, B, 1, F], and a dropout mask, drawn before the loop; packed, because `scan` takes
        # only one tensor of unknown length.
        f = ops.swapaxes(ops.matmul(x, kernel[:known]), 0, 1)[:, :, None]
        mask = layer.dropout(ops.ones_like(layer.half(f)), training=training)
        rows, advance = kernel[known:], layer.recurrent.cell.stepper(0)

        def step(
            before: tuple[LSTMState, keras.KerasTensor], now: keras.KerasTensor
        ) -> tuple[Any, Any]:
            state = before[0]
            f, mask = ops.split(now, [layer.width], axis=-1)
            f = f + ops.matmul(self.attention(state.output, source), rows)
            after = advance(None, state, layer.half(f) * mask), f
            return after, after

        first = state, ops.zeros_like(f[0])
        _, (states, f) = ops.scan(step, first, ops.concatenate([f, mask], axis=-1))
        queries = ops.concatenate([state.output[None], states.output[:-1]], axis=0)
        self.attention.call_hook(ops.swapaxes(queries[:, :, 0], 0, 1), source)
        return ops.swapaxes(ops.concatenate([f, states.output], axis=-1)[:, :, 0], 0, 1)

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        keys, query = self.attention.key_layers(), self.attention.query_layers()
        source = [self.first_column, self.second_column, self.encoder_end, *keys]
        target = [self.decoder_layers, *query, self.decoder_end, self.softmax_embedding]
        return ForwardFlops(
            source=sum(map(flops_per_token, source)),
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
        query = state.hypothesis[0].output
        self.attention.call_hook(query, state.sentence)
        context = self.attention(query, state.sentence)
        x = ops.concatenate([self._embed_step(ids, step), context], axis=-1)
        layers = []
        for layer, before in zip(self.decoder_layers, state.hypothesis, strict=True):
            x, after = layer.step(x, before)
            layers.append(after)
        logits = self.output_projection(self.decoder_end(x), state.weights)
        return logits, state._replace(hypothesis=layers)

    def _start(
        self, inputs: keras.KerasTensor, beams: int, training: bool
    ) -> tuple[SourceMemory, list[LSTMState]]:
        """Encodes `inputs` [B, S]; returns what to attend to, and zero states [B, K, D]."""
        x = self._encoder_view(inputs, training=training)
        zeros = ops.zeros_like(x[:, 0, :1]) + ops.zeros((self.hparams.lstm_size,), x.dtype)
        layers = [LSTMState(zeros, zeros) for _ in self.decoder_layers]
        return self.attention.memory(x, ops.not_equal(inputs, 0)), repeat_states(layers, beams)
