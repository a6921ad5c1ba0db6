"""The Transformer's layers with a mixture of experts in place of the feed-forward network.

A mixture sends padding to no expert, and its losses count real tokens alone, so that these layers
pass it masks.
"""

from typing import Any

import keras
from keras import ops

from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import KeysValues
from t2t_lite.layers.mixture_of_experts import MixtureOfExperts, make_mixture
from t2t_lite.layers.transformer_layers import DecoderLayer, EncoderLayer, TransformerLayer


def of_hparams(hparams: TransformerHParams, seeds: keras.random.SeedGenerator) -> MixtureOfExperts:
    """Creates the mixture according to the hparams."""
    return make_mixture(hparams, hparams.hidden_size, hparams.relu_dropout, seeds)


class _ExpertLayer(TransformerLayer):
    """Base of both: passes masks [B, L] to the mixture, see `MixtureOfExperts.call`."""

    def _mixed(
        self, x: keras.KerasTensor, training: bool, **masks: keras.KerasTensor | None
    ) -> keras.KerasTensor:
        return self.feed_forward_residual(
            x,
            sublayer=lambda y: self.feed_forward(y, training=training, **masks),
            training=training,
        )


@keras.saving.register_keras_serializable(package="t2t_lite")
class ExpertEncoderLayer(_ExpertLayer, EncoderLayer):
    """An `EncoderLayer` whose `feed_forward` is a `MixtureOfExperts`."""

    def call(
        self,
        x: keras.KerasTensor,
        bias: keras.KerasTensor | None = None,
        training: bool = False,
        mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, S, D] to [B, S, D]; see `EncoderLayer.call`."""
        return self._mixed(self._attended(x, bias, training, mask), training, mask=mask)

    def mask_arguments(self, mask: keras.KerasTensor) -> dict[str, keras.KerasTensor]:
        """See `TransformerLayer.mask_arguments`."""
        return {"mask": mask}


@keras.saving.register_keras_serializable(package="t2t_lite")
class ExpertDecoderLayer(_ExpertLayer, DecoderLayer):
    """A `DecoderLayer` whose `feed_forward` is a `MixtureOfExperts`."""

    def call(
        self,
        x: keras.KerasTensor,
        encoder_output: keras.KerasTensor | KeysValues,
        causal: keras.KerasTensor | None = None,
        padding: keras.KerasTensor | None = None,
        training: bool = False,
        encoder_output_mask: keras.KerasTensor | None = None,
        x_mask: keras.KerasTensor | None = None,
    ) -> keras.KerasTensor:
        """Maps `x` [B, T, D] to [B, T, D].

        Args:
            x: the layer's input.
            encoder_output: see `DecoderLayer.call`, as for what follows.
            causal: [1, 1, T, T], hides the future.
            padding: [B, 1, 1, S], hides the source's padding.
            training: whether dropout and noise are on.
            encoder_output_mask: [B, S], False at padding.
            x_mask: [B, T], False at positions that predict padding, which the losses do not count.
        """
        x = self._attended(x, encoder_output, causal, padding, training, encoder_output_mask)
        return self._feed_forward(x, training, counted=x_mask)

    def mask_arguments(self, mask: keras.KerasTensor) -> dict[str, keras.KerasTensor]:
        """See `TransformerLayer.mask_arguments`."""
        return {"x_mask": mask}

    def _feed_forward(
        self, x: keras.KerasTensor, training: bool, counted: Any = None
    ) -> keras.KerasTensor:
        # Not the mask that Keras keeps with `x`: no output may depend on what its own position
        # will hold, and in a search, an id of 0 is not padding.
        everywhere = ops.ones_like(x[..., 0], dtype="bool")
        return self._mixed(x, training, mask=everywhere, counted=counted)
