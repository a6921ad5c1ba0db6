"""The Transformer (Vaswani et al. 2017), in its post-norm and pre-norm forms."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite import registry
from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import (
    AttentionHook,
    EncoderDecoderAttention,
    MultiHeadAttention,
    SelfAttention,
    future_bias,
    mask_bias,
    padding_bias,
)
from t2t_lite.layers.base import Dropout, Stack
from t2t_lite.layers.dense import Embedding, FeedForward, OutputProjection
from t2t_lite.layers.transformer_layers import (
    DecoderLayer,
    EncoderLayer,
    LayerSteps,
    Position,
)
from t2t_lite.models.hparams_model import Decoder, DecodeState, Encoder, ModelPart
from t2t_lite.models.prepended import MayPrepend
from t2t_lite.models.seq2seq import Features, shift_right
from t2t_lite.text.sample import ALIGNMENT

# Rows of T2T's target-space embedding, and the row that it uses for translation.
_TARGET_SPACES, _TARGET_SPACE_ID = 32, 0


class TransformerPart(ModelPart):
    """Base of encoder and decoder: positions, a stack of layers, and an end."""

    hparams_class: ClassVar[type[BasicHParams]] = TransformerHParams
    hparams: TransformerHParams
    stack: Stack

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        h = self.hparams
        offset = h.position_offset if h.pos.startswith("timing") else 0
        self.position = Position(h.pos, h.hidden_size, h.max_length, offset)
        self.dropout = Dropout(h.layer_prepostprocess_dropout, self.seeds)
        self.stack = self._make_stack()
        # By default, a normalisation for pre-norm; post-norm layers include it.
        self.end = LayerSteps(
            h.final_sequence,
            h.hidden_size,
            h.layer_prepostprocess_dropout,
            h.norm_epsilon,
            self.seeds,
        )

    def _make_stack(self) -> Stack:
        raise NotImplementedError

    def _layer_arguments(self) -> dict[str, Any]:
        """Returns what all layers take."""
        h = self.hparams
        return {
            "before": h.layer_preprocess_sequence,
            "after": h.layer_postprocess_sequence,
            "dropout_rate": h.layer_prepostprocess_dropout,
            "epsilon": h.norm_epsilon,
            "seeds": self.seeds,
        }

    def _attention_arguments(self) -> dict[str, Any]:
        """Returns what all attention takes."""
        h = self.hparams
        return {
            "key_channels": h.key_channels,
            "value_channels": h.value_channels,
            "dropout_rate": h.attention_dropout,
            "gain": h.initializer_gain,
            "use_bias": h.attention_bias,
            "seeds": self.seeds,
        }

    def _self_attention(self, heads: int = 0) -> SelfAttention:
        h = self.hparams
        heads = heads or h.num_heads
        sizes = {**self._attention_arguments(), "neighborhood": h.attention_neighborhood}
        if h.self_attention_type == "dot_product":
            return SelfAttention(h.hidden_size, heads, **sizes)
        return registry.variant(f"self_attention_type={h.self_attention_type}")(h, heads, **sizes)

    def _source_attention(self, is_last: bool = False) -> EncoderDecoderAttention:
        h, arguments = self.hparams, self._attention_arguments()
        if is_last and h.is_guided:
            return registry.variant("guided_alignment_weight")(h, **arguments)
        return EncoderDecoderAttention(h.hidden_size, h.num_heads, **arguments)

    def _feed_forward(self) -> keras.layers.Layer:
        h = self.hparams
        if h.ffn_layer == "dense_relu_dense":
            return FeedForward(
                h.hidden_size,
                h.filter_size,
                h.relu_dropout,
                h.initializer_gain,
                self.seeds,
                h.ffn_activation,
            )
        if h.ffn_activation != "relu":
            raise UsageError(
                f"hparam ffn_activation={h.ffn_activation}: ffn_layer={h.ffn_layer} has none; set "
                "ffn_activation=relu"
            )
        return registry.variant(f"ffn_layer={h.ffn_layer}")(h, self.seeds)

    def _run(
        self, layer: keras.layers.Layer, training: bool, mask: keras.KerasTensor
    ) -> Callable[..., keras.KerasTensor]:
        """Returns a function from the layer's input tensors to its output.

        Args:
            layer: of the stack.
            training: whether dropout is on.
            mask: [B, L], False at padding.
        """
        run = functools.partial(layer, training=training, **layer.mask_arguments(mask))
        recompute = training and self.hparams.recompute_activations
        return registry.variant("recompute_activations")(run, self.seeds) if recompute else run


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerEncoder(TransformerPart, Encoder):
    """The encoder: ids [B, S] -> [B, S, D], with a Keras mask that is False at padding (id 0).

    Examples:
        >>> encoder = TransformerEncoder("transformer_base", 32000, num_hidden_layers=3)
        >>> ids = keras.Input((None,), dtype="int32")
        >>> mean = keras.layers.GlobalAveragePooling1D()(encoder(ids))  # padding is ignored
        >>> classifier = keras.Model(ids, keras.layers.Dense(2)(mean))

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        super().make_layers()
        self.target_space = None
        if self.hparams.use_target_space_embedding:
            shape = (_TARGET_SPACES, self.hparams.hidden_size)
            self.target_space = self.add_weight(shape, "glorot_uniform", name="target_space")

    def _make_stack(self) -> Stack:
        kind = registry.variant(f"encoder_layer={self.hparams.ffn_layer}", EncoderLayer)
        return Stack(
            kind(self._self_attention(), self._feed_forward(), **self._layer_arguments())
            for _ in range(self.hparams.encoder_layers)
        )

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns [B, S, D] and the padding bias [B, 1, 1, S]."""
        padding = padding_bias(inputs)
        x = self.embedding(inputs)
        if self.target_space is not None:
            x = x + ops.cast(self.target_space[_TARGET_SPACE_ID], x.dtype)
        x = self.position(x, ops.arange(ops.shape(inputs)[1]))
        x = self.dropout(x, training=training)
        x = self._run_layers(x, padding, self.compute_mask(inputs), training)
        return self.end(x, x, training=training), padding

    def _run_layers(
        self,
        x: keras.KerasTensor,
        padding: keras.KerasTensor,
        mask: keras.KerasTensor,
        training: bool,
    ) -> keras.KerasTensor:
        """Maps the embeddings `x` [B, S, D] to the output of the last layer [B, S, D].

        Args:
            x: the embeddings.
            padding: [B, 1, 1, S], hides padding.
            mask: [B, S], False at padding.
            training: whether dropout is on.
        """
        for layer in self.stack:
            x = self._run(layer, training, mask)(x, padding)
        return x


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerDecoder(TransformerPart, Decoder):
    """The decoder: ids [B, T] and the encoder's output [B, S, D] -> [B, T, D].

    Position t depends only on targets before t; the decoder shifts them right.

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        has_inputs: whether there is a source; the decoder of a language model has none.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    def __init__(
        self,
        hparams: BasicHParams | str,
        embedding: int | Embedding,
        *,
        has_inputs: bool = True,
        **kwargs: Any,
    ) -> None:
        self.has_inputs = has_inputs  # before the layers, which depend on it
        super().__init__(hparams, embedding, **kwargs)

    def make_layers(self) -> None:
        """See `ModelPart.make_layers`."""
        for name in ("suppressed_ids", "end_ids"):
            for id_ in self.hparams.ids_in(name):
                self.require_known(id_, name)
        self.require_known(self.hparams.start_id, "start_id")
        super().make_layers()

    def _make_stack(self) -> Stack:
        kind = registry.variant(f"decoder_layer={self.hparams.ffn_layer}", DecoderLayer)
        count = self.hparams.decoder_layers
        return Stack(
            kind(
                self._own_layer(),
                self._source_attention(layer == count) if self.has_inputs else None,
                self._feed_forward(),
                **self._layer_arguments(),
            )
            for layer in range(1, count + 1)
        )

    def _own_layer(self) -> keras.layers.Layer:
        """Returns the layer with which a position reads those before it."""
        h = self.hparams
        if h.decoder_self == "attention":
            return self._self_attention()
        return registry.variant(f"decoder_self={h.decoder_self}")(h)

    def call(
        self,
        targets: keras.KerasTensor,
        memory: Any = None,
        training: bool = False,
        memory_mask: Any = None,
    ) -> keras.KerasTensor:
        """Maps `targets` [B, T] to [B, T, D].

        Args:
            targets: ids, not shifted.
            memory: the encoder's output [B, S, D], or the result of its `encode`; None for a
                language model.
            training: whether dropout is on.
            memory_mask: [B, S], False at padding; Keras passes the mask of the encoder's output.

        Raises:
            UsageError: `memory` is missing.
        """
        if memory is None and self.has_inputs:
            raise UsageError(f"{type(self).__name__} needs the encoder's output [B, S, D]")
        encoded = isinstance(memory, tuple)
        encoder_output, padding = memory if encoded else (memory, mask_bias(memory_mask))
        length = ops.shape(targets)[1]
        start_id = self.hparams.start_id
        start = self.embedding(ops.full((1,), start_id))[0] if start_id else None
        x = self.position(shift_right(self.embedding(targets), start), ops.arange(length))
        x = self.dropout(x, training=training)
        mask = ops.not_equal(targets, 0)
        hiding = registry.variant(f"prepend_mode={self.hparams.prepend_mode}", future_bias)
        x = self._run_layers(x, encoder_output, hiding(targets), padding, mask, training)
        return self.end(x, x, training=training)

    def _run_layers(
        self,
        x: keras.KerasTensor,
        encoder_output: keras.KerasTensor,
        causal: keras.KerasTensor,
        padding: keras.KerasTensor,
        mask: keras.KerasTensor,
        training: bool,
    ) -> keras.KerasTensor:
        """Maps the embeddings `x` [B, T, D] to the output of the last layer [B, T, D].

        Args:
            x: the embeddings of the targets, shifted.
            encoder_output: [B, S, D].
            causal: [1, 1, T, T] or [B, 1, T, T], hides the future.
            padding: [B, 1, 1, S], hides the source's padding.
            mask: [B, T], False at the target's padding.
            training: whether dropout is on.
        """
        for layer in self.stack:
            x = self._run(layer, training, mask)(x, encoder_output, causal, padding)
        return x

    def start(self, memory: Any, beams: int, length: int) -> DecodeState:
        """Computes keys and values of the source once; see `Decoder.start`."""
        encoder_output, padding = memory
        batch = ops.shape(encoder_output)[0]
        return DecodeState(
            sentence={
                "memory": [layer.memory(encoder_output) for layer in self.stack],
                "padding": padding,
            },
            hypothesis=[layer.empty_cache(batch, beams, length) for layer in self.stack],
        )

    def grow(self, state: DecodeState, length: int) -> DecodeState:
        """Lengthens every cache to `length` positions."""
        return state._replace(hypothesis=[cache.grown(length) for cache in state.hypothesis])

    def step(
        self, ids: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, DecodeState]:
        """Takes one step of every hypothesis; see `Decoder.step`."""
        # All beams [B, K, D] of a sentence are at the same position.
        embedded = self.embedding.step(ids, step, self.hparams.start_id)
        x = self.position(embedded, ops.reshape(step, (1,)))
        x, caches = self._step_layers(x, step, state)
        return self.end(x, x), state._replace(hypothesis=caches)

    def _step_layers(
        self, x: keras.KerasTensor, step: keras.KerasTensor, state: DecodeState
    ) -> tuple[keras.KerasTensor, list[Any]]:
        """Runs one position `x` [B, K, D] through all layers; returns it and their caches."""
        padding = state.sentence["padding"]
        caches = []
        for layer, cache, memory in zip(
            self.stack, state.hypothesis, state.sentence["memory"], strict=True
        ):
            x, cache = layer.step(x, cache, step, memory, padding)
            caches.append(cache)
        return x, caches

    def input_signature(self) -> list[Any]:
        """Returns the specs of the arguments that `export` lets its callers pass."""
        memory = keras.InputSpec(
            shape=(None, None, self.hparams.hidden_size), dtype=self.compute_dtype
        )
        return [*super().input_signature(), memory][: 1 + self.has_inputs]

    def get_config(self) -> dict[str, Any]:
        """Returns what `from_config` needs."""
        return {**super().get_config(), "has_inputs": self.has_inputs}


@keras.saving.register_keras_serializable(package="t2t_lite")
class Transformer(MayPrepend):
    """Encoder and decoder stacks of attention and feed-forward layers.

    Without a source it is a language model, as in T2T: the decoder alone, whose layers have no
    attention to a source. `inputs` are then [B, 0].

    With the hparam `prepend_mode`, the decoder reads the source, too, before the target:
    `models/prepended.py`. `hidden` takes such joined targets, a call takes sources and targets.

    Examples:
        >>> model = Transformer(
        ...     "transformer_base",
        ...     inputs_vocab_size=32000,
        ...     targets_vocab_size=32000,
        ...     num_hidden_layers=3,
        ... )
        >>> logits = model({"inputs": inputs, "targets": targets})  # [B, T, V]

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source; 0: a language model.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    hparams_class: ClassVar[type[BasicHParams]] = TransformerHParams
    hparams: TransformerHParams
    encoder_class: ClassVar[type[Encoder]] = TransformerEncoder
    decoder_class: ClassVar[type[Decoder]] = TransformerDecoder
    encoder: TransformerEncoder
    decoder: TransformerDecoder
    can_lack_inputs: ClassVar[bool] = True

    def make_layers(self) -> None:
        """Creates encoder and decoder; refuses to align without attention to the source."""
        super().make_layers()
        if self.hparams.is_guided:
            registry.variant("require_guide")(self)

    def hidden(self, features: Features, training: bool = False) -> keras.KerasTensor:
        """Returns the decoder's output [B, T, D]; in training, `alignment` [B, T] guides it."""
        if not training or ALIGNMENT not in features:
            return super().hidden(features, training=training)
        with self.decoder.stack[-1].source_attention.guided_by(features[ALIGNMENT]):
            return super().hidden(features, training=training)

    def _decoder_arguments(self) -> dict[str, Any]:
        return {"has_inputs": self.has_inputs}

    def _make_softmax_embedding(self) -> Embedding:
        if self.hparams.shared_target_and_softmax_weights:
            return self.targets_embedding
        return super()._make_softmax_embedding()

    def _make_output_projection(self) -> OutputProjection:
        h = self.hparams
        return OutputProjection(self.softmax_embedding, h.softmax_bias, h.softmax_padding)

    @property
    def never_output(self) -> tuple[int, ...]:
        """See `Seq2Seq.never_output`."""
        return self.hparams.never_output

    @property
    def other_ends(self) -> tuple[int, ...]:
        """See `Seq2Seq.other_ends`."""
        return self.hparams.other_ends

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns [B, S, D] and the padding bias [B, 1, 1, S]."""
        if self.has_inputs:
            return self.encoder.encode(inputs, training)
        nothing = ops.zeros((*ops.shape(inputs), self.hparams.hidden_size), self.compute_dtype)
        return nothing, padding_bias(inputs)

    def forward_flops(self) -> Any:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        return registry.variant("forward_flops")(self)

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the last layer's attention to the source; see `Seq2Seq.hook_attention`.

        With the hparam `guided_alignment_weight`, it is that of the first head, which aligns.
        """
        self._require_source()
        attention = self.decoder.stack[-1].source_attention
        attention.attention_hook = lambda weights: hook(attention.alignment(weights))
        try:
            yield
        finally:
            attention.attention_hook = None

    def attention_layers(self) -> Mapping[str, Sequence[MultiHeadAttention]]:
        """Returns the attention of all layers; see `Seq2Seq.attention_layers`."""
        encoder = self.encoder.stack if self.has_inputs else ()
        decoder = self.decoder.stack
        kinds = {
            "encoder": [attention for layer in encoder for attention in layer.self_attentions],
            "decoder": [attention for layer in decoder for attention in layer.self_attentions],
            "encoder_decoder": [
                attention for layer in decoder for attention in layer.source_attentions
            ],
        }
        return {kind: layers for kind, layers in kinds.items() if layers}
