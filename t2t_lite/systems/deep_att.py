"""Deep-Att: deep LSTMs with fast-forward connections (Zhou et al. 2016)."""

from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.deep_att import DeepAttHParams
from t2t_lite.layers.base import Dropout, Layer, Stack, seeds_or_new
from t2t_lite.layers.dense import Projection
from t2t_lite.layers.recurrent import LSTMCell, LSTMState, Recurrent
from t2t_lite.layers.recurrent_attention import AdditiveAttention, SourceMemory
from t2t_lite.models.hparams_model import Encoder, ModelPart
from t2t_lite.models.recurrent import (
    AttentiveDecoder,
    AttentiveSeq2Seq,
    Encoded,
    repeat_states,
    scan_steps,
)
from t2t_lite.models.seq2seq import DecodeState, shift_right


@keras.saving.register_keras_serializable(package="t2t_lite")
class FastForward(Layer):
    """An LSTM beside a linear path: f = W x, h = LSTM(half of f), and both go to the next layer.

    So neither a non-linearity nor a recurrence lies on the way from the first f to the last. f has
    no bias, so it is zero where x is, as at padding.

    Args:
        inputs: features of x: those of an embedding, or of the result of the layer below.
        channels: D, features of h.
        width: F, features of f.
        backward: whether the LSTM reads from the last token to the first.
        dropout_rate: dropout of the LSTM's inputs.
        gain: scale of the initial variance.
        seeds: the model's seed generator (default: a new one).
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        inputs: int,
        channels: int,
        width: int,
        backward: bool = False,
        dropout_rate: float = 0.0,
        gain: float = 1.0,
        seeds: keras.random.SeedGenerator | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.inputs = inputs
        self.channels = channels
        self.width = width
        self.backward = backward
        self.dropout_rate = dropout_rate
        self.gain = gain
        policy = self.dtype_policy
        self.linear = Projection(inputs, (width,), gain, dtype=policy)
        self.dropout = Dropout(dropout_rate, seeds_or_new(seeds), dtype=policy)
        cell = LSTMCell(width // 2, channels, gain, dtype=policy)
        self.recurrent = Recurrent(cell, backward, dtype=policy)

    def call(
        self,
        x: keras.KerasTensor,
        mask: keras.KerasTensor | None = None,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `x` [B, N, inputs] to f and h, side by side, [B, N, F + D].

        Args:
            x: the inputs.
            mask: [B, N], False at padding (default: no padding).
            training: whether to apply dropout.
        """
        f = self.linear(x)
        h, _ = self.recurrent(self.dropout(self.half(f), training=training), mask=mask)
        return ops.concatenate([f, h], axis=-1)

    def step(self, x: keras.KerasTensor, state: LSTMState) -> tuple[keras.KerasTensor, LSTMState]:
        """Maps one position `x` [..., inputs]; returns f and h, and the next state."""
        f = self.linear(x)
        state = self.recurrent.step(self.half(f), state)
        return ops.concatenate([f, state.output], axis=-1), state

    def half(self, f: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the features of f that the LSTM reads, [..., F / 2]."""
        return f[..., : self.width // 2]


_COLUMNS = 2


class _DeepAttPart(ModelPart):
    """Base of encoder and decoder, which consist of columns.

    Args:
        hparams: a `DeepAttHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = DeepAttHParams
    hparams: DeepAttHParams

    def _make_column(self, layers: int, inputs: int, *backward: bool) -> Stack:
        """Makes a column whose layers take turns in reading in the directions `backward`."""
        h = self.hparams
        above = h.fast_forward_size + h.lstm_size
        return Stack(
            FastForward(
                above if number else inputs,
                h.lstm_size,
                h.fast_forward_size,
                backward[number % len(backward)],
                h.dropout,
                h.initializer_gain,
                self.seeds,
            )
            for number in range(layers)
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class DeepAttEncoder(_DeepAttPart, Encoder):
    """Two columns of layers, whose directions alternate: ids [B, S] -> [B, S, attention_size].

    One column begins forward and the other backward ("interleaved", section 3.2).
    """

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        h = self.hparams
        self.first_column = self._make_column(h.num_encoder_layers, h.hidden_size, False, True)
        self.second_column = self._make_column(h.num_encoder_layers, h.hidden_size, True, False)
        features = _COLUMNS * (h.fast_forward_size + h.lstm_size)
        self.end = Projection(features, (h.attention_size,), h.initializer_gain)

    def encode(self, inputs: keras.KerasTensor, training: bool = False) -> Encoded:
        """Encodes `inputs` [B, S]; see `Encoder.encode`. Outputs are zero at padding."""
        present = ops.not_equal(inputs, 0)
        columns = []
        for column in (self.first_column, self.second_column):
            x = self.embedding(inputs)
            for layer in column:
                x = layer(x, mask=present, training=training)
            columns.append(x)
        return Encoded(self.end(ops.concatenate(columns, axis=-1)), present)


@keras.saving.register_keras_serializable(package="t2t_lite")
class DeepAttDecoder(_DeepAttPart, AttentiveDecoder):
    """A column of layers, of which the first reads the embedding and the context.

    The query is the output of the first layer at the step before. All layers start from zeros.
    """

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        h = self.hparams
        inputs = h.hidden_size + h.attention_size
        self.stack = self._make_column(h.num_decoder_layers, inputs, False)
        self.attention = AdditiveAttention(
            h.lstm_size, h.initializer_gain, outputs=0, memory_channels=h.attention_size
        )
        features = h.fast_forward_size + h.lstm_size
        self.end = Projection(features, (h.hidden_size,), h.initializer_gain)

    def call(
        self, targets: keras.KerasTensor, memory: Encoded, training: bool = False
    ) -> keras.KerasTensor:
        """See `Decoder.call`."""
        source, layers = self._start(memory, 1)
        x = shift_right(self.embedding(targets))
        x = self._attend(x, source, layers[0], training)
        for number, layer in enumerate(self.stack):
            x = layer(x, training=training) if number else x
        return self.end(x)

    def _attend(
        self, x: keras.KerasTensor, source: SourceMemory, state: LSTMState, training: bool
    ) -> keras.KerasTensor:
        """Runs the first layer on embeddings `x` [B, T, D]: [B, T, F + lstm_size]."""
        layer: FastForward = self.stack[0]
        kernel = ops.cast(layer.linear.matrix(), self.compute_dtype)
        known = x.shape[-1]
        f = ops.matmul(x, kernel[:known])  # [B, T, F]
        masks = layer.dropout(ops.ones_like(layer.half(f)), training=training)
        rows, advance = kernel[known:], layer.recurrent.cell.stepper(0)

        def step(
            before: tuple[LSTMState, keras.KerasTensor],
            f: keras.KerasTensor,
            mask: keras.KerasTensor,
        ) -> tuple[LSTMState, keras.KerasTensor]:
            state = before[0]
            f = f + ops.matmul(self.attention(state.output, source), rows)
            return advance(None, state, layer.half(f) * mask), f

        states, f = scan_steps(step, (state, ops.zeros_like(f[:, :1])), f, masks)
        queries = ops.concatenate([state.output, states.output[:, :-1]], axis=1)
        self.attention.call_hook(queries, source)
        return ops.concatenate([f, states.output], axis=-1)

    def _start(self, memory: Encoded, beams: int) -> tuple[SourceMemory, list[LSTMState]]:
        x = memory.output
        zeros = ops.zeros_like(x[:, 0, :1]) + ops.zeros((self.hparams.lstm_size,), x.dtype)
        layers = [LSTMState(zeros, zeros) for _ in self.stack]
        return self.attention.memory(x, memory.present), repeat_states(layers, beams)

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        query = state.hypothesis[0].output
        self.attention.call_hook(query, state.sentence)
        context = self.attention(query, state.sentence)
        x = ops.concatenate([self.embedding.step(ids, step), context], axis=-1)
        layers = []
        for layer, before in zip(self.stack, state.hypothesis, strict=True):
            x, after = layer.step(x, before)
            layers.append(after)
        return self.end(x), state._replace(hypothesis=layers)


@keras.saving.register_keras_serializable(package="t2t_lite")
class DeepAtt(AttentiveSeq2Seq):
    """Deep columns of LSTMs beside linear paths, with attention in the first decoder layer.

    Args:
        hparams: a `DeepAttHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = DeepAttHParams
    hparams: DeepAttHParams
    encoder_class = DeepAttEncoder
    decoder_class = DeepAttDecoder
