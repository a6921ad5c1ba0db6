"""The Transformer (Vaswani et al. 2017), in its post-norm and pre-norm forms."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.basic import BasicHParams
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import AttentionHook, MultiHeadAttention, padding_bias
from t2t_lite.models.encoder_decoder import Decoder, Encoder
from t2t_lite.models.flops import ForwardFlops, flops_per_token
from t2t_lite.models.prepended import MayPrepend
from t2t_lite.models.transformer_parts import TransformerDecoder, TransformerEncoder


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

    def _decoder_arguments(self) -> dict[str, Any]:
        return {"has_inputs": self.has_inputs}

    def encode(
        self, inputs: keras.KerasTensor, training: bool = False
    ) -> tuple[keras.KerasTensor, keras.KerasTensor]:
        """Encodes `inputs` [B, S]; returns [B, S, D] and the padding bias [B, 1, 1, S]."""
        if self.has_inputs:
            return self.encoder.encode(inputs, training)
        nothing = ops.zeros((*ops.shape(inputs), self.hparams.hidden_size), self.compute_dtype)
        return nothing, padding_bias(inputs)

    def forward_flops(self) -> ForwardFlops:
        """Counts the operations of a forward pass; see `Seq2Seq.forward_flops`."""
        layers = self.attention_layers()
        own, of_target, of_source = (
            layers.get(kind, ()) for kind in ("encoder", "decoder", "encoder_decoder")
        )
        # The decoder's layers compute keys and values of the source, but per source token.
        memory = sum(flops_per_token(attention.kv) for attention in of_source)
        softmax = flops_per_token(self.softmax_embedding)
        return ForwardFlops(
            source=(flops_per_token(self.encoder.stack) if self.has_inputs else 0.0) + memory,
            target=flops_per_token(self.decoder.stack) - memory + softmax,
            source_source=sum(attention.flops_per_pair() for attention in own),
            target_source=sum(attention.flops_per_pair() for attention in of_source),
            target_target=sum(attention.flops_per_pair() for attention in of_target),
        )

    @contextlib.contextmanager
    def hook_attention(self, hook: AttentionHook) -> Iterator[None]:
        """Hooks the last layer's attention to the source; see `Seq2Seq.hook_attention`."""
        if not self.has_inputs:
            raise UsageError("a language model has no source to attend to")
        if self.hparams.prepends_inputs:
            raise UsageError(
                f"hparam prepend_mode={self.hparams.prepend_mode}: the attention to the source is "
                "not available, since the decoder reads the source, too"
            )
        attention = self.decoder.stack[-1].source_attention
        attention.attention_hook = lambda weights: hook(
            ops.mean(ops.cast(weights, "float32"), axis=1)
        )
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
