"""The Transformer's encoder and decoder as Keras models, and the factory of their sub-layers."""

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import (
    EncoderDecoderAttention,
    ParameterAttention,
    SelfAttention,
    causal_bias,
    mask_bias,
    padding_bias,
)
from t2t_lite.layers.base import Stack
from t2t_lite.layers.dropout import Dropout
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts
from t2t_lite.layers.position import Position
from t2t_lite.layers.recomputation import recomputed
from t2t_lite.layers.relative_attention import RelativeSelfAttention
from t2t_lite.layers.residual import LayerSteps
from t2t_lite.layers.transformer_layers import DecoderLayer, EncoderLayer
from t2t_lite.models.hparams_model import HParamsModel, make_mixture, require_choice
from t2t_lite.models.model_part import Encoder, ModelPart
from t2t_lite.models.seq2seq import shift_right

# Rows of T2T's target-space embedding, and the row that it uses for translation.
_TARGET_SPACES, _TARGET_SPACE_ID = 32, 0


class SublayerFactory:
    """Makes the sub-layers of a model or of a part, from its hparams and its seed generator.

    Args:
        owner: the model or part.
    """

    def __init__(self, owner: HParamsModel) -> None:
        hparams, seeds = owner.hparams, owner.seeds
        assert isinstance(hparams, TransformerHParams)
        self.owner = owner
        self.hparams = hparams
        self.seeds = seeds
        self._attention: dict[str, Any] = {
            "key_channels": hparams.key_channels,
            "value_channels": hparams.value_channels,
            "dropout_rate": hparams.attention_dropout,
            "gain": hparams.initializer_gain,
            "seeds": seeds,
        }
        self._layer: dict[str, Any] = {
            "before": hparams.layer_preprocess_sequence,
            "after": hparams.layer_postprocess_sequence,
            "dropout_rate": hparams.layer_prepostprocess_dropout,
            "epsilon": hparams.norm_epsilon,
            "seeds": seeds,
        }

    def position(self) -> Position:
        """Makes the layer that adds positions to embeddings."""
        return Position(self.hparams.pos, self.hparams.hidden_size, self.hparams.max_length)

    def dropout(self) -> Dropout:
        """Makes the dropout of embeddings."""
        return Dropout(self.hparams.layer_prepostprocess_dropout, self.seeds)

    def encoder_layers(self) -> Stack:
        """Makes the encoder's layers."""
        return Stack(
            EncoderLayer(self._self_attention(), self._feed_forward(), **self._layer)
            for _ in range(self.hparams.encoder_layers)
        )

    def decoder_layers(self) -> Stack:
        """Makes the decoder's layers."""
        return Stack(
            DecoderLayer(
                self._self_attention(),
                self._source_attention() if self.owner.has_inputs else None,
                self._feed_forward(),
                **self._layer,
            )
            for _ in range(self.hparams.decoder_layers)
        )

    def end(self) -> LayerSteps:
        """Makes the end of a stack: a normalisation for pre-norm; post-norm layers include it."""
        h = self.hparams
        return LayerSteps(
            h.layer_preprocess_sequence,
            h.hidden_size,
            h.layer_prepostprocess_dropout,
            h.norm_epsilon,
            self.seeds,
        )

    def target_space(self) -> keras.Variable | None:
        """Adds a weight to the owner for all the encoder's inputs, if the hparams ask for it."""
        if not self.hparams.use_target_space_embedding:
            return None
        return self.owner.add_weight(
            shape=(_TARGET_SPACES, self.hparams.hidden_size),
            initializer="glorot_uniform",
            name="target_space",
        )

    def _self_attention(self, heads: int | None = None) -> SelfAttention:
        h = self.hparams
        heads = h.num_heads if heads is None else heads
        sizes: dict[str, Any] = {**self._attention, "neighborhood": h.attention_neighborhood}
        if h.self_attention_type == "dot_product":
            return SelfAttention(h.hidden_size, heads, **sizes)
        if h.self_attention_type == "dot_product_relative":
            return RelativeSelfAttention(h.hidden_size, heads, h.max_relative_position, **sizes)
        raise UsageError(
            f"hparam self_attention_type={h.self_attention_type!r}: expected dot_product or "
            "dot_product_relative"
        )

    def _source_attention(self) -> EncoderDecoderAttention:
        h = self.hparams
        return EncoderDecoderAttention(h.hidden_size, h.num_heads, **self._attention)

    def _feed_forward(self) -> FeedForward | ParameterAttention | MixtureOfExperts:
        h = self.hparams
        require_choice(h, "ffn_layer", "dense_relu_dense", "parameter_attention", "local_moe")
        if h.ffn_layer == "dense_relu_dense":
            return FeedForward(
                h.hidden_size, h.filter_size, h.relu_dropout, h.initializer_gain, self.seeds
            )
        if h.ffn_layer == "local_moe":
            return make_mixture(h, h.hidden_size, h.relu_dropout, self.seeds)
        sizes: dict[str, Any] = {
            **self._attention,
            "key_channels": h.parameter_attention_key_channels or h.hidden_size,
            "value_channels": h.parameter_attention_value_channels or h.hidden_size,
        }
        heads = h.parameter_attention_heads or h.num_heads
        return ParameterAttention(h.hidden_size, heads, h.filter_size, **sizes)


class _TransformerPart(ModelPart):
    """Base of encoder and decoder."""

    hparams_class: ClassVar[type[BasicHParams]] = TransformerHParams
    hparams: TransformerHParams
    sublayers: ClassVar[type[SublayerFactory]] = SublayerFactory

    def _run(
        self, layer: keras.layers.Layer, training: bool, **mask: keras.KerasTensor
    ) -> Callable[..., keras.KerasTensor]:
        """Returns a function from the layer's input tensors to its output.

        Args:
            layer: of the encoder or decoder.
            training: whether dropout is on.
            **mask: [B, L], False at padding, by the name of the layer's argument for it.
        """
        run = functools.partial(layer, training=training, **mask)
        recompute = training and self.hparams.recompute_activations
        return recomputed(run, self.seeds) if recompute else run


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerEncoder(_TransformerPart, Encoder):
    """The encoder: ids [B, S] -> [B, S, D], with a Keras mask that is False at padding (id 0).

    Examples:
        >>> encoder = TransformerEncoder("transformer_base", 32000, num_hidden_layers=3)
        >>> ids = keras.Input((None,), dtype="int32")
        >>> mean = keras.layers.GlobalAveragePooling1D()(encoder(ids))  # padding is ignored
        >>> classifier = keras.Model(ids, keras.layers.Dense(2)(mean))

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: a Transformer whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    shared_names: ClassVar[tuple[str, ...]] = (
        "inputs_embedding",
        "inputs_position",
        "dropout",
        "encoder_layers",
        "encoder_end",
        "target_space",
    )

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        make = cls.sublayers(owner)
        owner.inputs_position = make.position()
        owner.dropout = make.dropout()
        owner.encoder_layers = make.encoder_layers()
        owner.encoder_end = make.end()
        owner.target_space = make.target_space()

    def call(self, inputs: keras.KerasTensor, training: bool = False) -> keras.KerasTensor:
        """Encodes `inputs` [B, S]; returns [B, S, D]."""
        return self.encode(inputs, training)[0]

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns [B, S, D] and the padding bias [B, 1, 1, S]."""
        padding = padding_bias(inputs)
        x = self.inputs_embedding(inputs)
        if self.target_space is not None:
            x = x + ops.cast(self.target_space[_TARGET_SPACE_ID], x.dtype)
        x = self.inputs_position(x, ops.arange(ops.shape(inputs)[1]))
        x = self.dropout(x, training=training)
        x = self._run_layers(x, padding, self.compute_mask(inputs), training)
        return self.encoder_end(x, x, training=training), padding

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
        for layer in self.encoder_layers:
            x = self._run(layer, training, mask=mask)(x, padding)
        return x


@keras.saving.register_keras_serializable(package="t2t_lite")
class TransformerDecoder(_TransformerPart):
    """The decoder: ids [B, T] and the encoder's output [B, S, D] -> [B, T, D].

    Position t depends only on targets before t; the decoder shifts them right.

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        embedding: V, or a layer to share.
        layers_of: a Transformer whose layers it shares (default: new layers).
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    shared_names: ClassVar[tuple[str, ...]] = (
        "targets_embedding",
        "targets_position",
        "dropout",
        "decoder_layers",
        "decoder_end",
    )

    @classmethod
    def add_layers(cls, owner: HParamsModel) -> None:
        """See `ModelPart.add_layers`."""
        make = cls.sublayers(owner)
        owner.targets_position = make.position()
        owner.dropout = make.dropout()
        owner.decoder_layers = make.decoder_layers()
        owner.decoder_end = make.end()

    def call(
        self,
        targets: keras.KerasTensor,
        encoder_output: keras.KerasTensor | None = None,
        training: bool = False,
        encoder_output_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `targets` [B, T] to [B, T, D].

        Args:
            targets: ids, not shifted.
            encoder_output: [B, S, D]; None for a language model.
            training: whether dropout is on.
            encoder_output_mask: [B, S], False at padding; Keras passes the mask of the
                encoder's output.

        Raises:
            UsageError: `encoder_output` is missing.
        """
        if encoder_output is None and self.has_inputs:
            raise UsageError(f"{type(self).__name__} needs the encoder's output [B, S, D]")
        return self.decode(targets, encoder_output, mask_bias(encoder_output_mask), training)

    def input_signature(self) -> list[Any]:
        """Returns the specs of the arguments that `export` lets its callers pass."""
        memory = keras.InputSpec(
            shape=(None, None, self.hparams.hidden_size), dtype=self.compute_dtype
        )
        return [*super().input_signature(), memory][: 1 + self.has_inputs]

    def decode(
        self,
        targets: keras.KerasTensor,
        encoder_output: keras.KerasTensor | None,
        padding: keras.KerasTensor,
        training: bool = False,
    ) -> keras.KerasTensor:
        """Maps `targets` [B, T] to [B, T, D], given the results of `TransformerEncoder.encode`."""
        length = ops.shape(targets)[1]
        x = shift_right(self.targets_embedding(targets))
        x = self.targets_position(x, ops.arange(length))
        x = self.dropout(x, training=training)
        mask = ops.not_equal(targets, 0)
        x = self._run_layers(x, encoder_output, causal_bias(length), padding, mask, training)
        return self.decoder_end(x, x, training=training)

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
            causal: [1, 1, T, T], hides the future.
            padding: [B, 1, 1, S], hides the source's padding.
            mask: [B, T], False at the target's padding.
            training: whether dropout is on.
        """
        for layer in self.decoder_layers:
            x = self._run(layer, training, x_mask=mask)(x, encoder_output, causal, padding)
        return x
