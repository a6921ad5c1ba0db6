"""The Neural GPU (Kaiser & Sutskever 2016), and its extended form (Kaiser & Bengio 2016).

Their state is a tape of cells: each step changes all of it by the same convolutions. The tape's
length depends on the sentence's own source alone, and cells beyond it stay 0, so that neither
padding nor the rest of a batch matters. (In T2T, convolutions read across padding.)
"""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.neural_gpu import NeuralGPUHParams
from t2t_lite.layers.base import Dropout, Layer, Stack
from t2t_lite.layers.dense import SideBySide, unit_scaling
from t2t_lite.models.flops import ForwardFlops, flops_of_part, flops_per_token
from t2t_lite.models.hparams_model import Decoder, Encoder, ModelPart, make_embedding
from t2t_lite.models.seq2seq import DecodeState, EncoderDecoder, Features, Seq2Seq

# Maps a tape [B, N, W, D] after step n, a scalar counted from 0, to the next one.
TapeStep = Callable[[keras.KerasTensor, keras.KerasTensor], keras.KerasTensor]


def saturating_sigmoid(x: keras.KerasTensor) -> keras.KerasTensor:
    """A sigmoid that reaches 0 and 1: `1.2 σ(x) - 0.1`, cut off (Kaiser & Bengio 2016)."""
    return ops.clip(1.2 * ops.sigmoid(x) - 0.1, 0.0, 1.0)


@keras.saving.register_keras_serializable(package="t2t_lite")
class CGRU(Layer):
    """A convolutional gated recurrent unit: one layer of one step on a tape.

    `u ⊙ s + (1 - u) ⊙ tanh(U * (r ⊙ s) + B)`, with the gates u and r also convolutions of the
    tape s; every term may also see another tape (Kaiser & Bengio 2016, section 2).

    Args:
        channels: D, features of a cell of the tape.
        others: features of the other tape; 0: there is none.
        height: cells that an output sees along the positions.
        width: cells that it sees across them.
        gain: scale of the initial variance.
        **kwargs: see `Layer`.
    """

    def __init__(
        self,
        channels: int,
        others: int = 0,
        *,
        height: int = 3,
        width: int = 1,
        gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.channels = channels
        self.others = others
        self.height = height
        self.width = width
        self.gain = gain
        self.gates_kernel, self.gates_bias = self._weights("gates", 2, "ones")
        self.candidate_kernel, self.candidate_bias = self._weights("candidate", 1, "zeros")

    def _weights(self, name: str, parts: int, bias: str) -> tuple[keras.Variable, keras.Variable]:
        """Adds a kernel [height · width · inputs, parts · D] and a bias."""
        d = self.channels
        rows = self.height * self.width * (self.others + d)
        initializer = SideBySide(unit_scaling(self.gain), [d] * parts)
        return (
            self.add_weight(
                shape=(rows, parts * d), initializer=initializer, name=f"{name}_kernel"
            ),
            self.add_weight(shape=(parts * d,), initializer=bias, name=f"{name}_bias"),
        )

    def call(
        self,
        tape: keras.KerasTensor,
        mask: keras.KerasTensor,
        others: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `tape` [B, N, W, D] to the next one, which is 0 beyond its end.

        Args:
            tape: the state.
            mask: [B, N], False beyond the tape's end.
            others: the other tape [B, N, W, others], if there is one.
        """
        gates = self._convolve(tape, others, self.gates_kernel, self.gates_bias)
        reset, keep = ops.split(saturating_sigmoid(gates), 2, axis=-1)
        kernel, bias = self.candidate_kernel, self.candidate_bias
        candidate = ops.tanh(self._convolve(reset * tape, others, kernel, bias))
        new = keep * tape + (1.0 - keep) * candidate
        return ops.where(mask[:, :, None, None], new, ops.zeros((), new.dtype))

    def _convolve(
        self,
        tape: keras.KerasTensor,
        others: keras.KerasTensor | None,
        kernel: keras.Variable,
        bias: keras.Variable,
    ) -> keras.KerasTensor:
        x = tape if others is None else ops.concatenate([others, tape], axis=-1)
        x = ops.cast(x, self.compute_dtype)
        shape = (self.height, self.width, self.others + self.channels, kernel.shape[1])
        weights = ops.reshape(ops.cast(kernel, x.dtype), shape)
        return ops.conv(x, weights, padding="same") + ops.cast(bias, x.dtype)


def step_dropout(
    dropout: Dropout, tape: keras.KerasTensor, count: keras.KerasTensor | int, training: bool
) -> TapeStep:
    """Returns the dropout of a tape [B, N, W, D] before each of `count` steps.

    Masks are drawn here, before the loop of the steps: a compiled loop would not advance the seeds.
    """
    if not training or dropout.rate == 0.0:
        return lambda tape, number: tape
    masks = dropout(ops.ones((count, *ops.shape(tape)), tape.dtype), training=True)
    return lambda tape, number: tape * ops.take(masks, number, axis=0)


def through(
    layers: Iterable[CGRU],
    tape: keras.KerasTensor,
    mask: keras.KerasTensor,
    others: keras.KerasTensor | None = None,
) -> keras.KerasTensor:
    """Runs a tape [B, N, W, D] through the layers of one step; see `CGRU.call`."""
    for layer in layers:
        tape = layer(tape, mask, others)
    return tape


def _fitted(x: keras.KerasTensor, length: keras.KerasTensor | int) -> keras.KerasTensor:
    """Cuts `x` [B, N, D] to `length` positions, or appends zeros."""
    return ops.pad(x, [[0, 0], [0, length], [0, 0]])[:, :length]


def _first_row(x: keras.KerasTensor, width: int) -> keras.KerasTensor:
    """Puts `x` [B, N, D] into the first row of a tape [B, N, W, D]."""
    return ops.pad(x[:, :, None], [[0, 0], [0, 0], [0, width - 1], [0, 0]])


class _NeuralGPUPart(ModelPart):
    """Base of encoder and decoder.

    Args:
        hparams: a `NeuralGPUHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = NeuralGPUHParams
    hparams: NeuralGPUHParams
    sees_targets: ClassVar[bool] = False  # on another tape

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        h = self.hparams
        # TensorFlow's XLA cannot differentiate a loop of unknown length.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        self.dropout = Dropout(h.dropout, self.seeds)
        self.units = Stack(
            CGRU(
                h.hidden_size,
                h.hidden_size if self.sees_targets else 0,
                height=h.kernel_height,
                width=h.kernel_width,
                gain=h.initializer_gain,
            )
            for _ in range(h.num_hidden_layers)
        )

    def flops_of_step(self) -> tuple[float, float]:
        """Returns the operations of a step on the whole tape: fixed, and for each source token."""
        along = self.hparams.tape_width * flops_of_part(self)  # for each position of the tape
        return along * self.hparams.tape_extra, along * self.hparams.tape_ratio


@keras.saving.register_keras_serializable(package="t2t_lite")
class NeuralGPUEncoder(_NeuralGPUPart, Encoder):
    """As many steps as the source is long: ids [B, S] -> [B, S, D], with a mask at padding."""

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns the tape's first row at the source's positions."""
        return _fitted(self.encode(inputs, training)[0][:, :, 0], ops.shape(inputs)[1])

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns the tape [B, N, W, D], and its mask [B, N]."""
        h = self.hparams
        sources = ops.sum(ops.cast(ops.not_equal(inputs, 0), "int32"), axis=1)  # [B]
        longest = ops.shape(inputs)[1]
        length = self._tape_lengths(longest)  # N
        mask = ops.arange(length)[None] < self._tape_lengths(sources)[:, None]
        tape = _first_row(_fitted(self.embedding(inputs), length), h.tape_width)

        dropped = step_dropout(self.dropout, tape, longest, training)

        def step(number: keras.KerasTensor, tape: keras.KerasTensor) -> keras.KerasTensor:
            new = through(self.units, dropped(tape, number), mask)
            # Each sentence takes as many steps as its own source is long.
            return ops.where((number < sources)[:, None, None, None], new, tape)

        return ops.fori_loop(0, longest, step, tape), mask

    def _tape_lengths(self, sources: Any) -> Any:
        """Returns the number of cells along the tape for a number of source tokens."""
        # In integers: float32 and float64 might round to different sides.
        hundredths = sources * round(100 * self.hparams.tape_ratio)
        return (hundredths + 99) // 100 + self.hparams.tape_extra


class _Tape(NamedTuple):
    """What a hypothesis of the extended Neural GPU keeps: the whole tape."""

    cells: keras.KerasTensor  # [B, K, N, W, D]
    written: keras.KerasTensor  # [B, K, N, D], embeddings of the tokens before


@keras.saving.register_keras_serializable(package="t2t_lite")
class NeuralGPUDecoder(_NeuralGPUPart, Decoder):
    """Goes on with the encoder's tape: ids [B, T] and the tape -> [B, T, D].

    Token i is read from cell i after step i, which sees the tokens before it, on another tape.
    """

    sees_targets = True

    def call(
        self, targets: keras.KerasTensor, memory: Any, training: bool = False
    ) -> keras.KerasTensor:
        """Returns cell i of the tape's first row after step i, [B, T, D]; 0 after its end."""
        tape, mask = memory
        embedded = self.embedding(targets)  # [B, T, D]
        length = ops.shape(embedded)[1]
        dropped = step_dropout(self.dropout, tape, length, training)
        written = _fitted(embedded, ops.shape(tape)[1])
        cells, positions = ops.arange(ops.shape(tape)[1]), ops.arange(length)

        def step(
            number: keras.KerasTensor, state: tuple[keras.KerasTensor, keras.KerasTensor]
        ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
            tape, outputs = state
            before = ops.where((cells < number)[None, :, None], written, ops.zeros_like(written))
            tape = self._advance(dropped(tape, number), mask, before)
            now = (positions == number)[None, :, None]
            return tape, ops.where(now, _cell(tape[:, :, 0], number)[:, None], outputs)

        return ops.fori_loop(0, length, step, (tape, ops.zeros_like(embedded)))[1]

    def _advance(
        self, tape: keras.KerasTensor, mask: keras.KerasTensor, written: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Takes a step on a tape [B, N, W, D], whose rows all see `written` [B, N, D]."""
        rows = ops.ones((1, 1, self.hparams.tape_width, 1), written.dtype)
        return through(self.units, tape, mask, written[:, :, None] * rows)

    def start(self, memory: Any, beams: int, length: int) -> DecodeState:
        """Gives every hypothesis a tape of its own; see `Decoder.start`."""
        tape, mask = memory
        cells = ops.stack([tape] * beams, axis=1)  # [B, K, N, W, D]
        return DecodeState(mask, _Tape(cells, ops.zeros_like(cells[:, :, :, 0])))

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """See `Decoder.step`."""
        cells, written = state.hypothesis
        last = ops.arange(ops.shape(written)[2]) == step - 1  # [N]; none at step 0
        token = self.embedding(ids)[:, :, None]  # [B, K, 1, D]
        written = ops.where(last[None, None, :, None], token, written)
        batch, beams = ops.shape(ids)[0], ids.shape[1]
        flat, before = (
            ops.reshape(part, (-1, *ops.shape(part)[2:])) for part in (cells, written)
        )  # [B·K, ...]
        new = self._advance(flat, ops.repeat(state.sentence, beams, axis=0), before)
        hidden = ops.reshape(_cell(new[:, :, 0], step), (batch, beams, new.shape[-1]))
        tape = _Tape(ops.reshape(new, ops.shape(cells)), written)
        return hidden, state._replace(hypothesis=tape)


def _cell(row: keras.KerasTensor, number: keras.KerasTensor) -> keras.KerasTensor:
    """Returns cell `number` of `row` [..., N, D]; 0 after its end."""
    last = ops.shape(row)[-2] - 1
    cell = ops.take(row, ops.minimum(number, last), axis=-2)
    return ops.where(number <= last, cell, ops.zeros_like(cell))


@keras.saving.register_keras_serializable(package="t2t_lite")
class NeuralGPU(Seq2Seq):
    """T2T's Neural GPU, for algorithmic problems: token i is read from cell i of the last tape.

    There is no decoder, so that no token depends on those before it, and search just takes the
    likeliest of each. After the end of the tape, all tokens are equally likely.

    Args:
        hparams: a `NeuralGPUHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = NeuralGPUHParams
    hparams: NeuralGPUHParams

    def make_layers(self) -> None:
        """See `Seq2Seq.make_layers`."""
        self.encoder = NeuralGPUEncoder(
            self.hparams, self.inputs_embedding, seeds=self.seeds, name=f"{self.name}_encoder"
        )
        self.supports_jit = self.encoder.supports_jit

    def _make_embeddings(self) -> None:
        """Creates one or two matrices: targets are not embedded."""
        h = self.hparams
        same = self.inputs_vocab_size == self.targets_vocab_size
        share = same and h.shared_embedding_and_softmax_weights
        self.inputs_embedding = make_embedding(h, self.inputs_vocab_size)
        self.softmax_embedding = self.inputs_embedding if share else self._make_softmax_embedding()
        self.targets_embedding = self.softmax_embedding

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the first row of the last tape, [B, T, D]; 0 after its end."""
        tape, _ = self.encoder.encode(features["inputs"], training)
        return _fitted(tape[:, :, 0], ops.shape(features["targets"])[1])

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        source, source_source = self.encoder.flops_of_step()
        target = flops_per_token(self.softmax_embedding)
        return ForwardFlops(source=source, target=target, source_source=source_source)

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; a hypothesis has nothing of its own."""
        tape, _ = self.encoder.encode(inputs)
        nothing = ops.zeros((ops.shape(inputs)[0], beams, 0), tape.dtype)
        return DecodeState(tape[:, :, 0], nothing, self.output_projection.kernel())

    def decode_step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        hidden = _cell(state.sentence, step)[:, None]  # [B, 1, D]
        logits = self.output_projection(hidden, state.weights)
        beams = ops.ones((1, ids.shape[1], 1), logits.dtype)
        return logits * beams, state


@keras.saving.register_keras_serializable(package="t2t_lite")
class ExtendedNeuralGPU(EncoderDecoder):
    """A Neural GPU with a decoder: step i sees the tokens before it, on another tape.

    A hypothesis keeps the whole tape, and a step of the search is as much work as the tape is
    long.

    Args:
        hparams: a `NeuralGPUHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = NeuralGPUHParams
    hparams: NeuralGPUHParams
    encoder_class = NeuralGPUEncoder
    decoder_class = NeuralGPUDecoder

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        source, source_source = self.encoder.flops_of_step()
        target, target_source = self.decoder.flops_of_step()
        target += flops_per_token(self.softmax_embedding)
        return ForwardFlops(
            source=source,
            target=target,
            source_source=source_source,
            target_source=target_source,
        )
