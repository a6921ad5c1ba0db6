"""An LSTM encoder and decoder with attention, behind the same protocol as the Transformer."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
from keras import ops

from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.lstm import LSTMHParams
from t2t_lite.layers.attention import MASKED, AttentionHook
from t2t_lite.layers.base import Stack, default_policy
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.lstm import (
    LSTM,
    AdditiveAttention,
    LSTMCell,
    LSTMState,
    MultiplicativeAttention,
    SourceMemory,
)
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.hparams_model import require_choice
from t2t_lite.models.model_part import Encoder
from t2t_lite.models.seq2seq import (
    AttentionLayer,
    DecodeState,
    Features,
    Seq2Seq,
    shift_right,
)


class DecoderMemory(NamedTuple):
    """The state that the decoder passes to its next step."""

    layers: list[LSTMState]  # each [B, K, D]
    attended: keras.KerasTensor  # [B, K, D], the attentional output


_ATTENTION = {"bahdanau": AdditiveAttention, "luong": MultiplicativeAttention}


def _dropout(hparams: LSTMHParams, seeds: keras.random.SeedGenerator) -> Dropout:
    return Dropout(hparams.dropout, seeds)


def _encoder_layers(hparams: LSTMHParams) -> Stack:
    layers = range(hparams.num_hidden_layers)
    return Stack(LSTM(hparams.hidden_size, hparams.initializer_gain) for _ in layers)


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMEncoder(Encoder):
    """LSTM layers: ids [B, S] -> [B, S, D], with a mask that is False at padding (id 0).

    Args:
        hparams: an `LSTMHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: an `LSTMSeq2SeqAttention` whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams
    shared_names: ClassVar[tuple[str, ...]] = ("inputs_embedding", "dropout", "encoder_layers")

    def _make_layers(self) -> None:
        self.dropout = _dropout(self.hparams, self.seeds)
        self.encoder_layers = _encoder_layers(self.hparams)

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D]."""
        return self.encode(inputs, training)[0]

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, list[LSTMState]]:
        """Encodes `inputs` [B, S]; returns [B, S, D], and each layer's final state [B, D]."""
        x = self.inputs_embedding(inputs)
        present = ops.not_equal(inputs, 0)
        # Padding comes last, so no token depends on it.
        last = ops.maximum(ops.sum(ops.cast(present, "int32"), axis=1) - 1, 0)[:, None, None]
        final = []
        for layer in self.encoder_layers:
            states = layer(self.dropout(x, training=training))
            final.append(
                LSTMState(*(ops.take_along_axis(part, last, axis=1)[:, 0] for part in states))
            )
            x = states.output
        return x, final


@keras.saving.register_keras_serializable(package="t2t_lite")
class LSTMSeq2SeqAttention(Seq2Seq):
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

    hparams_class: ClassVar[type[BasicHParams]] = LSTMHParams
    hparams: LSTMHParams

    def __init__(
        self,
        hparams: LSTMHParams | str,
        inputs_vocab_size: int,
        targets_vocab_size: int,
        **kwargs: Any,
    ) -> None:
        super().__init__(hparams, inputs_vocab_size, targets_vocab_size, **kwargs)
        h = self.hparams
        require_choice(h, "attention_mechanism", *_ATTENTION)
        # TensorFlow's XLA cannot differentiate a loop of unknown length.
        self.supports_jit = keras.backend.backend() != "tensorflow"
        d, gain = h.hidden_size, h.initializer_gain
        with default_policy(self.dtype_policy):
            self.dropout = _dropout(h, self.seeds)
            self.encoder_layers = _encoder_layers(h)
            self.decoder_cells = Stack(
                LSTMCell(d if i else 2 * d, d, gain) for i in range(h.num_hidden_layers)
            )
            self.attention = _ATTENTION[h.attention_mechanism](d, gain)

    @functools.cached_property
    def encoder(self) -> LSTMEncoder:
        """The encoder as a model, ids [B, S] -> [B, S, D], sharing this model's layers."""
        return self._encoder_view

    # A subclass may give `encoder` another meaning.
    @functools.cached_property
    def _encoder_view(self) -> LSTMEncoder:
        return LSTMEncoder(
            self.hparams, self.inputs_embedding, layers_of=self, name=f"{self.name}_encoder"
        )

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[SourceMemory, list[LSTMState]]:
        """Encodes `inputs` [B, S]; returns what to attend to, and each layer's state [B, D]."""
        x, final = self._encoder_view.encode(inputs, training)
        bias = ops.where(ops.not_equal(inputs, 0), 0.0, MASKED)[:, None]  # [B, 1, S]
        return SourceMemory(x, self.attention.key(x), bias), final

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the attentional output [B, T, D]."""
        # Training takes the steps of a search with one beam and known tokens.
        source, memory = self._start(features["inputs"], 1, training)
        x = shift_right(self.targets_embedding(features["targets"]))
        x = ops.swapaxes(self.dropout(x, training=training), 0, 1)[:, None, :, None]
        # Masks are drawn before the loop, because a compiled loop would not advance the seeds.
        length, _, batch, _, channels = ops.shape(x)
        masks = ops.ones((length, len(self.decoder_cells), batch, 1, channels), x.dtype)
        masks = self.dropout(masks, training=training)
        # One tensor [T, 1 + layers, B, 1, D]: `scan` takes only one tensor of unknown length.
        steps = ops.concatenate([x, masks], axis=1)

        def step(
            memory: DecoderMemory, now: keras.KerasTensor
        ) -> tuple[DecoderMemory, DecoderMemory]:
            x, *masks = ops.unstack(now, len(self.decoder_cells) + 1)
            memory = self._step(x, memory, source, masks)
            return memory, memory

        _, memories = ops.scan(step, memory, steps)
        self.attention.call_hook(ops.swapaxes(memories.layers[-1].output[:, :, 0], 0, 1), source)
        return ops.swapaxes(memories.attended[:, :, 0], 0, 1)  # [T, B, 1, D] -> [B, T, D]

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        query = sum(map(flops_per_token, self.attention.query_layers()))
        return ForwardFlops(
            source=flops_per_token(self.encoder_layers) + flops_per_token(self.attention.key),
            target=flops_per_token(self.decoder_cells)
            + query
            + flops_per_token(self.softmax_embedding),
            target_source=self.attention.flops_per_pair(),
        )

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the attention to the source; see `Seq2Seq.hook_attention`."""
        self.attention.attention_hook = lambda weights: hook(weights[:, 0])
        try:
            yield
        finally:
            self.attention.attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[AttentionLayer]]:
        """Returns the only attention layer, which has one head."""
        return {"encoder_decoder": [self.attention]}

    def start_decoding(self, inputs: keras.KerasTensor, beams: int, length: int) -> DecodeState:
        """Encodes `inputs` [B, S]; the size of the state does not depend on `length`."""
        return DecodeState(
            *self._start(inputs, beams, training=False), self.output_projection.kernel()
        )

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Returns `state`, whose size does not depend on the length."""
        return state

    def decode_step(
        self,
        ids: keras.KerasTensor,
        step: keras.KerasTensor,
        state: DecodeState,
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Seq2Seq.decode_step`."""
        x = self._embed_step(ids, step)
        no_masks = [1.0] * len(self.decoder_cells)
        memory = self._step(x, state.hypothesis, state.sentence, no_masks)
        self.attention.call_hook(memory.layers[-1].output, state.sentence)
        return self.output_projection(memory.attended, state.weights), state._replace(
            hypothesis=memory
        )

    def _start(
        self, inputs: keras.KerasTensor, beams: int, training: bool
    ) -> tuple[SourceMemory, DecoderMemory]:
        source, final = self.encode(inputs, training)
        layers = keras.tree.map_structure(
            lambda state: ops.repeat(state[:, None], beams, axis=1),
            final,  # [B, K, D]
        )
        return source, DecoderMemory(layers, ops.zeros_like(layers[-1].output))

    def _step(
        self,
        x: keras.KerasTensor,
        memory: DecoderMemory,
        source: SourceMemory,
        masks: list[Any],
    ) -> DecoderMemory:
        """Processes one position of every hypothesis.

        Args:
            x: [B, K, D], embeddings.
            memory: the state after the previous step.
            source: what to attend to.
            masks: dropout factors for each layer's other inputs, which broadcast to [B, K, D].
        """
        layers: list[LSTMState] = []
        fed = memory.attended
        for cell, state, mask in zip(self.decoder_cells, memory.layers, masks, strict=True):
            fed = fed * mask
            below = fed if layers else ops.concatenate([x, fed], axis=-1)
            layers.append(cell(below, state))
            fed = layers[-1].output
        return DecoderMemory(layers, self.attention(fed, source))
