"""The Evolved Transformer (So et al. 2019)."""

from typing import Any, ClassVar

import keras

from t2t_lite.layers.base import Stack
from t2t_lite.layers.evolved import EvolvedDecoderLayer, EvolvedEncoderLayer, EvolvedFeedForward
from t2t_lite.layers.feed_forward import FeedForward
from t2t_lite.models.encoder_decoder import Decoder, Encoder
from t2t_lite.models.transformer import Transformer
from t2t_lite.models.transformer_parts import (
    TransformerDecoder,
    TransformerEncoder,
    TransformerPart,
)

# Heads of the decoder's first self-attention: twice as many as elsewhere, up to this number.
_MAX_HEADS = 16


def _evolved(part: TransformerPart) -> dict[str, Any]:
    """Returns what all layers of encoder and decoder take."""
    return {**part._layer_arguments(), "gain": part.hparams.initializer_gain}


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedEncoder(TransformerEncoder):
    """The encoder: ids [B, S] -> [B, S, D]; see `TransformerEncoder`."""

    def _make_stack(self) -> Stack:
        h = self.hparams
        sizes = (h.hidden_size, 4 * h.hidden_size, h.layer_prepostprocess_dropout)
        return Stack(
            EvolvedEncoderLayer(
                self._self_attention(),
                FeedForward(*sizes, h.initializer_gain, self.seeds),
                **_evolved(self),
            )
            for _ in range(h.encoder_layers)
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedDecoder(TransformerDecoder):
    """The decoder: ids [B, T] and the encoder's output -> [B, T, D]; see `TransformerDecoder`."""

    def _make_stack(self) -> Stack:
        h = self.hparams
        heads = max(min(2 * h.num_heads, _MAX_HEADS), h.num_heads)
        return Stack(
            EvolvedDecoderLayer(
                self._self_attention(),
                self._source_attention(),
                self._evolved_feed_forward(),
                wide_attention=self._self_attention(heads),
                first_source_attention=self._source_attention(),
                **_evolved(self),
            )
            for _ in range(h.decoder_layers)
        )

    def _evolved_feed_forward(self) -> EvolvedFeedForward:
        h = self.hparams
        return EvolvedFeedForward(
            h.hidden_size,
            4 * h.hidden_size,
            before=h.layer_preprocess_sequence,
            dropout_rate=h.layer_prepostprocess_dropout,
            epsilon=h.norm_epsilon,
            gain=h.initializer_gain,
            seeds=self.seeds,
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class EvolvedTransformer(Transformer):
    """A Transformer whose layers an architecture search found; they have convolutions, too.

    It takes the Transformer's hparams. As in T2T, `filter_size`, `ffn_layer` and `relu_dropout`
    play no part: feed-forward layers have four times the features, and dropout of their own.

    Args:
        hparams: a `TransformerHParams`, or the name of a registered set.
        inputs_vocab_size: V of the source.
        targets_vocab_size: V of the target.
        **kwargs: hparams to change; `name` and `trainable` go to Keras.
    """

    encoder_class: ClassVar[type[Encoder]] = EvolvedEncoder
    decoder_class: ClassVar[type[Decoder]] = EvolvedDecoder
    can_lack_inputs: ClassVar[bool] = False
