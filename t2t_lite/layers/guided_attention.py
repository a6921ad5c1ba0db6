"""Attention to the source whose first head learns a word alignment."""

import contextlib
import contextvars
from collections.abc import Iterator, Mapping
from typing import Any

import keras
from keras import ops

from t2t_lite.errors import UsageError
from t2t_lite.hparams.transformer import TransformerHParams
from t2t_lite.layers.attention import EncoderDecoderAttention
from t2t_lite.layers.auxiliary_losses import AuxiliaryLayer, Statistics
from t2t_lite.layers.base import flattened

# Keeps the logarithm finite where the softmax has become 0.
_LEAST_WEIGHT = 1e-9


@keras.saving.register_keras_serializable(package="t2t_lite")
class GuidedAttention(EncoderDecoderAttention, AuxiliaryLayer):
    """Supervises its first head (Chen et al. 2016; Garg et al. 2019, section 3.3).

    Its loss is the cross entropy of the head's weights for the source position that each target
    position is aligned to, the mean over all that are.

    Args:
        channels: D.
        heads: H.
        weight: of the loss, beside the mean loss of a token.
        **kwargs: see `MultiHeadAttention`.
    """

    def __init__(self, channels: int, heads: int, weight: float, **kwargs: Any) -> None:
        super().__init__(channels, heads, **kwargs)
        self.weight = weight

    @property
    def statistics_shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The summed cross entropy in nats, and the number of target positions."""
        return {"entropy": (), "aligned": ()}

    def auxiliary_losses(self, sums: Statistics) -> dict[str, keras.KerasTensor]:
        """Returns the weighted mean."""
        mean = sums["entropy"] / ops.maximum(sums["aligned"], 1.0)
        return {"guided_alignment": self.weight * mean}

    @contextlib.contextmanager
    def guided_by(self, alignment: keras.KerasTensor) -> Iterator[None]:
        """Supervises the calls inside the block.

        Args:
            alignment: [B, T], the source position that each target position is aligned to, from 1;
                0: none.
        """
        token = _guide.set((self, alignment))
        try:
            yield
        finally:
            _guide.reset(token)

    def alignment(self, weights: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the weights [B, Q, S] of the first head alone, which aligns."""
        return super().alignment(weights[:, :1])

    def observe(self, weights: keras.KerasTensor) -> None:
        """Adds the loss of the weights [B, H, T, S], if they are supervised."""
        super().observe(weights)
        guided, alignment = _guide.get()
        if guided is not self:
            return
        size = ops.shape(weights)[3]
        # A source that was truncated may have lost the position.
        is_aligned = (alignment > 0) & (alignment <= size)
        places = ops.where(is_aligned, alignment - 1, 0)[..., None]  # [B, T, 1]
        first = ops.cast(weights[:, 0], "float32")  # [B, T, S]
        chosen = ops.take_along_axis(first, places, axis=2)[..., 0]  # [B, T]
        entropy = -ops.log(ops.maximum(chosen, _LEAST_WEIGHT))
        self.add_statistics(
            {
                "entropy": ops.sum(ops.where(is_aligned, entropy, 0.0)),
                "aligned": ops.sum(ops.cast(is_aligned, "float32")),
            }
        )


# The layer that is supervised, and its alignment.
_guide = contextvars.ContextVar[tuple[GuidedAttention | None, Any]]("guide", default=(None, None))


def of_hparams(hparams: TransformerHParams, **arguments: Any) -> GuidedAttention:
    """Creates the layer according to the hparams; for `arguments` see `MultiHeadAttention`."""
    h = hparams
    return GuidedAttention(h.hidden_size, h.num_heads, h.guided_alignment_weight, **arguments)


def require_guide(model: Any) -> None:
    """Raises UsageError if a model whose hparams ask for guidance has no attention to guide."""
    if not (
        model.has_source_attention
        and any(isinstance(layer, GuidedAttention) for layer in flattened(model))
    ):
        raise UsageError(
            f"hparam guided_alignment_weight={model.hparams.guided_alignment_weight:g}: this model "
            "has no attention to a source that an alignment could guide; set it to 0"
        )
